import { StageError } from '../../contract/errors.ts';
import type { AttemptEffect, AttemptRecord, Certainty, DropReason } from '../../contract/forwarding.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { Relay } from '../../contract/stage.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { decompressed } from '../../kit/decompressor.ts';
import { tryParseBounded } from '../../kit/json/bounded.ts';
import { isEventStream, isPlain, mediaType } from '../../kit/media-type.ts';
import { NoTunnel, ProxyUnreachable } from '../../kit/net/tunnel.ts';
import { retryAfterSeconds, retryAfterText } from '../../kit/retry-after.ts';
import { definitionOf } from '../../protocols/definitions.ts';
import { type FailedRequest, overflowAnswer, RETRY_HEADERS, readProblem, statusOf } from '../../protocols/errors.ts';
import {
  BEGINS_AS_ERROR,
  errorIn,
  errorOfEvent,
  MEANINGS,
  meaningOf,
  type ReadError,
  readError,
} from '../../protocols/read-error.ts';
import { isObject } from '../../protocols/read-json.ts';

import { endSaidIn } from '../../protocols/stop-reasons.ts';
import { DESCRIBING } from '../../protocols/translation/translate.ts';
import { type AttemptOutcome, FAILOVER_TABLE } from '../failover-table.ts';
import type { Beginning } from './hold.ts';

const OUTCOME_OF_STATUS: Readonly<Record<number, AttemptOutcome>> = {
  401: 'credential',
  402: 'payment',
  403: 'permission',
  404: 'model_missing',
  429: 'limited',
  501: 'model_missing',
  502: 'bad_gateway',
  503: 'overloaded',
  504: 'bad_gateway',
  529: 'overloaded',
};

/** The outcome that a status stands for, and what else an error response says. */
export function outcomeOf(status: number, error: ReadError | undefined): AttemptOutcome {
  if (status < 400) return 'answered';
  const found = error && meaningOf(error, status);
  const outcome = found && (MEANINGS[found.meaning] as { readonly outcome?: AttemptOutcome }).outcome;
  return outcome ?? OUTCOME_OF_STATUS[status] ?? (status < 500 ? 'caller' : 'failed');
}

/** Whether the upstream may bill an attempt that did not serve its request. */
export function mayBeBilled({ outcome, certainty }: Pick<AttemptRecord, 'outcome' | 'certainty'>): boolean {
  if (certainty === 'not_sent' || !Object.hasOwn(FAILOVER_TABLE, outcome)) return false;
  return FAILOVER_TABLE[outcome as AttemptOutcome].billed === 'possibly';
}

/** An attempt that was not served, with what the client gets if nothing better follows. */
export interface FailedAttempt {
  readonly upstream: string;
  readonly outcome: AttemptOutcome;
  readonly certainty: Certainty;
  /** What the upstream answered, or what the error that began its stream stands for. */
  readonly status: number | undefined;
  readonly sends: number;
  readonly resent: 'stale_socket' | undefined;
  /** Whether nothing of the body is still to be sent. */
  readonly is_through: boolean;
  /** When it was sent, on the monotonic clock. */
  readonly began_at: number;
  readonly ms: number;
  readonly request_id: string | undefined;
  readonly retry_after_seconds: number | undefined;
  /** Whether the error says itself that it is about the model. */
  readonly names_model: boolean;
  /** Whether only the words of its text say what it means. */
  readonly by_phrase?: boolean;
  /** What the upstream said, where that is that the conversation is too long for its model. */
  readonly full_context?: string;
  readonly response?: UpstreamResponse;
  readonly chunks?: readonly Buffer[];
  /** How much of an answer came that is not passed on. */
  readonly received_bytes?: number;
  /** Whether that is all of it, so that it can be passed on later. */
  readonly is_whole?: boolean;
  /** Whether the upstream was asked in another protocol than the client's. */
  readonly is_translated: boolean;
  readonly error?: StageError;
  /** What the system calls it, such as `ECONNREFUSED`. */
  readonly code?: string | undefined;
}

const ERROR_BYTES_MAX = 262_144;

/** The text of an error's body; empty for one that cannot be read. */
export function errorText(response: UpstreamResponse, chunks: readonly Buffer[]): string {
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const encoding = response.headers['content-encoding'];
  if (isPlain(encoding)) return bytes.toString('utf8');
  try {
    return decompressed(encoding!, bytes, ERROR_BYTES_MAX).toString('utf8');
  } catch {
    return '';
  }
}

/** What a client is told of a request that got no answer. A certificate that is not accepted is no connection either. */
export function describeFailure(error: NodeJS.ErrnoException, name: string, is_sent: boolean): StageError {
  if (error instanceof StageError) return error;
  const details = { upstream: name };
  if (is_sent) {
    const message = `The upstream "${name}" dropped the connection before it answered.`;
    return new StageError('upstream_failed', message, { details });
  }
  const is_of_proxy = error instanceof NoTunnel || error instanceof ProxyUnreachable;
  const why = is_of_proxy ? `: ${error.message}` : error.code === undefined ? '' : ` (${error.code})`;
  return new StageError('upstream_unreachable', `No connection to the upstream "${name}"${why}.`, { details });
}

/**
 * What an attempt says about the upstream, where a caller can't make it up: an error about something else than the model is no reason to
 * remember that it is missing, and a refusal of the request may repeat what the caller wrote.
 */
export function effectOf({ outcome, status = 0, names_model, by_phrase, full_context }: FailedAttempt): AttemptEffect {
  const { effect } = FAILOVER_TABLE[outcome];
  // It answered, with a status that says nothing good of it.
  if (full_context !== undefined && status >= 500) return 'neutral';
  if (effect === 'model_missing' && !names_model) return 'neutral';
  if (outcome === 'limited' && status !== 429) return 'neutral';
  if (status !== 400 && status !== 422) return effect;
  if (outcome === 'payment') return 'permission';
  return by_phrase && outcome !== 'caller' ? 'neutral' : effect;
}

const BRIEFLY: Readonly<Partial<Record<AttemptOutcome, string>>> = {
  unreachable: 'no connection',
  unanswered: 'no answer',
  foreign: 'an answer that is not of its protocol',
  empty: 'an answer that ended before it began',
};

/** In a few words, for lists and for those who wait for it. */
export function describeFailed({ outcome, status, code }: FailedAttempt): string {
  if (status !== undefined && status >= 400) return `status ${status}`;
  const words = BRIEFLY[outcome] ?? outcome;
  return code === undefined ? words : `${words} (${code})`;
}

/** Another upstream is asked: what is still to come of this answer is not waited for. */
export function letGo({ response, is_whole }: FailedAttempt): void {
  if (!is_whole) response?.destroy();
}

/**
 * What is wrong with an answer that is not the API's: a redirect, a page, nothing at all. Its status is kept when it is
 * an error, because clients decide by it whether to try again.
 * @param about `name` of the upstream; `now` in milliseconds since the epoch
 * @param options.takes_bytes whether an answer may be anything but a page, as of APIs that answer with files or with nothing
 * @param options.reason what it says, which the client is told
 */
export function refuseForeignAnswer(
  response: UpstreamResponse,
  about: { readonly name: string; readonly now: number },
  first: Buffer | undefined,
  { takes_bytes = false, reason = '' }: { readonly takes_bytes?: boolean; readonly reason?: string } = {},
): StageError | undefined {
  const { name, now } = about;
  const status = response.statusCode!;
  const found = takes_bytes && status < 300 ? notBytes(response) : foreignContent(response, first);
  if (found === undefined) return undefined;
  const expected = takes_bytes ? 'an answer of its API' : 'JSON';
  const fact = `The upstream "${name}" answered with ${found} (status ${status}) where ${expected} was expected`;
  const message = reason === '' ? `${fact}.` : `${fact}. It says: ${reason}`;
  const retry_after = retryAfterSeconds(response.headers, now);
  return new StageError('upstream_invalid', message, {
    details: { upstream: name, upstream_status: status },
    ...(status >= 400 && status <= 599 && { status }),
    headers: {
      ...(retry_after !== undefined && { 'retry-after': retryAfterText(retry_after) }),
      // A client error stays one however often it is repeated.
      ...(status >= 400 && status < 500 && status !== 429 && { 'x-should-retry': 'false' }),
    },
  });
}

/** A page is what somebody in between has to say. */
function notBytes({ statusCode, headers }: UpstreamResponse): string | undefined {
  if (statusCode! < 200) return 'a status that HTTP does not have';
  return mediaType(headers['content-type']).includes('html') ? 'an HTML page' : undefined;
}

function foreignContent({ statusCode, headers }: UpstreamResponse, first: Buffer | undefined): string | undefined {
  if (statusCode! < 200 || statusCode! > 599) return 'a status that HTTP does not have';
  if (statusCode! >= 300 && statusCode! < 400) return 'a redirect';
  if (statusCode === 204 || statusCode === 205) return 'no content';
  if (first === undefined) return 'an empty body';
  const type = mediaType(headers['content-type']);
  const readable = isPlain(headers['content-encoding']);
  if (type.includes('event-stream')) return undefined;
  if (type.includes('json')) return readable && statusCode! < 300 ? contentOf(first) : undefined;
  const json = readable ? /^\s*[{[]/.test(first.toString('latin1', 0, 64)) : type === '';
  if (json) return undefined;
  return type.includes('html') ? 'an HTML page' : type === 'text/plain' ? 'plain text' : 'something else';
}

/** What is called JSON and begins as no object or list can; blanks before it are sent by some while they compute. */
function contentOf(first: Buffer): string | undefined {
  const begin = /\S/.exec(first.toString('latin1', 0, 64))?.[0];
  // Some begin with a byte order mark.
  if (begin === undefined || begin === '{' || begin === '[' || begin === '\u00ef') return undefined;
  return begin === '<' ? 'an HTML page' : 'something else';
}

interface Answered {
  readonly response: UpstreamResponse;
  readonly beginning: Beginning;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly is_other: boolean;
}

type Judgement = Pick<
  FailedAttempt,
  | 'outcome'
  | 'certainty'
  | 'status'
  | 'retry_after_seconds'
  | 'names_model'
  | 'by_phrase'
  | 'full_context'
  | 'response'
  | 'chunks'
  | 'is_whole'
  | 'error'
>;

/** Why an answer is none to give to the client as long as somebody else can answer; `undefined` where it is one. */
export function judgeAnswer(answered: Answered): Judgement | undefined {
  const { statusCode: status = 0, headers } = answered.response;
  if (status >= 400 && status <= 599) return judgeError(answered, status);
  if (status === 200 && isEventStream(headers['content-type'])) return judgeStream(answered);
  return judgeDocument(answered);
}

function judgeError({ response, beginning, name, now, is_other }: Answered, status: number): Judgement {
  const text = errorText(response, beginning.chunks);
  const said = readError(text);
  // What is missing there may be a file, and says nothing about a model.
  const is_file = is_other && status === 404;
  const outcome = outcomeOf(status, is_file ? undefined : said);
  const means = judged(outcome, status, is_other ? undefined : { said, text });
  // Clients are told that the conversation is too long in words of their own, whatever it was said in.
  const foreign =
    means.full_context === undefined
      ? refuseForeignAnswer(response, { name, now }, beginning.chunks[0], {
          takes_bytes: is_other,
          reason: said.message,
        })
      : undefined;
  const broken = beginning.by === 'broken' ? dropped(name, 'in the middle of its response') : undefined;
  const error = foreign ?? broken;
  return {
    ...means,
    retry_after_seconds: retryAfterSeconds(response.headers, now, text),
    ...(error === undefined ? passedOn(response, beginning) : { error }),
  };
}

function judgeStream({ response, beginning, name, now }: Answered): Judgement | undefined {
  const { event, by, chunks } = beginning;
  if (by === 'enough') return undefined;
  if (by === 'silent') {
    response.destroy();
    return { ...judged('unanswered', 200), error: silent(name) };
  }
  const text = event === undefined ? errorText(response, chunks) : event.data;
  const said = event === undefined ? errorIn(text) : errorOfEvent(event.name, text);
  if (said !== undefined) {
    const status = statusOf(said);
    return {
      ...judged(outcomeOf(status, said), status, { said, text }),
      retry_after_seconds: retryAfterSeconds(response.headers, now, event?.data),
      ...passedOn(response, beginning),
    };
  }
  // It broke off before it had said anything.
  if (event !== undefined && endSaidIn(event.data) === 'broken_off') {
    return { ...judged('failed', 502), ...passedOn(response, beginning) };
  }
  if (by === 'complete') return undefined;
  const error = dropped(name, 'before its stream said anything');
  // Whatever it is, it is all that the upstream has to say.
  if (by === 'ended' && saysSomething(response, chunks)) {
    return { ...judged('empty', 200), ...passedOn(response, beginning) };
  }
  return { ...judged('empty', 200), error };
}

/** Whether there is more than comments in what was meant to be a stream. */
function saysSomething(response: UpstreamResponse, chunks: readonly Buffer[]): boolean {
  if (chunks.length === 0) return false;
  return !isPlain(response.headers['content-encoding']) || /^[^:\s]/m.test(errorText(response, chunks));
}

function judgeDocument({ response, beginning, name, now, is_other }: Answered): Judgement | undefined {
  const { statusCode: status = 0, headers } = response;
  const { by, chunks } = beginning;
  if (by === 'silent') {
    response.destroy();
    return { ...judged('unanswered', status), error: silent(name) };
  }
  if (by === 'broken') return { ...judged('empty', status), error: dropped(name, 'in the middle of its response') };
  const foreign = refuseForeignAnswer(response, { name, now }, chunks[0], { takes_bytes: is_other });
  if (foreign !== undefined) {
    response.destroy();
    // A page says that no model was asked, and so does a redirect; nothing at all says nothing.
    return { ...judged(chunks.length === 0 && status < 300 ? 'empty' : 'foreign', status), error: foreign };
  }
  if (is_other) return undefined;
  const text = isPlain(headers['content-encoding']) ? chunks[0]!.toString('utf8') : '';
  const said = BEGINS_AS_ERROR.test(text.slice(0, 64)) ? errorIn(text) : undefined;
  if (said === undefined) return undefined;
  const stands_for = statusOf(said);
  return { ...judged(outcomeOf(stands_for, said), stands_for, { said, text }), ...passedOn(response, beginning) };
}

function judged(
  outcome: AttemptOutcome,
  status: number,
  error?: { readonly said: ReadError; readonly text: string },
): Judgement {
  const judgement = { outcome, status, certainty: 'answered', retry_after_seconds: undefined } as const;
  if (error === undefined) return { ...judgement, names_model: false };
  const { said, text } = error;
  const found = meaningOf(said, status);
  return {
    ...judgement,
    names_model: found?.meaning === 'model_missing' || /\bmodel\b/i.test(said.message),
    by_phrase: found?.by === 'phrase',
    ...(found?.meaning === 'context_full' && { full_context: text }),
  };
}

function passedOn(response: UpstreamResponse, { chunks, by }: Beginning) {
  return { response, chunks, is_whole: by === 'complete' && response.complete };
}

function dropped(name: string, when: string): StageError {
  return new StageError('upstream_failed', `The upstream "${name}" dropped the connection ${when}.`, {
    details: { upstream: name },
  });
}

function silent(name: string): StageError {
  const message = `The upstream "${name}" began to answer and then sent nothing; the same request sent again is paid again.`;
  return new StageError('upstream_timeout', message, {
    details: { upstream: name },
    headers: { 'x-should-retry': 'false' },
  });
}

export type WholeAnswer = Required<Pick<Relay, 'response' | 'begun'>>;

const OF_BYTES: ReadonlySet<string> = new Set([
  ...DESCRIBING,
  ...RETRY_HEADERS,
  'content-encoding',
  'content-length',
  'content-type',
  'transfer-encoding',
]);

const nothing = () => undefined;

/** An answer with the headers of another that say nothing of its bytes. */
function inPlaceOf(
  { rawHeaders }: UpstreamResponse,
  { status, content_type, body }: ReturnType<typeof overflowAnswer>,
): WholeAnswer {
  const bytes = Buffer.from(body);
  const own = { 'content-type': content_type, 'content-length': String(bytes.length) };
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!OF_BYTES.has(rawHeaders[i]!.toLowerCase())) kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  const response: UpstreamResponse = {
    statusCode: status,
    headers: own,
    rawHeaders: [...kept, ...Object.entries(own).flat()],
    complete: true,
    readableEnded: true,
    destroyed: false,
    on: nothing,
    off: nothing,
    pause: nothing,
    resume: nothing,
    destroy: nothing,
  };
  return { response, begun: [bytes] };
}

/** An error in the upstream's words as a response of its own, whatever it came in: translation reads it there. */
export function asErrorResponse(response: UpstreamResponse, text: string): WholeAnswer {
  return inPlaceOf(response, { status: 400, content_type: 'application/json', body: text });
}

/**
 * Says to clients of the upstream's own protocol that the conversation is too long, where the upstream says it in words they do
 * not know: they would never compact it. `undefined` where they know them, and get the upstream's bytes.
 */
export function rewordOverflow(
  protocol: Protocol,
  text: string,
  { response, ...how }: FailedRequest & { readonly response: UpstreamResponse; readonly stream: boolean },
): WholeAnswer | undefined {
  const { errors } = definitionOf(protocol);
  const { statusCode: status = 0 } = response;
  const said = tryParseBounded(text);
  if (errors.knowsOverflow(inPlace(said))) return undefined;
  const problem = readProblem(status < 400 ? undefined : status, text);
  return inPlaceOf(response, overflowAnswer(errors, problem, { ...how, said }));
}

/** What stands where clients read it: words of others that are told somewhere else they do not see. */
function inPlace(said: unknown): { readonly message: string; readonly code?: string } {
  if (!isObject(said)) return { message: '' };
  const found = isObject(said.response) ? said.response.error : said.error;
  const { message, code } = isObject(found) ? found : {};
  return { message: typeof message === 'string' ? message : '', ...(typeof code === 'string' && { code }) };
}

/** Longest wait that clients are told: the Messages client gives up at once for a longer one. */
const RETRY_AFTER_MAX = 60;

/** Statuses that are told before all others when no upstream could serve, in this order, the last of each. */
const TOLD_FIRST: readonly (readonly number[])[] = [[429], [401, 402, 403], [404], [501]];

/** What the client of a request that no upstream served is answered: the answer of one of them, or an error of our own. */
export type LastWord =
  | { readonly attempt: FailedAttempt; readonly retry_after: string | undefined }
  | { readonly error: StageError };

/**
 * Chooses the last word among attempts that failed, the last of them last. An upstream that was alone speaks for itself.
 * @param waits_seconds after how long an upstream may serve again, as far as it is known.
 */
export function lastWord(failed: readonly FailedAttempt[], waits_seconds: readonly number[]): LastWord {
  const last = failed.at(-1)!;
  const names = new Set(failed.map(({ upstream }) => upstream));
  if (names.size === 1 || last.outcome === 'caller' || last.outcome === 'gone') return own(last, undefined);
  const retry_after = shortest(waits_seconds);
  for (const statuses of TOLD_FIRST) {
    const chosen = failed.findLast(
      ({ status, outcome }) => status !== undefined && outcome !== 'foreign' && statuses.includes(status),
    );
    if (chosen === undefined) continue;
    if (chosen === last || (chosen.is_whole && !chosen.is_translated && !last.is_translated)) {
      return own(chosen, retry_after);
    }
    return { error: inItsPlace(chosen, retry_after) };
  }
  return { error: noneAnswered(failed, names.size, retry_after) };
}

function own(attempt: FailedAttempt, retry_after: string | undefined): LastWord {
  return attempt.error !== undefined ? { error: attempt.error } : { attempt, retry_after };
}

function shortest(waits_seconds: readonly number[]): string | undefined {
  if (waits_seconds.length === 0) return undefined;
  return String(Math.min(RETRY_AFTER_MAX, Math.max(1, Math.ceil(Math.min(...waits_seconds)))));
}

/** Of an answer in a protocol that cannot be translated any more only the status is told. */
function inItsPlace({ upstream, status }: FailedAttempt, retry_after: string | undefined): StageError {
  return new StageError('upstream_failed', `The upstream "${upstream}" refused the request with status ${status}.`, {
    status: status!,
    details: { upstream, upstream_status: status! },
    ...(retry_after !== undefined && { headers: { 'retry-after': retry_after } }),
  });
}

function noneAnswered(failed: readonly FailedAttempt[], tried: number, retry_after: string | undefined): StageError {
  const last_of_each = [...new Map(failed.map((attempt) => [attempt.upstream, attempt])).values()];
  const told = last_of_each.map(({ upstream, outcome, status }) => {
    return `${upstream} (${status === undefined ? (WITHOUT_STATUS[outcome] ?? outcome) : `status ${status}`})`;
  });
  const fact = `None of ${tried} upstreams served the request: ${told.join(', ')}.`;
  // As one that was alone would say: each of them may be at work on the request.
  const all_late = last_of_each.every(({ error }) => error?.headers['x-should-retry'] === 'false');
  const again = all_late ? ' They may bill it all the same; the same request sent again is paid again.' : '';
  const headers = {
    ...(retry_after !== undefined && { 'retry-after': retry_after }),
    ...(all_late && { 'x-should-retry': 'false' }),
  };
  return new StageError('upstream_failed', fact + again, { details: { tried }, headers });
}

const WITHOUT_STATUS: Readonly<Record<string, string>> = {
  unreachable: 'no connection',
  unanswered: 'no answer',
};

/** What the errors of our own stages say: that a limit has no room or nobody knows whether it has, that it cannot be translated. */
const REASON_OF_CODE: Readonly<Record<string, DropReason>> = {
  spend_limit_exceeded: 'limit',
  rate_limit_exceeded: 'limit',
  store_unavailable: 'limit',
  not_translatable: 'protocol',
  not_supported: 'protocol',
  invalid_request: 'protocol',
};

/** Why an upstream is not asked when a stage raises this error before the attempt. */
export function reasonOf({ code }: StageError): DropReason {
  return REASON_OF_CODE[code] ?? 'stage';
}
