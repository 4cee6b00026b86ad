/** One attempt: sends a request to one upstream, reads the beginning of the response, and classifies it. @module */
import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { type ErrorCode, StageError } from '../../../base/contract/errors.ts';
import type { AttemptEffect, AttemptRecord, Certainty } from '../../../base/contract/forwarding.ts';
import { protocolOf } from '../../../base/contract/protocol.ts';
import type { Clock, Timer } from '../../../base/contract/services.ts';
import type { Relay } from '../../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import { decompressed, decompressor } from '../../../base/kit/decompressor.ts';
import { isEventStream, isPlain, mediaType } from '../../../base/kit/media-type.ts';
import { NoTunnel, ProxyUnreachable } from '../../../base/kit/net/tunnel.ts';
import { retryAfterSeconds, retryAfterText } from '../../../base/kit/retry-after.ts';
import {
  BEGINS_AS_ERROR,
  definitionOf,
  errorIn,
  errorOfEvent,
  isPreamble,
  MEANINGS,
  meaningOf,
  type ReadError,
  readError,
  responseEndIn,
  statusOf,
} from '../../protocols/index.ts';
import { type AttemptOutcome, FAILOVER_TABLE } from '../failover-table.ts';
import { type ForwardContext, type PreparedRequest, protocolAt, type Target } from '../target.ts';
import type { Sending } from '../transports/transport.ts';

export interface AttemptPlan {
  readonly ctx: ForwardContext;
  readonly target: Target;
  readonly request: PreparedRequest;
  readonly clock: Clock;
  readonly timeouts: GatewayConfig['server']['timeouts'];
  /** Whether the request can go to another upstream when this one times out. */
  readonly can_move_on: boolean;
  readonly may_free: boolean;
  readonly first_byte_seconds: number;
}

interface Sent {
  readonly upstream: string;
  readonly sends: number;
  readonly resent: 'stale_socket' | undefined;
  /** Whether the upstream may still read the body: the request was sent, but its body not completely. */
  readonly is_body_needed: boolean;
  readonly began_at: number;
  readonly ms: number;
  readonly request_id: string | undefined;
  readonly is_translated: boolean;
}

export interface ServedAttempt extends Sent {
  readonly relay: Relay;
}

/** A response that does not serve the request; the client gets it if no later attempt is better. */
interface Failure {
  readonly outcome: AttemptOutcome;
  readonly certainty: Certainty;
  /** Status of the response, or of the error that began its stream. */
  readonly status: number | undefined;
  readonly retry_after_seconds: number | undefined;
  readonly names_model: boolean;
  /** Whether only the error's text shows its meaning. */
  readonly by_phrase?: boolean;
  /** Text of an error that reports a context overflow. */
  readonly full_context?: string;
  readonly response?: UpstreamResponse;
  readonly chunks?: readonly Buffer[];
  /** Whether `chunks` is the whole body, so that it can be relayed later. */
  readonly is_whole?: boolean;
  readonly error?: StageError;
  /** Error code of the system, such as `ECONNREFUSED`. */
  readonly code?: string | undefined;
}

export interface FailedAttempt extends Sent, Failure {
  readonly received_bytes?: number;
}

const ERROR_SECONDS = 2;
const REQUEST_ID_LENGTH = 200;

const isOtherApi = (ctx: ForwardContext): boolean => ctx.get('request.protocol') === 'none';

/** Sends a request to one upstream, and reads the response until it can be classified. */
export async function attemptOnce(plan: AttemptPlan): Promise<ServedAttempt | FailedAttempt> {
  const { ctx, target, clock } = plan;
  const { name } = target.config;
  const is_other_api = isOtherApi(ctx);
  const is_translated = !is_other_api && protocolAt(ctx, target) !== protocolOf(ctx.get('request.protocol'));
  const sending = target.transport.send(plan.request);
  const began_at = clock.monotonic();
  const sent = (request_id?: string): Sent => ({
    upstream: name,
    sends: sending.attempts,
    resent: sending.resent,
    is_body_needed: sending.attempts > 0 && !sending.body_is_sent,
    began_at,
    ms: clock.monotonic() - began_at,
    request_id,
    is_translated,
  });
  let response: UpstreamResponse;
  const timer = limitWait(plan, sending);
  try {
    response = await sending.response;
  } catch (error) {
    return { ...sent(), ...unanswered(error as Error, name, sending) };
  } finally {
    timer.close();
  }
  const answered = sent(requestIdOf(response));
  if (plan.may_free && sending.body_is_sent) ctx.body?.markReleasable();
  const peek = new Peek(response, peekOptions(plan, response));
  let cancelled: StageError | undefined;
  ctx.onCancel((reason) => {
    cancelled = reason;
    response.destroy();
    peek.end('broken');
  });
  const beginning = peek.done ?? (await peek.beginning);
  if (cancelled !== undefined) return { ...answered, ...failure('gone', response.statusCode), error: cancelled };
  const failed = classify({ response, beginning, name, now: clock.now(), is_other_api });
  if (failed === undefined) return { ...answered, relay: relayTo(plan, response, beginning.chunks) };
  const discarded = failed.error === undefined ? [] : beginning.chunks;
  return { ...answered, ...failed, received_bytes: discarded.reduce((sum, { length }) => sum + length, 0) };
}

/** The upstream's identifier of a request, bounded: it is stored. */
function requestIdOf({ headers }: UpstreamResponse): string | undefined {
  const id = headers['request-id'] ?? headers['x-request-id'];
  if (typeof id !== 'string' || id === '') return undefined;
  return id.slice(0, REQUEST_ID_LENGTH).replace(/[^ -~]/g, '?');
}

/** First-byte timeout. A response that comes later is drained for its usage. */
function limitWait(plan: AttemptPlan, sending: Sending): Timer {
  const { ctx, target, clock, can_move_on, first_byte_seconds: seconds } = plan;
  const abandon = (reason: StageError) => sending.abandon(reason);
  ctx.onCancel(abandon);
  // Token counts and uncharged requests have no bill.
  const has_bill = ctx.get('request.protocol') !== 'count_tokens' && ctx.get('spend.most_nano_usd') !== 0;
  ctx.readToEndWithin(has_bill ? target.drain : undefined);
  return clock.after(seconds * 1000, () => {
    // The request is already being drained, with its own limits.
    if (ctx.aborted) return;
    const is_sent = sending.attempts > 0;
    const goes_on = is_sent && !can_move_on && drainLate(plan, sending, abandon);
    const reason = firstByteTimeoutError(target.config.name, seconds, is_sent, goes_on);
    if (goes_on) sending.release(reason);
    else abandon(reason);
    sending.forgetBody();
  });
}

function drainLate(plan: AttemptPlan, sending: Sending, abandon: (reason: StageError) => void): boolean {
  const late = sending.late().then((response) => lateRelay(plan, response));
  late.catch(() => {});
  return plan.ctx.readToEndLater(late, plan.first_byte_seconds, abandon);
}

/** The timeout error. Clients must not retry a request that was sent: the upstream may process and bill it. */
function firstByteTimeoutError(name: string, seconds: number, is_sent: boolean, goes_on: boolean): StageError {
  const fact = `The upstream "${name}" sent no response within ${seconds} seconds`;
  if (!is_sent) return errorOf('upstream_timeout', name, fact);
  const money = goes_on
    ? 'You are charged if the upstream still responds'
    : 'The request was cancelled, and the upstream may still bill it';
  return billableTimeoutError(name, `${fact}. ${money}`);
}

function errorOf(code: ErrorCode, upstream: string, fact: string, headers?: Readonly<Record<string, string>>) {
  return new StageError(code, `${fact}.`, { details: { upstream }, ...(headers && { headers }) });
}

function billableTimeoutError(name: string, fact: string): StageError {
  return errorOf('upstream_timeout', name, `${fact}; a retry may be billed too`, { 'x-should-retry': 'false' });
}

function relayTo(plan: AttemptPlan, response: UpstreamResponse, begun: readonly Buffer[]): Relay {
  const { ctx, first_byte_seconds } = plan;
  const { idle_seconds } = plan.timeouts;
  if (ctx.get('request.stream') === true) return { kind: 'relay', response, idle_seconds, begun };
  const first_chunk_seconds = Math.max(idle_seconds, first_byte_seconds);
  return { kind: 'relay', response, idle_seconds, first_chunk_seconds, begun };
}

function lateRelay(plan: AttemptPlan, response: UpstreamResponse): Relay {
  const relay = relayTo(plan, response, []);
  if (response.statusCode === 200 && isEventStream(response.headers['content-type'])) return relay;
  const answered = { response, name: plan.target.config.name, is_other_api: isOtherApi(plan.ctx) };
  return { ...relay, inspect: (first) => nonApiError({ ...answered, now: plan.clock.now() }, first) };
}

function peekOptions(plan: AttemptPlan, response: UpstreamResponse): PeekOptions {
  const { ctx, target, clock, timeouts, can_move_on, first_byte_seconds } = plan;
  const { statusCode: status = 0, headers } = response;
  if (status >= 400) return { clock, until: 'end', silence_seconds: ERROR_SECONDS, seconds: ERROR_SECONDS };
  const silence_seconds = can_move_on ? first_byte_seconds : timeouts.idle_seconds;
  if (status === 200 && isEventStream(headers['content-type'])) {
    // An overloaded upstream may fail after its preamble.
    const has_preamble =
      target.config.commit_after === 'first_content' || definitionOf(protocolAt(ctx, target)).stream.has_preamble;
    return { clock, until: has_preamble ? 'content' : 'event', silence_seconds, seconds: timeouts.commit_seconds };
  }
  const patience = ctx.get('request.stream') === true ? silence_seconds : Math.max(silence_seconds, first_byte_seconds);
  return { clock, until: 'bytes', silence_seconds: patience, seconds: Infinity };
}

/** The beginning of a response, buffered before any of it is relayed. */
export interface Beginning {
  readonly chunks: readonly Buffer[];
  /** Why buffering ended. `enough`: too long or too large, so the response is relayed. `silent`: idle timeout. */
  readonly by: 'complete' | 'ended' | 'broken' | 'silent' | 'enough';
  readonly event?: { readonly name: string; readonly data: string };
}

export interface PeekOptions {
  /** Until any bytes, the first event, the first event behind the preamble, or the end. */
  readonly until: 'bytes' | 'event' | 'content' | 'end';
  readonly silence_seconds: number;
  readonly seconds: number;
  readonly clock: Clock;
}

const PEEK_BYTES_MAX = 262_144;
const ERROR_PEEK_BYTES_MAX = 65_536;
const PREAMBLE_EVENTS_MAX = 64;
const PREAMBLE_SECONDS = 2;

const ignore = (): void => {};

/** Buffers the beginning of a response; back-pressure stops the rest. */
export class Peek {
  done: Beginning | undefined;
  readonly #response: UpstreamResponse;
  readonly #options: PeekOptions;
  #resolve: ((beginning: Beginning) => void) | undefined;
  readonly #chunks: Buffer[] = [];
  readonly #timers: Timer[] = [];
  #feed: ((chunk: Buffer) => void) | undefined;
  /** Parses the last bytes as an event: some servers omit the blank line after it. */
  #flush: (() => void) | undefined;
  #inflate: Duplex | undefined;
  #size = 0;
  #events = 0;

  constructor(response: UpstreamResponse, options: PeekOptions) {
    this.#response = response;
    this.#options = options;
    const { until, silence_seconds, seconds, clock } = options;
    if (until === 'event' || until === 'content') this.#listenForEvents();
    response.on('data', this.#take);
    response.on('end', this.#onEnd);
    response.on('error', this.#onBroken);
    response.on('close', this.#onBroken);
    // The bytes so far are often sufficient.
    response.resume();
    if (this.done !== undefined) return;
    this.#timers.push(clock.after(silence_seconds * 1000, () => this.end('silent')));
    if (seconds < silence_seconds) this.#endAfter(seconds);
  }

  #endAfter(seconds: number): void {
    // An event that has arrived is not late because this process is slow to read it.
    const end = () => setImmediate(() => this.end('enough'));
    this.#timers.push(this.#options.clock.after(seconds * 1000, end));
  }

  get beginning(): Promise<Beginning> {
    if (this.done !== undefined) return Promise.resolve(this.done);
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  end(by: Beginning['by'], event?: Beginning['event']): void {
    if (this.done !== undefined) return;
    const chunks = this.#chunks;
    this.done = event === undefined ? { chunks, by } : { chunks, by, event };
    for (const timer of this.#timers) timer.close();
    const response = this.#response;
    response.pause();
    response.off('data', this.#take);
    response.off('end', this.#onEnd);
    response.off('error', this.#onBroken);
    response.off('close', this.#onBroken);
    // The next reader attaches a moment later.
    response.on('error', ignore);
    this.#inflate?.destroy();
    this.#resolve?.(this.done);
  }

  readonly #onEnd = (): void => {
    const end = () => {
      this.#flush?.();
      this.end(this.#options.until === 'end' ? 'complete' : 'ended');
    };
    if (this.#inflate === undefined) end();
    // The last chunk is still being parsed.
    else this.#inflate.on('end', end).end();
  };

  readonly #onBroken = (): void => {
    if (!this.#response.readableEnded) this.end('broken');
  };

  readonly #take = (chunk: Buffer): void => {
    const { until } = this.#options;
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#timers[0]?.refresh();
    if (until === 'bytes') this.end('complete');
    else if (this.#size > (until === 'end' ? ERROR_PEEK_BYTES_MAX : PEEK_BYTES_MAX)) this.end('enough');
    else this.#feed?.(chunk);
  };

  #listenForEvents(): void {
    const decoder = new StringDecoder('utf8');
    const parser = createParser({ onEvent: (event) => this.#onEvent(event) });
    const read = (chunk: Buffer) => {
      if (this.done === undefined) parser.feed(decoder.write(chunk));
    };
    this.#flush = () => {
      if (this.done === undefined) parser.feed(`${decoder.end()}\n\n`);
    };
    const encoding = this.#response.headers['content-encoding'];
    if (isPlain(encoding)) {
      this.#feed = read;
      return;
    }
    this.#inflate = decompressor(encoding!);
    // An unreadable body is relayed.
    const abandon = () => this.end('enough');
    this.#inflate?.on('data', read).on('error', abandon);
    this.#feed = this.#inflate === undefined ? abandon : (chunk) => void this.#inflate!.write(chunk);
  }

  #onEvent({ event: name = 'message', data }: EventSourceMessage): void {
    if (this.done !== undefined || name === 'ping') return;
    if (this.#options.until !== 'content' || !isPreamble(name, data)) {
      this.end('complete', { name, data });
      return;
    }
    this.#events += 1;
    if (this.#events >= PREAMBLE_EVENTS_MAX) this.end('enough');
    else if (this.#events === 1) this.#endAfter(PREAMBLE_SECONDS);
  }
}

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

/** The outcome of an error response by its meaning, else by its status. */
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

/**
 * The effect of an attempt on the upstream's state. The wording of a 400 may come from the caller, so it does not count as a failure
 * of the upstream.
 */
export function effectOf({ outcome, status = 0, names_model, by_phrase, full_context }: FailedAttempt): AttemptEffect {
  const { effect } = FAILOVER_TABLE[outcome];
  // An overflow with a 5xx status is neither a success nor a failure.
  if (full_context !== undefined && status >= 500) return 'neutral';
  if (effect === 'model_missing' && !names_model) return 'neutral';
  if (outcome === 'limited' && status !== 429) return 'neutral';
  if (status !== 400 && status !== 422) return effect;
  if (outcome === 'payment') return 'permission';
  return by_phrase && outcome !== 'caller' ? 'neutral' : effect;
}

/** Outcomes without an error status in words. */
const BRIEFLY: Readonly<Partial<Record<AttemptOutcome, string>>> = {
  unreachable: 'no connection',
  unanswered: 'no response',
  foreign: 'a non-API response',
  empty: 'an empty response',
};

/** A failed attempt in a few words. @param code error code of the system, which clients do not see */
export function describeFailed({ outcome, status }: FailedAttempt, code?: string): string {
  if (status !== undefined && status >= 400) return `status ${status}`;
  const words = BRIEFLY[outcome] ?? outcome;
  return code === undefined ? words : `${words} (${code})`;
}

function failure(outcome: AttemptOutcome, status: number | undefined, reported?: ReadError, text = ''): Failure {
  const known = { outcome, status, certainty: 'answered', retry_after_seconds: undefined } as const;
  if (reported === undefined) return { ...known, names_model: false };
  const found = meaningOf(reported, status!);
  return {
    ...known,
    names_model: found?.meaning === 'model_missing' || /\bmodel\b/i.test(reported.message),
    by_phrase: found?.by === 'phrase',
    ...(found?.meaning === 'context_full' && { full_context: text }),
  };
}

function unanswered(error: NodeJS.ErrnoException, name: string, { attempts }: Sending): Failure {
  const is_ours = error instanceof StageError && error.code !== 'upstream_timeout';
  const is_sent = attempts > 0;
  return {
    ...failure(is_ours ? 'gone' : is_sent ? 'unanswered' : 'unreachable', undefined),
    certainty: is_sent ? 'possibly_accepted' : 'not_sent',
    error: error instanceof StageError ? error : connectionError(error, name, is_sent),
    code: error instanceof StageError ? undefined : error.code,
  };
}

/** The error for a request without a response. A rejected certificate counts as no connection. */
function connectionError(error: NodeJS.ErrnoException, name: string, is_sent: boolean): StageError {
  if (is_sent) return connectionDroppedError(name, 'before it responded');
  const is_of_proxy = error instanceof NoTunnel || error instanceof ProxyUnreachable;
  const why = is_of_proxy ? `: ${error.message}` : error.code === undefined ? '' : ` (${error.code})`;
  return errorOf('upstream_unreachable', name, `No connection to the upstream "${name}"${why}`);
}

function connectionDroppedError(name: string, when: string): StageError {
  return errorOf('upstream_failed', name, `The upstream "${name}" dropped the connection ${when}`);
}

interface Answered {
  readonly response: UpstreamResponse;
  readonly beginning: Beginning;
  readonly name: string;
  readonly now: number;
  /** Whether everything except an HTML page is a valid response, as for files. */
  readonly is_other_api: boolean;
}

const passedOn = ({ response, beginning: { chunks, by } }: Answered) => ({
  response,
  chunks,
  is_whole: by === 'complete' && response.complete,
});

/** Why a response does not serve the request; `undefined` where it does. */
function classify(answered: Answered): Failure | undefined {
  const { response, beginning, name } = answered;
  const { statusCode: status = 0, headers } = response;
  if (status >= 400 && status <= 599) return classifyError(answered, status);
  if (beginning.by === 'silent') {
    response.destroy();
    const error = billableTimeoutError(name, `The upstream "${name}" began its response and then stalled`);
    return { ...failure('unanswered', status), error };
  }
  return status === 200 && isEventStream(headers['content-type'])
    ? classifyStream(answered)
    : classifyDocument(answered, status);
}

function classifyError(answered: Answered, status: number): Failure {
  const { response, beginning, name, now, is_other_api } = answered;
  const text = errorText(response, beginning.chunks);
  const reported = readError(text);
  // Such a 404 is about a file, not about the model.
  const outcome = outcomeOf(status, is_other_api && status === 404 ? undefined : reported);
  const found = failure(outcome, status, is_other_api ? undefined : reported, text);
  // A context overflow is reworded for clients even if it is not JSON.
  const foreign =
    found.full_context === undefined ? nonApiError(answered, beginning.chunks[0], reported.message) : undefined;
  const error =
    foreign ?? (beginning.by === 'broken' ? connectionDroppedError(name, 'in the middle of its response') : undefined);
  return {
    ...found,
    retry_after_seconds: retryAfterSeconds(response.headers, now, text),
    ...(error === undefined ? passedOn(answered) : { error }),
  };
}

function classifyStream(answered: Answered): Failure | undefined {
  const { response, beginning, name, now } = answered;
  const { event, by, chunks } = beginning;
  if (by === 'enough') return undefined;
  const text = event === undefined ? errorText(response, chunks) : event.data;
  const reported = event === undefined ? errorIn(text) : errorOfEvent(event.name, text);
  if (reported !== undefined) {
    const retry_after_seconds = retryAfterSeconds(response.headers, now, event?.data);
    return { ...classifyErrorBody(answered, reported, text), retry_after_seconds };
  }
  // It broke off before any content.
  if (event !== undefined && responseEndIn(event.data) === 'broken_off')
    return { ...failure('failed', 502), ...passedOn(answered) };
  if (by === 'complete') return undefined;
  // A stream with other data is relayed if no upstream serves the request.
  if (by === 'ended' && saysSomething(response, chunks)) return { ...failure('empty', 200), ...passedOn(answered) };
  return { ...failure('empty', 200), error: connectionDroppedError(name, 'before its stream had content') };
}

function classifyErrorBody(answered: Answered, reported: ReadError, text: string): Failure {
  const status = statusOf(reported);
  return { ...failure(outcomeOf(status, reported), status, reported, text), ...passedOn(answered) };
}

/** Whether a stream contains anything except comments. */
function saysSomething(response: UpstreamResponse, chunks: readonly Buffer[]): boolean {
  if (chunks.length === 0) return false;
  return !isPlain(response.headers['content-encoding']) || /^[^:\s]/m.test(errorText(response, chunks));
}

function classifyDocument(answered: Answered, status: number): Failure | undefined {
  const { response, beginning, name, is_other_api } = answered;
  const { by, chunks } = beginning;
  if (by === 'broken')
    return { ...failure('empty', status), error: connectionDroppedError(name, 'in the middle of its response') };
  const foreign = nonApiError(answered, chunks[0]);
  if (foreign !== undefined) {
    response.destroy();
    // After a page or a redirect no model ran; after an empty body that is unknown.
    return { ...failure(chunks.length === 0 && status < 300 ? 'empty' : 'foreign', status), error: foreign };
  }
  if (is_other_api) return undefined;
  const text = isPlain(response.headers['content-encoding']) ? chunks[0]!.toString('utf8') : '';
  const reported = BEGINS_AS_ERROR.test(text.slice(0, 64)) ? errorIn(text) : undefined;
  return reported && classifyErrorBody(answered, reported, text);
}

const ERROR_BYTES_MAX = 262_144;

function errorText({ headers }: UpstreamResponse, chunks: readonly Buffer[]): string {
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const encoding = headers['content-encoding'];
  if (isPlain(encoding)) return bytes.toString('utf8');
  try {
    return decompressed(encoding!, bytes, ERROR_BYTES_MAX).toString('utf8');
  } catch {
    return '';
  }
}

/** The error for a non-API response. It keeps an error status, because clients decide by it whether to retry. */
function nonApiError(answered: Omit<Answered, 'beginning'>, first?: Buffer, reason = ''): StageError | undefined {
  const { response, name, now, is_other_api } = answered;
  const status = response.statusCode!;
  const takes_bytes = is_other_api && status < 300;
  const found = takes_bytes ? notBytes(response) : nonApiContent(response, first);
  if (found === undefined) return undefined;
  const expected = is_other_api ? 'a response of its API' : 'JSON';
  const fact = `The upstream "${name}" returned ${found} (status ${status}) instead of ${expected}`;
  const message = reason === '' ? `${fact}.` : `${fact}. Its message: ${reason}`;
  const retry_after = retryAfterSeconds(response.headers, now);
  return new StageError('upstream_invalid', message, {
    details: { upstream: name, upstream_status: status },
    ...(status >= 400 && status <= 599 && { status }),
    headers: {
      ...(retry_after !== undefined && { 'retry-after': retryAfterText(retry_after) }),
      // Retries do not fix a client error.
      ...(status >= 400 && status < 500 && status !== 429 && { 'x-should-retry': 'false' }),
    },
  });
}

const NO_STATUS = 'an invalid HTTP status';

/** A content type that may be quoted to the client. */
const MEDIA_TYPE = /^[\w.+-]{1,40}\/[\w.+-]{1,60}$/;

/** Describes a response that cannot be an API's: an HTML page comes from a proxy in between. */
function notBytes({ statusCode, headers }: UpstreamResponse): string | undefined {
  if (statusCode! < 200) return NO_STATUS;
  return mediaType(headers['content-type']).includes('html') ? 'an HTML page' : undefined;
}

function nonApiContent({ statusCode, headers }: UpstreamResponse, first: Buffer | undefined): string | undefined {
  const status = statusCode!;
  if (status < 200 || status > 599) return NO_STATUS;
  if (status >= 300 && status < 400) return 'a redirect';
  if (status === 204 || status === 205) return 'no content';
  if (first === undefined) return 'an empty body';
  const type = mediaType(headers['content-type']);
  const readable = isPlain(headers['content-encoding']);
  if (type.includes('event-stream')) return undefined;
  const begin = first.toString('latin1', 0, 64);
  if (type.includes('json')) return readable && status < 300 ? noJson(begin) : undefined;
  if (readable ? /^\s*[{[]/.test(begin) : type === '') return undefined;
  if (type === '') return 'a body without a content type';
  return type.includes('html')
    ? 'an HTML page'
    : MEDIA_TYPE.test(type)
      ? `a body of type ${type}`
      : 'a body of an invalid type';
}

/** What a body declared as JSON is instead. Skips leading blanks, which some servers send while they compute. */
function noJson(begin: string): string | undefined {
  const first = /\S/.exec(begin)?.[0];
  if (first === undefined || first === '{' || first === '[' || first === '\u00ef') return undefined;
  return first === '<' ? 'an HTML page' : 'a body wrongly declared as JSON';
}
