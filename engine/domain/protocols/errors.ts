import { ERRORS, type ErrorCode, type ErrorDetails, type StageError } from '../../base/contract/errors.ts';
import { isShortWait } from '../../base/kit/retry-hints.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { MEANINGS, MESSAGES_TYPES, meaningOf, readError, statusOf } from './read-error.ts';
import { isObject, own, present } from './read-json.ts';
import type { Json, Problem } from './translation/conversation.ts';

/** The request of an error. */
export interface FailedRequest {
  readonly request_id: string;
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
}

export interface BrokenStream extends FailedRequest {
  readonly said?: string;
}

interface ErrorName {
  readonly type: string;
  readonly code: string | null;
}

/** Formats errors of the gateway and of upstreams in a protocol. */
export interface ProtocolErrors {
  nameOf(error: StageError): ErrorName;
  body(error: StageError, request_id: string): string;
  /** Headers of a gateway error, after its own; the text of `refusal_header` is shown by the coding CLI. */
  headers(error: StageError, refusal_header?: string): Record<string, string>;
  breakOff(error: StageError, stream: BrokenStream): string;
  /** The value of `error` in the envelope. Keeps the message, except for a context overflow. */
  fields(problem: Problem): Json;
  write(problem: Problem, request_id: string): Json;
  /** Whether clients of this protocol recognise the error as a context overflow. */
  knowsOverflow(error: Pick<Problem, 'message' | 'code'>): boolean;
  /** A whole stream with the error, for clients that read errors only there. */
  stream?(problem: Problem, request: FailedRequest): string;
}

/** The error in a body or event of an upstream, any JSON or text; without `status` its kind decides. */
export function readProblem(status: number | undefined, body: unknown): Problem {
  const error = readError(body);
  const { type, code, param } = error;
  const known = status ?? statusOf(error);
  const message = error.message || `The upstream responded with an error (status ${known}) without a message.`;
  const context_overflow = meaningOf(error, known)?.meaning === 'context_full';
  return {
    // Independent of the upstream's status: clients retry failed requests, but not rejected ones.
    status: context_overflow ? MEANINGS.context_full.status : known,
    message,
    ...present({ type, code, param }),
    context_overflow,
  };
}

/** Headers about retries; a request that is too long fails again. */
export const RETRY_HEADERS: readonly string[] = ['retry-after', 'retry-after-ms', 'x-should-retry'];

/** A context overflow as clients of a protocol know it; other fields of the error as `said` are kept. */
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

export function messagesTypeOfStatus(status: number): string {
  if (status === 408) return 'timeout_error';
  const exact = Object.entries(MESSAGES_TYPES).find(([, [own_status]]) => own_status === status);
  if (exact !== undefined) return exact[0];
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/** A gateway error as a problem for clients of a protocol. */
export function problemOf(error: StageError, errors: ProtocolErrors): Problem {
  const { type, code } = errors.nameOf(error);
  const { status, message } = error;
  return { status, message, type, ...(code !== null && { code }), context_overflow: false };
}

function shouldRetry(error: StageError): string | undefined {
  const { code, headers } = error;
  const { retry } = ERRORS[code] as { retry?: boolean };
  const status = refusalOf(error);
  if (status !== undefined)
    return headers['x-should-retry'] ?? String(status === 429 || (status >= 500 && status !== 501));
  return headers['x-should-retry'] ?? (retry === undefined ? undefined : String(retry));
}

/** The status of a rejection by the upstream that the gateway rewords; it determines the error type. */
function refusalOf({ code, status }: StageError): number | undefined {
  return code === 'upstream_failed' && status !== ERRORS.upstream_failed.status ? status : undefined;
}

export function messagesTypeOf(error: StageError): string {
  const status = refusalOf(error);
  return status === undefined ? ERRORS[error.code].type : messagesTypeOfStatus(status);
}

export function errorHeaders(error: StageError): Record<string, string> {
  const retry = shouldRetry(error);
  return {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(retry === undefined ? {} : { 'x-should-retry': retry }),
    ...error.headers,
  };
}

/** Rejections by limits; clients of chat completions and Responses must know whether waiting helps. */
const LIMITS: ReadonlySet<ErrorCode> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

function isLasting(error: StageError): boolean {
  return LIMITS.has(error.code) && shouldRetry(error) === 'false';
}

type Detail = ErrorDetails[string];

/** Details with `resets_at` in whole seconds, as one client can't parse a string there; that is in `reset_time`. */
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

function compatOf(messages_type: string | undefined): ErrorName | undefined {
  const [, type, code] = own(MESSAGES_TYPES, messages_type) ?? [];
  return type === undefined ? undefined : { type, code: code ?? null };
}

function compatNameOfStatus(status: number): ErrorName {
  return compatOf(messagesTypeOfStatus(status))!;
}

function ownName(error: StageError): ErrorName {
  const type = messagesTypeOf(error);
  return type === ERRORS[error.code].type ? ERRORS[error.code].compat : compatOf(type)!;
}

export const OVERFLOW_CODE = 'context_length_exceeded';

/** Phrases by which coding clients of chat completions recognise a context overflow. */
const KNOWN_OVERFLOW = /prompt is too long|maximum context length|context_length_exceeded/i;

export const compatErrors: Omit<ProtocolErrors, 'breakOff'> = {
  nameOf: ownName,
  body(error, request_id) {
    const compat = ownName(error);
    const { message, details } = error;
    const type = isLasting(error) ? ERRORS.spend_limit_exceeded.compat.type : compat.type;
    const fields = { message, type, code: compat.code, param: null, ...withUnixTimes(details), request_id };
    return jsonText({ error: fields });
  },
  /** Omits a wait that is too long for clients. */
  headers(error, refusal_header) {
    const headers = errorHeaders(error);
    const { 'retry-after': wait, ...others } = headers;
    if (!isLasting(error)) return wait === undefined || isShortWait(wait) ? headers : others;
    return {
      ...others,
      // The coding CLI retries with back-off after every status except 429 and 400; without a wait its turn ends sooner.
      ...(error.status !== 429 && { 'retry-after': '0' }),
      // The client appends its own text, so the full stop is removed.
      ...(refusal_header !== undefined && { [refusal_header]: headerText(error.message).replace(/\.$/, '') }),
    };
  },
  fields: (problem) => ({ message: problem.message, ...compatName(problem), param: problem.param ?? null }),
  write: (problem, request_id) => ({ error: { ...compatErrors.fields(problem), request_id } }),
  knowsOverflow: ({ code, message }) => code === OVERFLOW_CODE || KNOWN_OVERFLOW.test(message),
};
