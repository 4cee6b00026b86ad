import { ERRORS, type StageError } from '../contract/errors.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/adapter.ts';
import type { Problem } from './translation/events.ts';

/** What is known of a stream that breaks off. */
export interface BrokenStream {
  readonly request_id: string;
  /** Responses: the number of the next event, 0 where it is not known. */
  readonly sequence_number?: number;
}

/** What an error is called. */
export interface ErrorName {
  readonly type: string;
  readonly code: string | null;
}

/** How a protocol says that something is wrong: errors of the gateway's own, and those an upstream answered with. */
export interface ProtocolErrors {
  /** Statuses of the names that this protocol has for errors. */
  readonly statuses: Readonly<Record<string, number>>;
  nameOf(error: StageError): ErrorName;
  /** The JSON body of an error of the gateway's own. */
  body(error: StageError, request_id: string): string;
  /**
   * Response headers of an error of the gateway's own; what the error itself says wins.
   * @param refusal_header of the profile: the header whose text the coding CLI shows.
   */
  headers(error: StageError, refusal_header?: string): Record<string, string>;
  /** The server-sent events that end a stream with an error. */
  breakOff(error: StageError, stream: BrokenStream): string;
  /** What stands under `error` in the envelope. The message stays as it is, but for overflow of the context. */
  fields(problem: Problem): Record<string, unknown>;
  /** The body of an error response. */
  write(problem: Problem, request_id: string): Record<string, unknown>;
}

/** `error.type` of the Messages protocol, with the status each has. */
export const MESSAGES_STATUS: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  not_supported: 501,
  timeout_error: 504,
  overloaded_error: 529,
};

/** Statuses of the codes and types of chat completions and Responses; a code says more than a type. */
export const COMPAT_STATUS: Readonly<Record<string, number>> = {
  invalid_api_key: 401,
  model_not_found: 404,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  usage_limit_reached: 429,
  context_length_exceeded: 400,
  server_is_overloaded: 503,
  slow_down: 503,
  invalid_prompt: 400,
  server_error: 500,
  invalid_request_error: 400,
  requests: 429,
  tokens: 429,
};

const OVERFLOW = /prompt is too long|maximum context length|context_length_exceeded|context window/i;

/** The longest text that is passed on where it does not stand where the protocol has its message. */
const FOREIGN_TEXT_MAX = 1000;

/** The longest name of an error, so that a whole page does not become one. */
const NAME_MAX = 100;

function nameIn(fields: Json, key: string): string | undefined {
  const value = fields[key];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' && value.length <= NAME_MAX ? value : undefined;
}

/** The own property of a table that hostile text may name. */
export const own = <T>(table: Readonly<Record<string, T>>, key: string | undefined): T | undefined =>
  key !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;

/** The text of an error that is JSON but not the protocol's. */
function foreignText(body: unknown): string | undefined {
  if (typeof body === 'string') return body.length <= FOREIGN_TEXT_MAX && body !== '' ? body : undefined;
  if (!isObject(body)) return undefined;
  return [body.error, body.message, body.detail].find(
    (text): text is string => typeof text === 'string' && text !== '' && text.length <= FOREIGN_TEXT_MAX,
  );
}

/** Status of an error that came without one. */
function statusOf(statuses: ProtocolErrors['statuses'], type: string | undefined, code: string | undefined): number {
  const told = Number(code);
  if (Number.isInteger(told) && told >= 400 && told < 600) return told;
  return own(statuses, code) ?? own(statuses, type) ?? own(MESSAGES_STATUS, type) ?? own(COMPAT_STATUS, type) ?? 500;
}

/**
 * What an upstream says is wrong: the body of an error response, or `{ error }` of an event. `status` is the response's;
 * without one it follows from the kind of error. Any JSON is taken.
 */
export function readProblem(
  { statuses }: Pick<ProtocolErrors, 'statuses'>,
  status: number | undefined,
  body: unknown,
): Problem {
  const whole = Array.isArray(body) && body.length === 1 ? (body[0] as unknown) : body;
  const fields = isObject(whole) ? whole : {};
  const error = isObject(fields.error) ? fields.error : undefined;
  const source = error ?? fields;
  const told = error?.message;
  const type = error === undefined && source.type === 'error' ? undefined : nameIn(source, 'type');
  const code = nameIn(source, 'code');
  const param = nameIn(source, 'param');
  const known = status ?? statusOf(statuses, type, code);
  const message =
    (typeof told === 'string' && told !== '' ? told : foreignText(error ?? whole)) ??
    `The upstream answered with an error (status ${known}) and did not say more.`;
  return {
    status: known,
    message,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(param !== undefined && { param }),
    context_overflow: known !== 429 && (code === 'context_length_exceeded' || OVERFLOW.test(message)),
  };
}

/** What the Messages protocol calls an error with this status. */
export function messagesTypeOfStatus(status: number): string {
  if (status === 408) return 'timeout_error';
  const exact = Object.entries(MESSAGES_STATUS).find(([, own_status]) => own_status === status);
  if (exact !== undefined) return exact[0];
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/** An error of the gateway's own as a problem for a client of a protocol. */
export function problemOf(error: StageError, errors: ProtocolErrors): Problem {
  const { type, code } = errors.nameOf(error);
  const { status, message } = error;
  return { status, message, type, ...(code !== null && { code }), context_overflow: false };
}

/** What is said about sending the request again: `true`, `false` or nothing. */
export function shouldRetry(error: StageError): string | undefined {
  const { code, headers } = error;
  const { retry } = ERRORS[code] as { retry?: boolean };
  const status = refusalOf(error);
  if (status !== undefined)
    return headers['x-should-retry'] ?? String(status === 429 || (status >= 500 && status !== 501));
  return headers['x-should-retry'] ?? (retry === undefined ? undefined : String(retry));
}

/** The status of an upstream's refusal that is told in words of the gateway's own: such an error is called what that status is. */
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
