import { ERRORS, type StageError } from '../contract/errors.ts';
import { MEANINGS, MESSAGES_STATUS, meaningOf, statusOfNames } from './error-meanings.ts';
import { type ReadError, readError } from './read-error.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/adapter.ts';
import type { Problem } from './translation/events.ts';

/** The request that an error is told of. */
export interface FailedRequest {
  readonly request_id: string;
  /** What the client called the model. */
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
}

/** What is known of a stream that breaks off. */
export interface BrokenStream extends FailedRequest {
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
  /** Whether the clients of this protocol know from these words that they must compact the conversation. */
  knowsOverflow(error: Pick<Problem, 'message' | 'code'>): boolean;
  /**
   * The whole stream that says what is wrong, where clients that asked for a stream look for it there alone; absent where they
   * read the response of an error.
   */
  stream?(problem: Problem, request: FailedRequest): string;
}

/**
 * What an upstream says is wrong, from the body of an error response or from an event. `status` is the response's; without one it
 * follows from the kind of error. Any JSON is taken, and any text.
 */
export function readProblem(status: number | undefined, body: unknown): Problem {
  const error = readError(body);
  const { type, code, param } = error;
  const known = status ?? statusOf(error);
  const message = error.message || `The upstream answered with an error (status ${known}) and did not say more.`;
  const context_overflow = meaningOf(error, known)?.meaning === 'context_full';
  return {
    // Whatever server says so with another status: clients send a request again that failed, but not one that was refused.
    status: context_overflow ? MEANINGS.context_full.status : known,
    message,
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(param !== undefined && { param }),
    context_overflow,
  };
}

/** The status that an error stands for which came without one; 500 where its words are not known. */
export function statusOf(error: ReadError): number {
  const status = error.status ?? statusOfNames(error.names) ?? 500;
  return meaningOf(error, status)?.meaning === 'context_full' ? MEANINGS.context_full.status : status;
}

/** Headers that say whether and when to send a request again, which is refused again as long as it is not shorter. */
export const RETRY_HEADERS: readonly string[] = ['retry-after', 'retry-after-ms', 'x-should-retry'];

/** How a client is told that its conversation is too long. */
export interface OverflowAnswer {
  readonly status: number;
  readonly content_type: string;
  readonly body: string;
}

/**
 * Says that a conversation is too long in the words and in the place where the clients of a protocol look for it.
 * @param options.said what the upstream answered in the same protocol, of which all other fields are kept
 */
export function overflowAnswer(
  errors: ProtocolErrors,
  problem: Problem,
  options: FailedRequest & { readonly stream: boolean; readonly said?: unknown },
): OverflowAnswer {
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
