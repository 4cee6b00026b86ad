import { ERRORS, StageError } from '../../contract/errors.ts';
import type { AttemptReason, AttemptRecord, Candidate, DropReason, Trial, Witness } from '../../contract/forwarding.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { Services } from '../../contract/services.ts';
import type { Relay, ResponseEvent, ResponseHead, StageContext } from '../../contract/stage.ts';
import { formatTraceParent } from '../../kit/net/trace-context.ts';
import { retryAfterSeconds, retryAfterText } from '../../kit/retry-after.ts';
import { shortenCache } from '../../protocols/body/body-facts.ts';
import { statusOf } from '../../protocols/errors.ts';
import { errorIn, errorOfEvent, mayBeError, type ReadError } from '../../protocols/read-error.ts';
import { endSaidIn } from '../../protocols/stop-reasons.ts';
import { FAILOVER_TABLE, type FailoverRow } from '../failover-table.ts';
import { mayNotBeAsked, unavailable } from '../routes/choose.ts';
import { type PreparedRequest, protocolAt, requestFor, type Target } from '../target.ts';
import { demandWaiting, type ForwardContext, witnessOf } from './forward-context.ts';
import {
  asErrorResponse,
  describeFailed,
  effectOf,
  type FailedAttempt,
  lastWord,
  letGo,
  outcomeOf,
  reasonOf,
  rewordOverflow,
  type WholeAnswer,
} from './judge.ts';
import { type ServedAttempt, sendOnce } from './send-once.ts';

/** Codes of errors that say that an upstream broke off what it had begun. */
const BROKEN: ReadonlySet<string | undefined> = new Set(['upstream_failed', 'upstream_timeout', 'upstream_invalid']);

const BROKE_OFF = 'broke off its answer';

/** A longer event is looked through when it comes, so that none is kept. */
const KEPT_CHARS_MAX = 16_384;

interface SaidError {
  /** What the upstream did wrong; absent where the error is about the request or the account. */
  readonly detail?: string;
}

function saidOf(status: number, error: ReadError | undefined): SaidError {
  const { effect } = FAILOVER_TABLE[outcomeOf(status, error)];
  return effect === 'failure' ? { detail: `status ${status} in its answer` } : {};
}

export interface AttemptSurroundings {
  readonly services: Services;
  readonly targets: ReadonlyMap<string, Target>;
  /** From 0 up to 1. */
  readonly random: () => number;
}

interface Ready {
  readonly candidate: Candidate;
  readonly target: Target;
  readonly request: PreparedRequest;
  readonly is_last: boolean;
}

export class Attempts {
  readonly #ctx: ForwardContext;
  readonly #services: Services;
  readonly #targets: ReadonlyMap<string, Target>;
  readonly #random: () => number;
  readonly #began: number;
  readonly #witness: Witness;
  readonly #failed: FailedAttempt[] = [];
  #refusal: unknown;
  #served: ServedAttempt | undefined;
  /** Upstreams that could not even be asked, as in the fact `route.dropped`. */
  readonly #dropped: string[] = [];
  #dropped_headers: readonly string[] | undefined;
  #trial: Trial | undefined;
  /** What the answer said went wrong after it had begun. */
  #error_said: SaidError | undefined;
  /** The last three events of the answer: how it ended is looked up in them when it is over. */
  #last_event = '';
  #second_last_event = '';
  #third_last_event = '';
  /** What an event says of the end that was too long to be kept. */
  #end_said: ReturnType<typeof endSaidIn>;
  #is_streamed = false;
  /** A `retry-after` for the answer that is passed on; `null` where it has one that its clients cannot read. */
  #retry_after: string | null | undefined;

  constructor(ctx: ForwardContext, { services, targets, random }: AttemptSurroundings) {
    this.#ctx = ctx;
    this.#services = services;
    this.#targets = targets;
    this.#random = random;
    this.#began = services.clock.monotonic();
    // Before the body is sent, since it may not be kept after that.
    this.#witness = witnessOf(ctx);
  }

  /** Sends the request until it is served or nobody is left to serve it. Raises what `forward` declares. */
  async serve(): Promise<Relay> {
    try {
      const relay = await this.#walk();
      if (relay !== undefined) return relay;
      this.#correctLast('exhausted');
      return this.#giveUp();
    } finally {
      if (this.#dropped_headers !== undefined) this.#ctx.set('request.dropped_headers', this.#dropped_headers);
      writeAttemptFacts(this.#ctx, this.#failed, this.#served);
    }
  }

  see(head: ResponseHead): void {
    if (this.#retry_after === null) head.remove('retry-after');
    else if (this.#retry_after !== undefined) head.set('retry-after', this.#retry_after);
  }

  /** An event of the answer on its way to the client: an error in it means what its status would have meant. */
  hear({ name, data, large }: ResponseEvent): void {
    if (this.#served === undefined) return;
    this.#is_streamed = name !== undefined;
    const text = large?.outline ?? data;
    if (text.length > KEPT_CHARS_MAX) this.#end_said = endSaidIn(text);
    else {
      this.#third_last_event = this.#second_last_event;
      this.#second_last_event = this.#last_event;
      this.#last_event = text;
    }
    if (!mayBeError(name, data)) return;
    const said = errorOfEvent(name ?? '', data);
    if (said !== undefined) this.#error_said ??= saidOf(statusOf(said), said);
  }

  /** The request is over. @param error_code of the gateway's own error, if it ended with one */
  end(error_code: string | undefined): void {
    const failed = this.#error_said ?? this.#errorTold(error_code);
    const broken_off = failed === undefined ? this.#howBroken(error_code) : failed.detail;
    if (this.#served === undefined) this.#trial?.leave();
    else if (broken_off !== undefined) this.#trial?.leave('broken_off', broken_off);
    else this.#trial?.leave(this.#ctx.aborted || failed !== undefined ? undefined : 'whole');
    this.#trial = undefined;
  }

  /** What is wrong with an answer that had begun; `undefined` where it is whole, or nobody knows. */
  #howBroken(error_code: string | undefined): string | undefined {
    const last = [this.#last_event, this.#second_last_event, this.#third_last_event];
    const ends = [this.#end_said, ...last.map(endSaidIn)];
    if (ends.includes('broken_off')) {
      const said = last.map(errorIn).find((found) => found !== undefined);
      return said === undefined || saidOf(statusOf(said), said).detail !== undefined ? BROKE_OFF : undefined;
    }
    // An answer that is whole may still be none to use, which is the model's doing.
    if (ends.includes('whole'))
      return error_code !== 'upstream_failed' && BROKEN.has(error_code) ? BROKE_OFF : undefined;
    return BROKEN.has(error_code) || (error_code === undefined && this.#lacksItsEnd()) ? BROKE_OFF : undefined;
  }

  /** An error in an answer that was told with the status that it stands for: whose it is, its status says. */
  #errorTold(error_code: string | undefined): SaidError | undefined {
    const status = error_code === 'upstream_failed' ? this.#ctx.get('error.status') : undefined;
    return status === undefined || status === ERRORS.upstream_failed.status ? undefined : saidOf(status, undefined);
  }

  /** Whether a stream said nothing of its end, in a protocol whose servers all do. */
  #lacksItsEnd(): boolean {
    const spoken = this.#ctx.get('route.protocol');
    const is_told = spoken === 'messages' || spoken === 'responses';
    return this.#is_streamed && is_told && !this.#ctx.aborted && this.#ctx.get('outcome.unread') !== true;
  }

  async #walk(): Promise<Relay | undefined> {
    const candidates = this.#candidates();
    for (const [index, candidate] of candidates.entries()) {
      const is_last = index === candidates.length - 1;
      if (index > 0 && this.#isClosed(candidate, is_last)) continue;
      const ready = await this.#prepare(candidate, is_last);
      this.#demandWaiting();
      // Meanwhile another request may have become the one that tries an upstream again.
      if (ready === undefined || this.#isClosed(candidate, is_last)) continue;
      let result = await this.#attempt(ready);
      if ('relay' in result) return this.#serve(ready, result);
      const repeat = this.#repeatOf(result, ready, {
        left: candidates.length - 1 - index,
        is_lone: candidates.length === 1,
      });
      if (repeat !== undefined) {
        const over = await this.#wait(repeat.ms);
        if (over !== undefined || !this.#isOpen(candidate)) {
          this.#fail(ready, result, over === undefined ? 'same_after_wait' : 'gone');
          letGo(result);
          if (over === undefined) result = await this.#attempt(ready);
        }
        repeat.giveBack();
        if (over !== undefined) throw over;
        if ('relay' in result) return this.#serve(ready, result);
      }
      const reason = this.#reasonAfter(result, is_last);
      this.#fail(ready, result, reason);
      if (!reason.startsWith('next_')) return undefined;
      letGo(result);
    }
    return undefined;
  }

  /** A stage that routes may name one upstream and nothing else. */
  #candidates(): readonly Candidate[] {
    const { candidates } = this.#ctx;
    if (candidates !== undefined && candidates.length > 0) return candidates;
    const upstream = this.#targets.get(this.#ctx.get('route.upstream'))!.config;
    return [{ upstream, upstream_model: this.#ctx.get('route.upstream_model'), facts: {} }];
  }

  /** Upstreams may have changed since the request was routed. The last one is asked all the same, unless nobody may. */
  #isClosed(candidate: Candidate, is_last: boolean): boolean {
    const { upstream, upstream_model, is_alone = false } = candidate;
    const closed = this.#services.upstreams.closed(upstream.name, upstream_model, this.#witness);
    if (closed === undefined || (is_last && !mayNotBeAsked(closed, is_alone))) return false;
    this.#refusal ??= unavailable(candidate, closed, this.#services.clock.now());
    this.#drop(upstream.name, closed.because);
    return true;
  }

  /** Its breaker keeps requests away from it, or leaves it to another request to try. */
  #isOpen({ upstream, upstream_model }: Candidate): boolean {
    return this.#services.upstreams.closed(upstream.name, upstream_model, this.#witness)?.because === 'open';
  }

  #drop(upstream: string, reason: DropReason): void {
    this.#dropped.push(`${upstream}: ${reason}`);
    this.#ctx.noteDropped(upstream, reason);
  }

  /** What keeps the request from this upstream is told only if no other can be asked. */
  async #prepare(candidate: Candidate, is_last: boolean): Promise<Ready | undefined> {
    const { facts, upstream } = candidate;
    const own = facts['route.dropped'];
    const dropped = own === undefined || this.#dropped.length === 0 ? own : [...own, ...this.#dropped];
    try {
      const waiting = this.#ctx.prepareAttempt(
        dropped === own ? facts : { ...facts, 'route.dropped': dropped },
        is_last,
      );
      if (waiting !== undefined) await waiting;
      const target = this.#targets.get(upstream.name)!;
      const body = this.#ctx.body!;
      if (this.#ctx.get('cache.downgraded')) await shortenCache(body, protocolAt(this.#ctx, target));
      const request = requestFor(this.#ctx, target);
      this.#dropped_headers = request.dropped_headers;
      return { candidate, target, request, is_last };
    } catch (error) {
      if (!(error instanceof StageError)) throw error;
      this.#refusal = error;
      this.#drop(upstream.name, reasonOf(error));
      this.#logReason(error, upstream.name);
      return undefined;
    }
  }

  #logReason({ cause }: StageError, upstream: string): void {
    if (!(cause instanceof Error)) return;
    const about = { request_id: this.#ctx.get('request.id'), upstream, reason: cause.message };
    this.#services.log.info(about, 'an upstream cannot be asked');
  }

  async #attempt({ candidate, target, request, is_last }: Ready): Promise<ServedAttempt | FailedAttempt> {
    const { clock, upstreams, config } = this.#services;
    const { timeouts } = config.server;
    this.#trial?.leave();
    const trial = upstreams.begin(candidate.upstream.name, candidate.upstream_model, this.#witness);
    this.#trial = trial;
    const can_move_on = !is_last && config.routing.attempts.unconfirmed && this.#tried() + 1 < this.#most();
    const result = await sendOnce({
      ctx: this.#ctx,
      target,
      request: withTrace(request, this.#ctx, target),
      clock,
      timeouts,
      can_move_on,
      may_free: this.#failed.every(({ is_through }) => is_through),
      first_byte_seconds: this.#firstByteSeconds(),
      began: this.#began,
    });
    if ('relay' in result) trial.tell('success');
    else trial.tell(effectOf(result), describeFailed(result), result.retry_after_seconds);
    return result;
  }

  /** Longest wait for an answer: without a stream, nothing of it comes before it is complete. */
  #firstByteSeconds(): number {
    const { first_byte_seconds, unstreamed_first_byte_seconds } = this.#services.config.server.timeouts;
    const soon = this.#ctx.get('request.stream') === true || this.#ctx.get('request.protocol') === 'count_tokens';
    if (!soon) return unstreamed_first_byte_seconds;
    return this.#tried() === 0 ? first_byte_seconds : Math.min(first_byte_seconds, this.#secondsLeft());
  }

  #secondsLeft(): number {
    const { clock, config } = this.#services;
    return config.routing.attempts.seconds - (clock.monotonic() - this.#began) / 1000;
  }

  #tried(): number {
    return this.#failed.length;
  }

  #most(): number {
    return Math.min(this.#services.config.routing.attempts.most, this.#candidates().length + 1);
  }

  /** The wait after which the same upstream is asked again, and its place in that upstream's retry budget. */
  #repeatOf(
    result: FailedAttempt,
    { candidate, target }: Ready,
    { left, is_lone }: { left: number; is_lone: boolean },
  ) {
    // An upstream that was not asked yet comes before one that has failed.
    if (this.#tried() + 1 + left >= this.#most() || this.#ctx.aborted || this.#isOpen(candidate)) return undefined;
    const ms = waitBeforeRepeat(result, {
      is_lone,
      retry_count: this.#ctx.headers['x-stainless-retry-count'],
      random: this.#random,
    });
    if (ms === undefined || ms / 1000 >= this.#secondsLeft()) return undefined;
    const giveBack = this.#services.upstreams.takeRetry(target.config.name);
    return giveBack && { ms, giveBack };
  }

  #wait(ms: number): Promise<StageError | undefined> {
    return new Promise((resolve) => {
      const timer = this.#services.clock.after(ms, () => resolve(undefined));
      this.#ctx.drainWithin(undefined);
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
    if (is_last || this.#tried() + 1 >= this.#most() || (row.next === 'if_unconfirmed' && !unconfirmed))
      return 'exhausted';
    return this.#secondsLeft() <= 0 ? 'too_late' : row.reason;
  }

  #serve(ready: Ready, served: ServedAttempt): Relay {
    this.#served = served;
    if (served.is_translated && served.relay.response.headers['retry-after'] !== undefined) {
      const seconds = retryAfterSeconds(served.relay.response.headers, this.#services.clock.now());
      this.#retry_after = seconds === undefined ? null : retryAfterText(seconds);
    }
    const status = served.relay.response.statusCode!;
    this.#note(ready, { ...served, outcome: 'answered', certainty: 'answered', status }, 'served');
    return served.relay;
  }

  #fail(ready: Ready, failed: FailedAttempt, reason: AttemptReason): void {
    this.#failed.push(failed);
    this.#note(ready, failed, reason);
  }

  #note(
    { candidate, target }: Ready,
    attempt: Pick<
      FailedAttempt,
      'certainty' | 'status' | 'outcome' | 'sends' | 'began_at' | 'ms' | 'request_id' | 'received_bytes'
    >,
    reason: AttemptReason,
  ): void {
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
    this.#ctx.noteAttempt(record, received_bytes ?? 0, began_at);
  }

  #demandWaiting(): void {
    const { given_up, aborted } = this.#ctx;
    if (given_up !== undefined || aborted) this.#correctLast('gone');
    demandWaiting(this.#ctx);
  }

  /** It was to go on to another upstream, and did not. */
  #correctLast(reason: AttemptReason): void {
    const last = this.#ctx.attempts.at(-1);
    if (!last?.reason.startsWith('next_')) return;
    this.#ctx.noteAttempt({ ...last, reason }, this.#ctx.relayed_bytes);
  }

  /** Passes on the answer that says most, or raises an error of our own. */
  #giveUp(): Relay {
    if (this.#failed.length === 0) throw this.#refusal;
    const word = lastWord(this.#failed, this.#waits());
    for (const failed of this.#failed) if (!('attempt' in word) || failed !== word.attempt) letGo(failed);
    if ('error' in word) throw word.error;
    const { response, chunks, is_translated, retry_after_seconds: seconds } = word.attempt;
    const own = seconds === undefined ? null : retryAfterText(seconds);
    this.#retry_after = word.retry_after ?? (is_translated ? own : undefined);
    const { idle_seconds } = this.#services.config.server.timeouts;
    const reworded = this.#reworded(word.attempt);
    if (reworded !== undefined) {
      response!.destroy();
      return { kind: 'relay', idle_seconds, ...reworded };
    }
    return { kind: 'relay', response: response!, idle_seconds, begun: chunks! };
  }

  /** What clients are told of a full context in place of words that they do not know; it is recorded. */
  #reworded({ full_context, response, is_translated }: FailedAttempt): WholeAnswer | undefined {
    const served = this.#ctx.get('request.protocol');
    if (full_context === undefined || served === 'count_tokens') return undefined;
    if (is_translated) return asErrorResponse(response!, full_context);
    const reworded = rewordOverflow(served as Protocol, full_context, {
      response: response!,
      stream: this.#ctx.get('request.stream') === true,
      request_id: this.#ctx.get('request.id'),
      model: this.#ctx.get('request.model'),
      created_at: Math.floor(this.#services.clock.now() / 1000),
    });
    if (reworded !== undefined) this.#ctx.set('upstream.error_rewritten', true);
    return reworded;
  }

  /** After how many seconds each upstream may serve again, as far as it is known. */
  #waits(): readonly number[] {
    const now = this.#services.clock.now();
    const windows = this.#candidates().flatMap(({ upstream, upstream_model }) => {
      const until = this.#services.upstreams.closed(upstream.name, upstream_model, this.#witness)?.until;
      return until === undefined ? [] : [(until - now) / 1000];
    });
    return [...windows, ...this.#failed.flatMap(({ retry_after_seconds }) => retry_after_seconds ?? [])];
  }
}

/** Longest wait that an upstream can ask for before it is asked again, in seconds. */
const LIMITED_MAX = 2;
const OVERLOADED_MAX = 5;

/** The wait where it asks for none, in milliseconds: so long and up to so much more by chance. */
const LEAST_MS = 500;
const JITTER_MS = 1000;

/** How long to wait, in milliseconds, before the same upstream is asked again; `undefined` where it is not. */
export function waitBeforeRepeat(
  { outcome, retry_after_seconds }: FailedAttempt,
  how: {
    readonly is_lone: boolean;
    readonly retry_count: string | readonly string[] | undefined;
    /** From 0 up to 1. */
    readonly random: () => number;
  },
): number | undefined {
  const { again }: FailoverRow = FAILOVER_TABLE[outcome];
  if (Number(how.retry_count ?? 0) > 0) return undefined;
  if (again === 'after_wait_lone') {
    const is_short = how.is_lone && retry_after_seconds !== undefined && retry_after_seconds <= LIMITED_MAX;
    return is_short ? retry_after_seconds * 1000 : undefined;
  }
  if (again !== 'after_wait') return undefined;
  if (retry_after_seconds === undefined) return LEAST_MS + how.random() * JITTER_MS;
  return retry_after_seconds <= OVERLOADED_MAX ? retry_after_seconds * 1000 : undefined;
}

/** Tells what the attempts of a request came to, in the facts `upstream.*`: nothing where none was made. */
export function writeAttemptFacts(
  ctx: ForwardContext,
  failed: readonly FailedAttempt[],
  served: ServedAttempt | undefined,
): void {
  const last = served ?? failed.at(-1);
  if (last === undefined) return;
  const all = [...failed, ...(served === undefined ? [] : [served])];
  const sends = all.reduce((sum, attempt) => sum + attempt.sends, 0);
  if (sends > 0) ctx.set('upstream.attempts', sends);
  if (all.some(({ resent }) => resent !== undefined)) ctx.set('upstream.retry', 'stale_socket');
  ctx.set('upstream.certainty', 'relay' in last ? 'answered' : last.certainty);
  // What the upstream said, whatever the error in it stands for.
  const status = 'relay' in last ? last.relay.response.statusCode : (last.response?.statusCode ?? last.status);
  if (status === undefined) return;
  ctx.set('upstream.status', status);
  ctx.set('upstream.ttfb_ms', last.ms);
  if (last.request_id !== undefined) ctx.set('upstream.request_id', last.request_id);
}

/**
 * What the next attempt sends: the request, and where upstreams join the trace of the gateway the header that makes the span of
 * this attempt the parent of theirs.
 */
export function withTrace(
  request: PreparedRequest,
  { trace, attempts }: Pick<StageContext, 'trace' | 'attempts'>,
  { propagate }: Target,
): PreparedRequest {
  if (propagate !== 'join') return request;
  const { trace_id, is_kept } = trace;
  const span_id = trace.attemptSpanId(attempts.length + 1);
  const traceparent = formatTraceParent({ trace_id, span_id, sampled: is_kept });
  return { ...request, headers: { ...request.headers, traceparent } };
}
