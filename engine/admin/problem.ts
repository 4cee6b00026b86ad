import { ERRORS, type ErrorCode, StageError } from '../contract/errors.ts';
import { TokenError } from '../identity/tokens/tokens.ts';
import { LimitError } from '../money/limits/limit-names.ts';

const CODES = {
  invalid: 'invalid_request',
  missing: 'not_found',
  conflict: 'conflict',
  limit: 'conflict',
  forbidden: 'forbidden',
} as const satisfies Readonly<Record<string, ErrorCode>>;

/** What kind of problem it is. `limit`: there are too many already. */
export type AdminProblem = keyof typeof CODES;

/** Why an admin operation was refused: a sentence that begins in lower case and has no full stop. */
export class AdminError extends Error {
  override readonly name = 'AdminError';
  readonly problem: AdminProblem;

  constructor(message: string, problem: AdminProblem = 'invalid') {
    super(message);
    this.problem = problem;
  }
}

/** The sentence of an operation that was refused, and the HTTP status and code for it; `undefined` for any other error. */
export function refusalOf(error: unknown) {
  if (!(error instanceof AdminError || error instanceof TokenError || error instanceof LimitError)) return undefined;
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
