/** Failover: tries the upstreams that can serve a request, until one does. @module */
import { crc32 } from 'node:zlib';
import { ERRORS, StageError } from '../../../base/contract/errors.ts';
import type {
  AttemptHandle,
  AttemptOrigin,
  AttemptReason,
  AttemptRecord,
  Candidate,
  DropReason,
} from '../../../base/contract/forwarding.ts';
import type { Services } from '../../../base/contract/services.ts';
import type { Relay, ResponseEvent, ResponseHead } from '../../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import { tryParseBounded } from '../../../base/kit/json/bounded.ts';
import { formatTraceParent } from '../../../base/kit/net/trace-context.ts';
import { retryAfterSeconds, retryAfterText } from '../../../base/kit/retry-after.ts';
import {
  DESCRIBING,
  definitionNamed,
  definitionOf,
  errorIn,
  errorOfEvent,
  isObject,
  mayBeError,
  overflowAnswer,
  RETRY_HEADERS,
  type ReadError,
  readProblem,
  responseEndIn,
  sessionInHeaders,
  shortenCache,
  statusOf,
} from '../../protocols/index.ts';
import { FAILOVER_TABLE, type FailoverRow } from '../failover-table.ts';
import { mustNotBeTried, shortWait, unavailableError } from '../routes.ts';
import { type ForwardContext, type PreparedRequest, protocolAt, requestFor, type Target } from '../target.ts';
import { attemptOnce, describeFailed, effectOf, type FailedAttempt, outcomeOf, type ServedAttempt } from './attempt.ts';

const BROKEN: ReadonlySet<string | undefined> = new Set(['upstream_failed', 'upstream_timeout', 'upstream_invalid']);

const BROKE_OFF = 'broke off its response';

/** Longer events are searched on arrival and not kept. */
const KEPT_CHARS_MAX = 16_384;
/** Number of last events to keep: they show how a response ended. */
const KEPT_EVENTS = 3;

/** An error in a response; without a `fault` of the upstream it is about the request or the account. */
type ReportedError = { readonly fault: string | undefined };

function reported(status: number, error: ReadError | undefined): ReportedError {
  const { effect } = FAILOVER_TABLE[outcomeOf(status, error)];
  return { fault: effect === 'failure' ? `status ${status} in its response` : undefined };
}

export interface AttemptSurroundings {
  readonly services: Services;
  readonly targets: ReadonlyMap<string, Target>;
  readonly random: () => number;
}

interface Ready {
  readonly candidate: Candidate;
  readonly target: Target;
  readonly request: PreparedRequest;
  readonly is_last: boolean;
}

type EndedAttempt = Omit<FailedAttempt, 'names_model' | 'retry_after_seconds'>;

/** The attempts of one request, and the result of its response. */
export class Attempts {
  readonly #ctx: ForwardContext;
  readonly #services: Services;
  readonly #targets: ReadonlyMap<string, Target>;
  readonly #random: () => number;
  readonly #began: number;
  readonly #origin: AttemptOrigin;
  readonly #failed: FailedAttempt[] = [];
  #candidates: readonly Candidate[] = [];
  #refusal: unknown;
  #served: ServedAttempt | undefined;
  readonly #dropped: string[] = [];
  #dropped_headers: readonly string[] | undefined;
  #handle: AttemptHandle | undefined;
  #reported: ReportedError | undefined;
  readonly #last_events: string[] = [];
  /** The end that an event reported which was too long to be kept. */
  #end_said: ReturnType<typeof responseEndIn>;
  #is_streamed = false;
  /** `retry-after` of the final response; `null` removes one that clients cannot parse. */
  #retry_after: string | null | undefined;

  constructor(ctx: ForwardContext, { services, targets, random }: AttemptSurroundings) {
    this.#ctx = ctx;
    this.#services = services;
    this.#targets = targets;
    this.#random = random;
    this.#began = services.clock.monotonic();
    // Sending may free the body, so the fingerprint is computed first.
    this.#origin = originOf(ctx);
  }

  /** Tries upstreams until one serves the request or none is left. Raises what `forward` declares. */
  async serve(): Promise<Relay> {
    try {
      this.#candidates = this.#findCandidates();
      for (let index = 0; index < this.#candidates.length; index++) {
        const candidate = this.#candidates[index]!;
        const left = this.#candidates.length - 1 - index;
        if (index > 0 && this.#skipIfUnavailable(candidate, left === 0)) continue;
        let ready: Ready;
        try {
          const preparing = this.#prepare(candidate, left === 0);
          if (preparing !== undefined) await preparing;
          ready = this.#makeReady(candidate, left === 0);
        } catch (error) {
          this.#skipCandidate(candidate, error);
          this.#throwIfCancelled();
          continue;
        }
        this.#throwIfCancelled();
        // Another request may have become the half-open probe meanwhile.
        if (this.#skipIfUnavailable(candidate, left === 0)) continue;
        let result = await this.#attempt(ready);
        if (!('relay' in result)) result = await this.#repeat(ready, result, left);
        if ('relay' in result) return this.#serve(ready, result);
        const reason = this.#reasonAfter(result, left === 0);
        this.#fail(ready, result, reason);
        if (!reason.startsWith('next_')) break;
        discard(result);
      }
      this.#correctLast('exhausted');
      return this.#finalError();
    } finally {
      if (this.#dropped_headers !== undefined) this.#ctx.set('request.dropped_headers', this.#dropped_headers);
      this.#writeFacts();
    }
  }

  onHead(head: ResponseHead): void {
    if (this.#retry_after === null) head.remove('retry-after');
    else if (this.#retry_after !== undefined) head.set('retry-after', this.#retry_after);
  }

  /** An event of the response on its way to the client. An error in it counts like its status. */
  onEvent({ name, data, large }: ResponseEvent): void {
    if (this.#served === undefined) return;
    this.#is_streamed = name !== undefined;
    const text = large?.outline ?? data;
    if (text.length > KEPT_CHARS_MAX) this.#end_said = responseEndIn(text);
    else if (this.#last_events.push(text) > KEPT_EVENTS) this.#last_events.shift();
    if (!mayBeError(name, data)) return;
    const found_error = errorOfEvent(name ?? '', data);
    if (found_error !== undefined) this.#reported ??= reported(statusOf(found_error), found_error);
  }

  end(error_code: string | undefined): void {
    const handle = this.#handle;
    this.#handle = undefined;
    if (this.#served === undefined) {
      handle?.leave();
      return;
    }
    const error = this.#reported ?? this.#reportedByStatus(error_code);
    const fault = error === undefined ? this.#howBroken(error_code) : error.fault;
    if (fault !== undefined) handle?.leave('broken_off', fault);
    else handle?.leave(this.#ctx.aborted || error !== undefined ? undefined : 'whole');
  }

  /** The fault of a response that had begun; `undefined` where it is complete or the end is unknown. */
  #howBroken(error_code: string | undefined): string | undefined {
    const last = this.#last_events.toReversed();
    const ends = [this.#end_said, ...last.map(responseEndIn)];
    if (ends.includes('broken_off')) {
      const found_error = last.map(errorIn).find((found) => found !== undefined);
      return found_error === undefined || reported(statusOf(found_error), found_error).fault !== undefined
        ? BROKE_OFF
        : undefined;
    }
    // A complete response may be unusable, which is the fault of the model.
    if (ends.includes('whole'))
      return error_code !== 'upstream_failed' && BROKEN.has(error_code) ? BROKE_OFF : undefined;
    return BROKEN.has(error_code) || (error_code === undefined && this.#lacksItsEnd()) ? BROKE_OFF : undefined;
  }

  #reportedByStatus(error_code: string | undefined): ReportedError | undefined {
    const status = error_code === 'upstream_failed' ? this.#ctx.get('error.status') : undefined;
    return status === undefined || status === ERRORS.upstream_failed.status ? undefined : reported(status, undefined);
  }

  /** Whether a stream has no end event, in a protocol whose servers always send one. */
  #lacksItsEnd(): boolean {
    const has_end = definitionNamed(this.#ctx.get('route.protocol'))?.stream.has_end === true;
    return this.#is_streamed && has_end && !this.#ctx.aborted && this.#ctx.get('outcome.unread') !== true;
  }

  /** The candidates of the routing stage; a stage may also set only `route.upstream`. */
  #findCandidates(): readonly Candidate[] {
    const { candidates } = this.#ctx;
    if (candidates !== undefined && candidates.length > 0) return candidates;
    const upstream = this.#targets.get(this.#ctx.get('route.upstream'))!.config;
    return [{ upstream, upstream_model: this.#ctx.get('route.upstream_model'), facts: {} }];
  }

  #unavailable({ upstream, upstream_model }: Candidate) {
    return this.#services.upstreams.unavailable(upstream.name, upstream_model, this.#origin);
  }

  /** Skips a candidate that has become unavailable since routing. A rate-limited last one is still tried. @returns whether it skipped */
  #skipIfUnavailable(candidate: Candidate, is_last: boolean): boolean {
    const unavailable = this.#unavailable(candidate);
    if (unavailable === undefined || (is_last && !mustNotBeTried(unavailable, candidate.is_only_candidate === true)))
      return false;
    this.#refusal ??= unavailableError(candidate, unavailable, this.#services.clock.now());
    this.#drop(candidate.upstream.name, unavailable.because);
    return true;
  }

  #drop(upstream: string, reason: DropReason): void {
    this.#dropped.push(`${upstream}: ${reason}`);
    this.#ctx.recordDropped(upstream, reason);
  }

  /** Facts, hooks and prompt cache for a candidate; usually synchronous. */
  #prepare({ facts, upstream }: Candidate, is_last: boolean): void | Promise<void> {
    const own = facts['route.dropped'];
    const dropped = own === undefined || this.#dropped.length === 0 ? own : [...own, ...this.#dropped];
    const known = dropped === own ? facts : { ...facts, 'route.dropped': dropped };
    const preparing = this.#ctx.prepareAttempt(known, is_last);
    const shorten = () => {
      if (!this.#ctx.get('cache.downgraded')) return undefined;
      return shortenCache(this.#ctx.body!, protocolAt(this.#ctx, this.#targets.get(upstream.name)!));
    };
    return preparing === undefined ? shorten() : preparing.then(shorten);
  }

  #makeReady(candidate: Candidate, is_last: boolean): Ready {
    const target = this.#targets.get(candidate.upstream.name)!;
    const request = requestFor(this.#ctx, target);
    this.#dropped_headers = request.dropped_headers;
    return { candidate, target, request, is_last };
  }

  /** Keeps the error of a candidate in case no other can be tried. Rethrows errors other than StageError. */
  #skipCandidate({ upstream: { name } }: Candidate, error: unknown): void {
    if (!(error instanceof StageError)) throw error;
    this.#refusal = error;
    this.#drop(name, REASON_OF_CODE[error.code] ?? 'stage');
    if (!(error.cause instanceof Error)) return;
    const about = { request_id: this.#ctx.get('request.id'), upstream: name, reason: error.cause.message };
    this.#services.log.info(about, 'an upstream was skipped');
  }

  #attempt({ candidate, target, request, is_last }: Ready): Promise<ServedAttempt | FailedAttempt> {
    const { clock, upstreams, config } = this.#services;
    this.#handle?.leave();
    const handle = upstreams.begin(candidate.upstream.name, candidate.upstream_model, this.#origin);
    this.#handle = handle;
    const attempt = attemptOnce({
      ctx: this.#ctx,
      target,
      request: withTrace(request, this.#ctx, target),
      clock,
      timeouts: config.server.timeouts,
      can_move_on: !is_last && config.routing.attempts.unconfirmed && this.#failed.length + 1 < this.#most(),
      may_free: this.#failed.every(({ is_body_needed }) => !is_body_needed),
      first_byte_seconds: this.#firstByteSeconds(),
    });
    return attempt.then((result) => {
      if ('relay' in result) handle.report('success');
      else handle.report(effectOf(result), describeFailed(result, result.code), result.retry_after_seconds);
      return result;
    });
  }

  /** First-byte timeout. Without a stream, nothing arrives before the response is complete. */
  #firstByteSeconds(): number {
    const { first_byte_seconds, non_streaming_first_byte_seconds } = this.#services.config.server.timeouts;
    const soon = this.#ctx.get('request.stream') === true || this.#ctx.get('request.protocol') === 'count_tokens';
    if (!soon) return non_streaming_first_byte_seconds;
    return this.#failed.length === 0 ? first_byte_seconds : Math.min(first_byte_seconds, this.#secondsLeft());
  }

  #secondsLeft(): number {
    const { clock, config } = this.#services;
    return config.routing.attempts.seconds - (clock.monotonic() - this.#began) / 1000;
  }

  #most(): number {
    return Math.min(this.#services.config.routing.attempts.max, this.#candidates.length + 1);
  }

  /** Retries the same upstream once, after a wait, if useful. @param left untried upstreams; one attempt is kept for each */
  async #repeat(ready: Ready, result: FailedAttempt, left: number): Promise<ServedAttempt | FailedAttempt> {
    const { candidate, target } = ready;
    const isOpen = () => this.#unavailable(candidate)?.because === 'open';
    if (this.#failed.length + 1 + left >= this.#most() || this.#ctx.aborted || isOpen()) return result;
    const ms = this.#waitBeforeRepeat(result);
    if (ms === undefined || ms / 1000 >= this.#secondsLeft()) return result;
    const giveBack = this.#services.upstreams.takeRetry(target.config.name);
    if (giveBack === undefined) return result;
    let repeated: ServedAttempt | FailedAttempt = result;
    const over = await this.#wait(ms);
    if (over !== undefined || !isOpen()) {
      this.#fail(ready, result, over === undefined ? 'same_after_wait' : 'gone');
      discard(result);
      if (over === undefined) repeated = await this.#attempt(ready);
    }
    giveBack();
    if (over !== undefined) throw over;
    return repeated;
  }

  /** Wait before the retry of the same upstream, in milliseconds; `undefined`: no retry. */
  #waitBeforeRepeat({ outcome, retry_after_seconds: requested_seconds }: FailedAttempt): number | undefined {
    const { again }: FailoverRow = FAILOVER_TABLE[outcome];
    if (Number(this.#ctx.headers['x-stainless-retry-count'] ?? 0) > 0) return undefined;
    if (again === 'after_wait_lone') {
      const is_short =
        this.#candidates.length === 1 && requested_seconds !== undefined && requested_seconds <= LIMITED_MAX;
      return is_short ? requested_seconds * 1000 : undefined;
    }
    if (again !== 'after_wait') return undefined;
    if (requested_seconds === undefined) return WAIT_MS + this.#random() * JITTER_MS;
    return requested_seconds <= OVERLOADED_MAX ? requested_seconds * 1000 : undefined;
  }

  #wait(ms: number): Promise<StageError | undefined> {
    return new Promise((resolve) => {
      const timer = this.#services.clock.after(ms, () => resolve(undefined));
      this.#ctx.readToEndWithin(undefined);
      this.#ctx.onCancel((reason) => {
        timer.close();
        resolve(reason);
      });
    });
  }

  #reasonAfter({ outcome }: FailedAttempt, is_last: boolean): AttemptReason {
    const row: FailoverRow = FAILOVER_TABLE[outcome];
    const { unconfirmed } = this.#services.config.routing.attempts;
    if (row.next === 'no') return row.reason;
    if (this.#ctx.aborted) return 'gone';
    if (is_last || this.#failed.length + 1 >= this.#most() || (row.next === 'if_unconfirmed' && !unconfirmed))
      return 'exhausted';
    return this.#secondsLeft() <= 0 ? 'too_late' : row.reason;
  }

  #serve(ready: Ready, served: ServedAttempt): Relay {
    this.#served = served;
    const { relay, is_translated } = served;
    const { statusCode, headers } = relay.response;
    if (is_translated && headers['retry-after'] !== undefined) {
      const seconds = retryAfterSeconds(headers, this.#services.clock.now());
      this.#retry_after = seconds === undefined ? null : retryAfterText(seconds);
    }
    this.#record(ready, { ...served, outcome: 'answered', certainty: 'answered', status: statusCode! }, 'served');
    return relay;
  }

  #fail(ready: Ready, failed: FailedAttempt, reason: AttemptReason): void {
    this.#failed.push(failed);
    this.#record(ready, failed, reason);
  }

  #record({ candidate, target }: Ready, attempt: EndedAttempt, reason: AttemptReason): void {
    const { credential_name } = target;
    const { certainty, status, outcome, sends, began_at, ms, request_id, received_bytes } = attempt;
    const record: AttemptRecord = {
      n: this.#ctx.attempts.length + 1,
      upstream: candidate.upstream.name,
      upstream_model: candidate.upstream_model,
      ...(credential_name !== undefined && { credential: credential_name }),
      certainty,
      status: status ?? null,
      outcome,
      reason,
      sends,
      ms: Math.round(ms * 10) / 10,
      ...(request_id !== undefined && { upstream_request_id: request_id }),
    };
    this.#ctx.recordAttempt(record, received_bytes ?? 0, began_at);
  }

  /** Raises the error of a request that was cancelled during the preparation. */
  #throwIfCancelled(): void {
    const { cancel_reason, aborted } = this.#ctx;
    if (cancel_reason === undefined && !aborted) return;
    this.#correctLast('gone');
    throw cancel_reason ?? new StageError('bad_http', 'The client disconnected.');
  }

  #correctLast(reason: AttemptReason): void {
    const last = this.#ctx.attempts.at(-1);
    if (!last?.reason.startsWith('next_')) return;
    this.#ctx.recordAttempt({ ...last, reason }, this.#ctx.relayed_bytes);
  }

  /** The final error: relays the most useful response of an upstream, or raises an error of the gateway. */
  #finalError(): Relay {
    if (this.#failed.length === 0) throw this.#refusal;
    const chosen = chooseFinal(this.#failed, this.#waits());
    for (const failed of this.#failed) if (failed !== chosen.attempt) discard(failed);
    if (chosen.attempt === undefined) throw chosen.error;
    const { response, chunks, is_translated, retry_after_seconds: seconds } = chosen.attempt;
    const own = seconds === undefined ? null : retryAfterText(seconds);
    this.#retry_after = chosen.retry_after ?? (is_translated ? own : undefined);
    const { idle_seconds } = this.#services.config.server.timeouts;
    const reworded = this.#reworded(chosen.attempt);
    if (reworded === undefined) return { kind: 'relay', response: response!, idle_seconds, begun: chunks! };
    response!.destroy();
    return { kind: 'relay', idle_seconds, ...reworded };
  }

  /** A context overflow reworded so that clients compact the conversation; `undefined` where they recognise the original. */
  #reworded({ full_context: text, response, is_translated }: FailedAttempt): WholeAnswer | undefined {
    const ctx = this.#ctx;
    const served = ctx.get('request.protocol');
    if (text === undefined || served === 'count_tokens') return undefined;
    // Translation reads the upstream's own error.
    if (is_translated) return inPlaceOf(response!, { status: 400, content_type: 'application/json', body: text });
    const { errors } = definitionOf(served);
    const said = tryParseBounded(text);
    if (errors.knowsOverflow(errorFields(said))) return undefined;
    const { statusCode: status = 0 } = response!;
    ctx.set('upstream.error_rewritten', true);
    const problem = readProblem(status < 400 ? undefined : status, text);
    const reworded = overflowAnswer(errors, problem, {
      stream: ctx.get('request.stream') === true,
      request_id: ctx.get('request.id'),
      model: ctx.get('request.model'),
      created_at: Math.floor(this.#services.clock.now() / 1000),
      said,
    });
    return inPlaceOf(response!, reworded);
  }

  #waits(): readonly number[] {
    const now = this.#services.clock.now();
    const windows = this.#candidates.flatMap((candidate) => this.#unavailable(candidate)?.until ?? []);
    return [
      ...windows.map((until) => (until - now) / 1000),
      ...this.#failed.flatMap(({ retry_after_seconds }) => retry_after_seconds ?? []),
    ];
  }

  #writeFacts(): void {
    const ctx = this.#ctx;
    const last = this.#served ?? this.#failed.at(-1);
    if (last === undefined) return;
    const all = this.#served === undefined ? this.#failed : [...this.#failed, this.#served];
    const sends = all.reduce((sum, attempt) => sum + attempt.sends, 0);
    if (sends > 0) ctx.set('upstream.attempts', sends);
    if (all.some(({ resent }) => resent !== undefined)) ctx.set('upstream.retry', 'stale_socket');
    ctx.set('upstream.certainty', 'relay' in last ? 'answered' : last.certainty);
    // The status on the wire, not that of an error inside the response.
    const status = 'relay' in last ? last.relay.response.statusCode : (last.response?.statusCode ?? last.status);
    if (status === undefined) return;
    ctx.set('upstream.status', status);
    ctx.set('upstream.ttfb_ms', last.ms);
    if (last.request_id !== undefined) ctx.set('upstream.request_id', last.request_id);
  }
}

const NO_BYTES = Buffer.alloc(0);

/** Bytes of the body's two ends in its fingerprint: turns of a conversation differ there. */
const FINGERPRINT_BYTES = 4096;

/** Caller and fingerprint of a request, for circuit breakers. Requests with one fingerprint count once. */
function originOf(ctx: ForwardContext): AttemptOrigin {
  const { bytes = NO_BYTES } = ctx.body ?? {};
  // First requests of sessions often have equal bodies.
  const head = crc32(bytes.subarray(0, FINGERPRINT_BYTES), crc32(`${sessionInHeaders(ctx.headers)} ${ctx.url}`));
  const caller = ctx.get('principal.id') ?? `address ${ctx.get('request.client.address')}`;
  return { caller, request: crc32(bytes.subarray(-FINGERPRINT_BYTES), head) };
}

/** Drop reasons by error codes of attempt hooks: limits, the database, and translation. */
const REASON_OF_CODE: Readonly<Record<string, DropReason>> = {
  spend_limit_exceeded: 'limit',
  rate_limit_exceeded: 'limit',
  store_unavailable: 'store_unavailable',
  not_translatable: 'protocol',
  not_supported: 'protocol',
  invalid_request: 'protocol',
};

/** Longest `retry-after` that the gateway honours, in seconds: after 429, after 503 and 529. */
const LIMITED_MAX = 2;
const OVERLOADED_MAX = 5;

/** Wait without `retry-after`, in milliseconds: minimum and jitter. */
const WAIT_MS = 500;
const JITTER_MS = 1000;

function discard({ response, is_whole }: FailedAttempt): void {
  if (!is_whole) response?.destroy();
}

/** Where upstreams join the trace of the gateway, `traceparent` makes the span of the attempt the parent of theirs. */
function withTrace(request: PreparedRequest, ctx: ForwardContext, { propagate }: Target): PreparedRequest {
  if (propagate !== 'join') return request;
  const { trace_id, is_kept } = ctx.trace;
  const span_id = ctx.trace.attemptSpanId(ctx.attempts.length + 1);
  const traceparent = formatTraceParent({ trace_id, span_id, sampled: is_kept });
  return { ...request, headers: { ...request.headers, traceparent } };
}

/** When no upstream served, the client gets the last response with a status of the first group that has one. */
const FIRST_REPORTED: readonly (readonly number[])[] = [[429], [401, 402, 403], [404], [501]];

/** Response to a request that no upstream served: the response of one of them, or an error of the gateway. */
type Final =
  | { readonly attempt: FailedAttempt; readonly retry_after: string | undefined }
  | { readonly attempt?: undefined; readonly error: StageError };

/** Chooses the response to the client among failed attempts; for a single upstream, the last. */
function chooseFinal(failed: readonly FailedAttempt[], waits_seconds: readonly number[]): Final {
  const last = failed.at(-1)!;
  const own = (attempt: FailedAttempt, retry_after?: string): Final =>
    attempt.error !== undefined ? { error: attempt.error } : { attempt, retry_after };
  const last_of_each = [...new Map(failed.map((attempt) => [attempt.upstream, attempt])).values()];
  if (last_of_each.length === 1 || last.outcome === 'caller' || last.outcome === 'gone') return own(last);
  const retry_after = waits_seconds.length === 0 ? undefined : String(shortWait(Math.min(...waits_seconds)));
  const headers: Record<string, string> = retry_after === undefined ? {} : { 'retry-after': retry_after };
  for (const statuses of FIRST_REPORTED) {
    const chosen = failed.findLast(
      ({ status, outcome }) => status !== undefined && outcome !== 'foreign' && statuses.includes(status),
    );
    if (chosen === undefined) continue;
    if (chosen === last || (chosen.is_whole && !chosen.is_translated && !last.is_translated)) {
      return own(chosen, retry_after);
    }
    // A response in another protocol can no longer be translated: the client gets its status.
    const { upstream, status } = chosen;
    const details = { upstream, upstream_status: status! };
    const message = `The upstream "${upstream}" rejected the request with status ${status}.`;
    return { error: new StageError('upstream_failed', message, { status: status!, details, headers }) };
  }
  // Each upstream may still process the request, so clients should not retry automatically.
  const all_late = last_of_each.every(({ error }) => error?.headers['x-should-retry'] === 'false');
  if (all_late) headers['x-should-retry'] = 'false';
  const tried = last_of_each.map((attempt) => `${attempt.upstream} (${describeFailed(attempt)})`);
  const fact = `None of ${tried.length} upstreams served the request: ${tried.join(', ')}.`;
  const again = all_late ? ' These upstreams may still bill it; a retry may be billed too.' : '';
  return { error: new StageError('upstream_failed', fact + again, { details: { tried: tried.length }, headers }) };
}

type WholeAnswer = Required<Pick<Relay, 'response' | 'begun'>>;

const OF_BYTES: ReadonlySet<string> = new Set([
  ...DESCRIBING,
  ...RETRY_HEADERS,
  'content-encoding',
  'content-length',
  'content-type',
  'transfer-encoding',
]);

const nothing = () => undefined;

function inPlaceOf({ rawHeaders }: UpstreamResponse, reworded: ReturnType<typeof overflowAnswer>): WholeAnswer {
  const { status, content_type, body } = reworded;
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

function errorFields(document: unknown): { readonly message: string; readonly code?: string } {
  if (!isObject(document)) return { message: '' };
  const found = isObject(document.response) ? document.response.error : document.error;
  const { message, code } = isObject(found) ? found : {};
  return { message: typeof message === 'string' ? message : '', ...(typeof code === 'string' && { code }) };
}
