import { jsonText } from '../../kit/text/printable.ts';
import {
  errorHeaders,
  MESSAGES_STATUS,
  messagesTypeOf,
  messagesTypeOfStatus,
  own,
  type ProtocolErrors,
} from '../errors.ts';
import type { Problem } from '../translation/events.ts';

/** Codes whose kind in the Messages protocol does not follow from the status. */
const MESSAGES_TYPES_BY_CODE: Readonly<Record<string, string>> = {
  insufficient_quota: 'billing_error',
  usage_limit_reached: 'billing_error',
  server_is_overloaded: 'overloaded_error',
  slow_down: 'overloaded_error',
  context_length_exceeded: 'invalid_request_error',
};

/** How Messages clients recognise that they must compact the conversation. */
const TOO_LONG = 'prompt is too long';

function messagesType({ type, code, status, context_overflow }: Problem): string {
  if (context_overflow) return 'invalid_request_error';
  const by_code = own(MESSAGES_TYPES_BY_CODE, code) ?? own(MESSAGES_TYPES_BY_CODE, type);
  if (by_code !== undefined) return by_code;
  // Compat servers say invalid_request_error with every status below 500.
  const keep = own(MESSAGES_STATUS, type) !== undefined && (type !== 'invalid_request_error' || status === 400);
  return keep ? type! : messagesTypeOfStatus(status);
}

/** Errors of the Messages protocol. */
export const messagesErrors: ProtocolErrors = {
  statuses: MESSAGES_STATUS,
  nameOf: (error) => ({ type: messagesTypeOf(error), code: error.code }),
  body(error, request_id) {
    const { code, message, details } = error;
    const type = messagesTypeOf(error);
    return jsonText({ type: 'error', error: { type, message, code, ...details }, request_id });
  },
  headers: errorHeaders,
  breakOff: (error, { request_id }) => `event: error\ndata: ${messagesErrors.body(error, request_id)}\n\n`,
  fields(problem) {
    const { message, code, context_overflow } = problem;
    const says_so = !context_overflow || message.toLowerCase().includes(TOO_LONG);
    return {
      type: messagesType(problem),
      message: says_so ? message : `${TOO_LONG}: ${message}`,
      ...(code !== undefined && { code }),
    };
  },
  write: (problem, request_id) => ({ type: 'error', error: messagesErrors.fields(problem), request_id }),
};
