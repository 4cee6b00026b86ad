import { ERRORS, type ErrorCode, type ErrorDetails, type StageError } from '../../base/contract/errors.ts';
import { isShortWait } from '../../base/kit/retry-hints.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { MEANINGS, MESSAGES_TYPES, meaningOf, type ReadError, readError, statusOfNames } from './read-error.ts';
import { isObject, own, present } from './read-json.ts';
import type { Json, Problem } from './translation/conversation.ts';

/** The request of an error. */
export interface FailedRequest {
  readonly request_id: string;
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
}

/** What is known of a stream that breaks off. */
export interface BrokenStream extends FailedRequest {
  /** The events that it sent last. */
  readonly said?: string;
}

interface ErrorName {
  readonly type: string;
  readonly code: string | null;
}

/** Errors in the form of a protocol: of the gateway, and of upstreams. */
export interface ProtocolErrors {
  nameOf(error: StageError): ErrorName;
  body(error: StageError, request_id: string): string;
  /**
   * Response headers of an error of the gateway; those of the error itself win.
   * @param refusal_header of the profile: the header whose text the coding CLI shows.
   */
  headers(error: StageError, refusal_header?: string): Record<string, string>;
  breakOff(error: StageError, stream: BrokenStream): string;
  /** The value of `error` in the envelope. Keeps the message, except for a context overflow. */
  fields(problem: Problem): Json;
  write(problem: Problem, request_id: string): Json;
  /** Whether the clients of this protocol know from these words that they must compact the conversation. */
  knowsOverflow(error: Pick<Problem, 'message' | 'code'>): boolean;
  /**
   * A whole stream with the error, where streaming clients look for it only there; absent where they
   * read the response of an error.
   */
  stream?(problem: Problem, request: FailedRequest): string;
}

/**
 * The error of an upstream, from the body of a response or from an event. `status` is the response's; without one it
 * follows from the kind of error. Any JSON is taken, and any text.
 */
export function readProblem(status: number | undefined, body: unknown): Problem {
  const error = readError(body);
  const { type, code, param } = error;
  const known = status ?? statusOf(error);
  const message = error.message || `The upstream answered with an error (status ${known}) and did not say more.`;
  const context_overflow = meaningOf(error, known)?.meaning === 'context_full';
  return {
    // Whatever the status: clients retry a failed request, but not a refused one.
    status: context_overflow ? MEANINGS.context_full.status : known,
    message,
    ...present({ type, code, param }),
    context_overflow,
  };
}

/** The status of an error that came without one; 500 where its words are unknown. */
export function statusOf(error: ReadError): number {
  const status = error.status ?? statusOfNames(error.names) ?? 500;
  return meaningOf(error, status)?.meaning === 'context_full' ? MEANINGS.context_full.status : status;
}

/** Headers about retries; a request that is too long fails again. */
export const RETRY_HEADERS: readonly string[] = ['retry-after', 'retry-after-ms', 'x-should-retry'];

/**
 * Says that a conversation is too long in the words and in the place where the clients of a protocol look for it.
 * @param options.said the upstream's error in the same protocol, whose other fields are kept
 */
export function overflowAnswer(
  errors: ProtocolErrors,
  problem: Problem,
  options: FailedRequest & { readonly stream: boolean; readonly said?: unknown },
) {
  const { stream, request_id, said } = options;
  if (stream && errors.stream !== undefined)
    return { status: 200, content_type: 'text/event-stream', body: errors.stream(problem, options) };
  const written = errors.write(problem, request_id);
  const kept = isObject(said) ? said : {};
  const error = { ...(written.error as Json), ...(isObject(kept.error) && kept.error), ...errors.fields(problem) };
  const body = JSON.stringify({ ...written, ...kept, error });
  return { status: problem.status, content_type: 'application/json', body };
}

/** What the Messages protocol calls an error with this status. */
export function messagesTypeOfStatus(status: number): string {
  if (status === 408) return 'timeout_error';
  const exact = Object.entries(MESSAGES_TYPES).find(([, [own_status]]) => own_status === status);
  if (exact !== undefined) return exact[0];
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/** An error of the gateway's own as a problem for a client of a protocol. */
export function problemOf(error: StageError, errors: ProtocolErrors): Problem {
  const { type, code } = errors.nameOf(error);
  const { status, message } = error;
  return { status, message, type, ...(code !== null && { code }), context_overflow: false };
}

/** `x-should-retry` of an error: `true`, `false` or nothing. */
function shouldRetry(error: StageError): string | undefined {
  const { code, headers } = error;
  const { retry } = ERRORS[code] as { retry?: boolean };
  const status = refusalOf(error);
  if (status !== undefined)
    return headers['x-should-retry'] ?? String(status === 429 || (status >= 500 && status !== 501));
  return headers['x-should-retry'] ?? (retry === undefined ? undefined : String(retry));
}

/** The status of an upstream's refusal that the gateway rewords: the error gets the name of that status. */
function refusalOf({ code, status }: StageError): number | undefined {
  return code === 'upstream_failed' && status !== ERRORS.upstream_failed.status ? status : undefined;
}

/** What the Messages protocol calls an error of the gateway's own. */
export function messagesTypeOf(error: StageError): string {
  const status = refusalOf(error);
  return status === undefined ? ERRORS[error.code].type : messagesTypeOfStatus(status);
}

/** Headers that errors have in every protocol. */
export function errorHeaders(error: StageError): Record<string, string> {
  const retry = shouldRetry(error);
  return {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(retry === undefined ? {} : { 'x-should-retry': retry }),
    ...error.headers,
  };
}

/** Refusals of limits: of these the clients of chat completions and Responses must know whether waiting helps. */
const LIMITS: ReadonlySet<ErrorCode> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

/** Whether a limit lasts too long for a retry. */
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

/** Longest text of a header, in characters: proxies have 4 KB for all headers of a response. */
const LENGTH_MAX = 600;

/** A sentence as the value of a header: printable ASCII on one line, without accents, truncated. */
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
  const of_messages = compatOf(type);
  if (code !== undefined) return { type: of_messages?.type ?? type ?? compatNameOfStatus(status).type, code };
  if (type === undefined) return compatNameOfStatus(status);
  return of_messages ?? { type, code: null };
}

/** The compat names of an error type of the Messages protocol; `undefined` for an unknown type. */
function compatOf(messages_type: string | undefined): ErrorName | undefined {
  const [, type, code] = own(MESSAGES_TYPES, messages_type) ?? [];
  return type === undefined ? undefined : { type, code: code ?? null };
}

function compatNameOfStatus(status: number): ErrorName {
  return compatOf(messagesTypeOfStatus(status))!;
}

/** What an error of the gateway's own is called. */
function ownName(error: StageError): ErrorName {
  const type = messagesTypeOf(error);
  return type === ERRORS[error.code].type ? ERRORS[error.code].compat : compatOf(type)!;
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
      ...(error.status !== 429 && { 'retry-after': '0' }),
      // The client goes on with words of its own, so without a full stop.
      ...(refusal_header !== undefined && { [refusal_header]: headerText(error.message).replace(/\.$/, '') }),
    };
  },
  fields: (problem) => ({ message: problem.message, ...compatName(problem), param: problem.param ?? null }),
  write: (problem, request_id) => ({ error: { ...compatErrors.fields(problem), request_id } }),
  knowsOverflow: ({ code, message }) => code === OVERFLOW_CODE || KNOWN_OVERFLOW.test(message),
};
