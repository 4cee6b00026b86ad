import { ERRORS, type ErrorCode, type ErrorDetails, type StageError } from '../contract/errors.ts';
import { isShortWait } from '../kit/patience.ts';
import { jsonText } from '../kit/text/printable.ts';
import {
  type ErrorName,
  errorHeaders,
  messagesTypeOf,
  messagesTypeOfStatus,
  type ProtocolErrors,
  shouldRetry,
} from './errors.ts';
import { own } from './read-json.ts';
import type { Problem } from './translation/events.ts';

/** What chat completions and Responses call each kind of error of the Messages protocol. */
const COMPAT_NAMES: Readonly<Record<string, ErrorName>> = {
  invalid_request_error: { type: 'invalid_request_error', code: null },
  authentication_error: { type: 'invalid_request_error', code: 'invalid_api_key' },
  billing_error: { type: 'insufficient_quota', code: 'insufficient_quota' },
  permission_error: { type: 'invalid_request_error', code: 'forbidden' },
  not_found_error: { type: 'invalid_request_error', code: 'model_not_found' },
  conflict_error: { type: 'invalid_request_error', code: 'conflict' },
  request_too_large: { type: 'invalid_request_error', code: 'request_too_large' },
  rate_limit_error: { type: 'requests', code: 'rate_limit_exceeded' },
  api_error: { type: 'server_error', code: null },
  not_supported: { type: 'invalid_request_error', code: 'not_supported' },
  timeout_error: { type: 'server_error', code: null },
  overloaded_error: { type: 'server_error', code: 'server_is_overloaded' },
};

/** Refusals of limits: of these the clients of chat completions and Responses must know whether waiting helps. */
const LIMITS: ReadonlySet<ErrorCode> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

/** Whether a limit refuses what a little patience does not mend. */
function isLasting(error: StageError): boolean {
  return LIMITS.has(error.code) && shouldRetry(error) === 'false';
}

type Detail = ErrorDetails[string];

/**
 * Details as clients of chat completions and Responses read them: `resets_at` in whole seconds since the epoch, because one
 * that finds a text there takes the whole error for unreadable; the text is beside it as `reset_time`.
 */
function withUnixTimes(details: ErrorDetails): ErrorDetails {
  const converted: Record<string, Detail> = {};
  for (const [key, value] of Object.entries(details)) {
    if (key !== 'resets_at') {
      converted[key] = Array.isArray(value) ? value.map((item) => withUnixTimes(item) as typeof item) : value;
      continue;
    }
    converted.resets_at = unixSeconds(value);
    if (typeof value === 'string') converted.reset_time = value;
  }
  return converted;
}

function unixSeconds(value: Detail): number | null {
  const seconds = typeof value === 'string' ? Date.parse(value) / 1000 : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) ? Math.ceil(seconds) : null;
}

/** Longest text of a header, in characters: proxies keep all headers of an answer in 4 KB. */
const LENGTH_MAX = 600;

/** A sentence as the value of a header: printable ASCII on one line, accents taken off, shortened where it is very long. */
export function headerText(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/\s+/gu, ' ')
    .replace(/[^\x20-\x7e]/gu, '?')
    .trim();
  return plain.length <= LENGTH_MAX ? plain : `${plain.slice(0, LENGTH_MAX - 3)}...`;
}

function compatName({ type, code, status, context_overflow }: Problem): ErrorName {
  if (context_overflow) return { type: 'invalid_request_error', code: OVERFLOW_CODE };
  const of_messages = own(COMPAT_NAMES, type);
  if (code !== undefined) return { type: of_messages?.type ?? type ?? compatNameOfStatus(status).type, code };
  if (type === undefined) return compatNameOfStatus(status);
  return of_messages ?? { type, code: null };
}

function compatNameOfStatus(status: number): ErrorName {
  return COMPAT_NAMES[messagesTypeOfStatus(status)]!;
}

/** What an error of the gateway's own is called. */
function ownName(error: StageError): ErrorName {
  const type = messagesTypeOf(error);
  return type === ERRORS[error.code].type ? ERRORS[error.code].compat : COMPAT_NAMES[type]!;
}

/** `error.code` of a conversation that is too long. */
export const OVERFLOW_CODE = 'context_length_exceeded';

/** By these words the coding clients of chat completions know that they must compact the conversation. */
const KNOWN_OVERFLOW = /prompt is too long|maximum context length|context_length_exceeded/i;

/** What errors of chat completions and of Responses have in common. */
export const compatErrors: Omit<ProtocolErrors, 'breakOff'> = {
  nameOf: ownName,
  body(error, request_id) {
    const compat = ownName(error);
    const { message, details } = error;
    const type = isLasting(error) ? ERRORS.spend_limit_exceeded.compat.type : compat.type;
    const fields = { message, type, code: compat.code, param: null, ...withUnixTimes(details), request_id };
    return jsonText({ error: fields });
  },
  /** A wait that no client should sit out is left out. */
  headers(error, refusal_header) {
    const headers = errorHeaders(error);
    const { 'retry-after': wait, ...others } = headers;
    if (!isLasting(error)) return wait === undefined || isShortWait(wait) ? headers : others;
    return {
      ...others,
      // The coding CLI tries again after every status but 429 and 400, later each time: so its turn ends at once.
      ...(error.status !== 429 && error.status !== 400 && { 'retry-after': '0' }),
      // The client goes on with words of its own, so without a full stop.
      ...(refusal_header !== undefined && { [refusal_header]: headerText(error.message).replace(/\.$/, '') }),
    };
  },
  fields: (problem) => ({ message: problem.message, ...compatName(problem), param: problem.param ?? null }),
  write: (problem, request_id) => ({ error: { ...compatErrors.fields(problem), request_id } }),
  knowsOverflow: ({ code, message }) => code === OVERFLOW_CODE || KNOWN_OVERFLOW.test(message),
};
