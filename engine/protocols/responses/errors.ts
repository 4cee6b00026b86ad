import { ERRORS, type StageError } from '../../contract/errors.ts';
import { jsonText } from '../../kit/text/printable.ts';
import { compatErrors } from '../compat-errors.ts';
import type { BrokenStream, ProtocolErrors } from '../errors.ts';

/** Errors of Responses. Its clients look for the one or the other of the two events that end a stream. */
export const responsesErrors: ProtocolErrors = { ...compatErrors, breakOff: responseFailed };

function responseFailed(error: StageError, stream: BrokenStream): string {
  const { request_id, sequence_number = 0 } = stream;
  const { compat } = ERRORS[error.code];
  const code = compat.code ?? compat.type;
  const { message } = error;
  const response = {
    id: `resp_${request_id.replaceAll('-', '')}`,
    object: 'response',
    status: 'failed',
    output: [],
    error: { code, message },
  };
  return (
    event({ type: 'error', sequence_number, code, message, param: null, request_id }) +
    event({ type: 'response.failed', sequence_number: sequence_number + 1, response })
  );
}

function event(value: { readonly type: string; readonly [key: string]: unknown }): string {
  return `event: ${value.type}\ndata: ${jsonText(value)}\n\n`;
}
