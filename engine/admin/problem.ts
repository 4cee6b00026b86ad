import { ERRORS, type ErrorCode, StageError } from '../contract/errors.ts';
import { OperationError, type OperationProblem } from '../contract/operation-error.ts';

const CODES = {
  invalid: 'invalid_request',
  missing: 'not_found',
  conflict: 'conflict',
  forbidden: 'forbidden',
} as const satisfies Readonly<Record<OperationProblem, ErrorCode>>;

/** The sentence of an operation that was refused, and the HTTP status and code for it; `undefined` for any other error. */
export function refusalOf(error: unknown) {
  if (!(error instanceof OperationError)) return undefined;
  const code = CODES[error.problem];
  return { message: error.message, code, status: ERRORS[code].status };
}

/** A refusal as an answer over HTTP: a whole sentence. Any other error as it is. */
export function asStageError(error: unknown): unknown {
  const refusal = refusalOf(error);
  if (refusal === undefined) return error;
  const sentence = refusal.message[0]!.toUpperCase() + refusal.message.slice(1);
  return new StageError(refusal.code, /[.?]$/.test(sentence) ? sentence : `${sentence}.`);
}
