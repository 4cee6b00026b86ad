import { ERRORS, type StageError } from '../../contract/errors.ts';
import type { Protocol } from '../../contract/protocol.ts';
import { isObject } from '../read-json.ts';
import type { Json } from './adapter.ts';
import type { Problem } from './events.ts';

/** `error.type` of the Messages API, with the status each has. */
const MESSAGES_STATUS: Readonly<Record<string, number>> = {
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
const COMPAT_STATUS: Readonly<Record<string, number>> = {
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

interface Name {
  readonly type: string;
  readonly code: string | null;
}

/** What chat completions and Responses call each kind of error of the Messages API. */
const COMPAT_NAMES: Readonly<Record<string, Name>> = {
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

/** Codes whose kind in the Messages API does not follow from the status. */
const MESSAGES_TYPES_BY_CODE: Readonly<Record<string, string>> = {
  insufficient_quota: 'billing_error',
  usage_limit_reached: 'billing_error',
  server_is_overloaded: 'overloaded_error',
  slow_down: 'overloaded_error',
  context_length_exceeded: 'invalid_request_error',
};

const OVERFLOW = /prompt is too long|maximum context length|context_length_exceeded|context window/i;

/** How Messages clients recognise that they must compact the conversation. */
const TOO_LONG = 'prompt is too long';

/** The longest text that is passed on where it does not stand where the API has its message. */
const FOREIGN_TEXT_MAX = 1000;

/** The longest name of an error, so that a whole page does not become one. */
const NAME_MAX = 100;

function nameIn(fields: Json, key: string): string | undefined {
  const value = fields[key];
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' && value.length <= NAME_MAX ? value : undefined;
}

const own = <T>(table: Readonly<Record<string, T>>, key: string | undefined): T | undefined =>
  key !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;

/** The text of an error that is JSON but not the API's. */
function foreignText(body: unknown): string | undefined {
  if (typeof body === 'string') return body.length <= FOREIGN_TEXT_MAX && body !== '' ? body : undefined;
  if (!isObject(body)) return undefined;
  return [body.error, body.message, body.detail].find(
    (text): text is string => typeof text === 'string' && text !== '' && text.length <= FOREIGN_TEXT_MAX,
  );
}

/** Status of an error that came without one. */
function statusOf(protocol: Protocol, type: string | undefined, code: string | undefined): number {
  const told = Number(code);
  if (Number.isInteger(told) && told >= 400 && told < 600) return told;
  const table = protocol === 'messages' ? MESSAGES_STATUS : COMPAT_STATUS;
  return own(table, code) ?? own(table, type) ?? own(MESSAGES_STATUS, type) ?? own(COMPAT_STATUS, type) ?? 500;
}

/**
 * What an upstream says is wrong: the body of an error response, or `{ error }` of an event. `status` is the response's;
 * without one it follows from the kind of error. Any JSON is taken.
 */
export function readProblem(protocol: Protocol, status: number | undefined, body: unknown): Problem {
  const whole = Array.isArray(body) && body.length === 1 ? (body[0] as unknown) : body;
  const fields = isObject(whole) ? whole : {};
  const error = isObject(fields.error) ? fields.error : undefined;
  const source = error ?? fields;
  const told = error?.message;
  const type = error === undefined && source.type === 'error' ? undefined : nameIn(source, 'type');
  const code = nameIn(source, 'code');
  const param = nameIn(source, 'param');
  const known = status ?? statusOf(protocol, type, code);
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

function messagesTypeOfStatus(status: number): string {
  if (status === 408) return 'timeout_error';
  const exact = Object.entries(MESSAGES_STATUS).find(([, own_status]) => own_status === status);
  if (exact !== undefined) return exact[0];
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

function messagesType({ type, code, status, context_overflow }: Problem): string {
  if (context_overflow) return 'invalid_request_error';
  const by_code = own(MESSAGES_TYPES_BY_CODE, code) ?? own(MESSAGES_TYPES_BY_CODE, type);
  if (by_code !== undefined) return by_code;
  // Compat servers say invalid_request_error with every status below 500.
  const keep = own(MESSAGES_STATUS, type) !== undefined && (type !== 'invalid_request_error' || status === 400);
  return keep ? type! : messagesTypeOfStatus(status);
}

function compatName({ type, code, status, context_overflow }: Problem): Name {
  if (context_overflow) return { type: 'invalid_request_error', code: 'context_length_exceeded' };
  const of_messages = own(COMPAT_NAMES, type);
  if (code !== undefined) return { type: of_messages?.type ?? type ?? compatNameOfStatus(status).type, code };
  if (type === undefined) return compatNameOfStatus(status);
  return of_messages ?? { type, code: null };
}

function compatNameOfStatus(status: number): Name {
  return COMPAT_NAMES[messagesTypeOfStatus(status)]!;
}

/** The error object of a protocol: what stands under `error` in its envelope. The message stays as it is, but for overflow. */
export function problemFields(protocol: Protocol, problem: Problem): Record<string, unknown> {
  const { message, code, param, context_overflow } = problem;
  if (protocol !== 'messages') return { message, ...compatName(problem), param: param ?? null };
  const says_so = !context_overflow || message.toLowerCase().includes(TOO_LONG);
  return {
    type: messagesType(problem),
    message: says_so ? message : `${TOO_LONG}: ${message}`,
    ...(code !== undefined && { code }),
  };
}

/** The body of an error response in the envelope of a protocol. */
export function writeProblem(protocol: Protocol, problem: Problem, request_id: string): Record<string, unknown> {
  const error = problemFields(protocol, problem);
  return protocol === 'messages' ? { type: 'error', error, request_id } : { error: { ...error, request_id } };
}

/** An error of the gateway's own as a problem for a client of this protocol. */
export function problemOf(error: StageError, protocol: Protocol): Problem {
  const { type, compat } = ERRORS[error.code];
  const name = protocol === 'messages' ? { type, code: error.code } : { type: compat.type, code: compat.code };
  return {
    status: error.status,
    message: error.message,
    type: name.type,
    ...(name.code !== null && { code: name.code }),
    context_overflow: false,
  };
}
