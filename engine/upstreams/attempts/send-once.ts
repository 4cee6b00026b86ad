import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import { protocolOf } from '../../contract/protocol.ts';
import type { Clock } from '../../contract/services.ts';
import type { Relay } from '../../contract/stage.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { isEventStream } from '../../kit/media-type.ts';
import { type PreparedRequest, protocolAt, type Target } from '../target.ts';
import type { Sending } from '../transports/transport.ts';
import type { ForwardContext } from './forward-context.ts';
import { type HoldOptions, holdBeginning } from './hold.ts';
import { describeFailure, type FailedAttempt, judgeAnswer, refuseForeignAnswer } from './judge.ts';

export interface AttemptPlan {
  readonly ctx: ForwardContext;
  readonly target: Target;
  readonly request: PreparedRequest;
  readonly clock: Clock;
  readonly timeouts: GatewayConfig['server']['timeouts'];
  /** Whether the request can go to another upstream when this one does not answer. */
  readonly can_move_on: boolean;
  /** Whether nobody else reads the body any more once this attempt has sent it. */
  readonly may_free: boolean;
  readonly first_byte_seconds: number;
  /** When the request was first sent, on the monotonic clock. */
  readonly began: number;
}

/** An attempt whose answer goes to the client. */
export interface ServedAttempt {
  readonly relay: Relay;
  readonly sends: number;
  readonly resent: Sending['resent'];
  /** When it was sent, on the monotonic clock. */
  readonly began_at: number;
  readonly ms: number;
  readonly request_id: string | undefined;
  /** Whether the upstream was asked in another protocol than the client's. */
  readonly is_translated: boolean;
}

/** What is held back of an answer that has begun, at most; its head alone says that the upstream is at work. */
const HOLD = { greeting_seconds: 2, bytes_max: 262_144, events_max: 64 };
/** A first event comes with its head, as a rule, however late that is. */
const HOLD_SECONDS_LEAST = 1;

/** The body of an error is whole at once, as a rule. */
const ERROR_SECONDS = 2;

/** Sends a request to one upstream, and reads its answer as far as it takes to know what it is. */
export async function sendOnce(plan: AttemptPlan): Promise<ServedAttempt | FailedAttempt> {
  const { ctx, target, clock } = plan;
  const { name } = target.config;
  const sending = target.transport.send(plan.request);
  const started = clock.monotonic();
  const common = () => ({
    upstream: name,
    sends: sending.attempts,
    resent: sending.resent,
    is_through: sending.attempts === 0 || sending.body_is_sent,
    began_at: started,
    ms: clock.monotonic() - started,
    is_translated: !isOther(ctx) && protocolAt(ctx, target) !== protocolOf(ctx.get('request.protocol')),
  });
  let response: UpstreamResponse;
  try {
    response = await awaitHead(plan, sending);
  } catch (error) {
    return { ...common(), ...unanswered(error as Error, name, sending) };
  }
  if (plan.may_free && sending.body_is_sent) ctx.body?.free();
  const answered = { ...common(), request_id: requestIdOf(response) };
  const holding = holdBeginning(response, howLong(plan, response));
  let cancelled: StageError | undefined;
  ctx.onCancel((reason) => {
    cancelled = reason;
    response.destroy();
    holding.cancel();
  });
  const beginning = holding.done ?? (await holding.beginning);
  if (cancelled !== undefined) {
    return {
      ...answered,
      ...NOT_KNOWN,
      outcome: 'gone',
      certainty: 'answered',
      status: response.statusCode,
      error: cancelled,
    };
  }
  const failed = judgeAnswer({ response, beginning, name, now: clock.now(), is_other: isOther(ctx) });
  if (failed !== undefined) {
    const received_bytes = failed.error === undefined ? 0 : sizeOf(beginning.chunks);
    return { ...answered, ...failed, received_bytes };
  }
  return { ...answered, relay: relayTo(plan, response, beginning.chunks) };
}

function isOther(ctx: ForwardContext): boolean {
  return ctx.get('request.protocol') === 'none';
}

const NOT_KNOWN = { retry_after_seconds: undefined, names_model: false } as const;

function unanswered(error: Error, name: string, { attempts }: Sending) {
  const is_ours = error instanceof StageError && error.code !== 'upstream_timeout';
  const is_sent = attempts > 0;
  return {
    ...NOT_KNOWN,
    request_id: undefined,
    status: undefined,
    certainty: is_sent ? 'possibly_accepted' : 'not_sent',
    outcome: is_ours ? 'gone' : is_sent ? 'unanswered' : 'unreachable',
    error: describeFailure(error, name, is_sent),
    code: error instanceof StageError ? undefined : (error as NodeJS.ErrnoException).code,
  } as const;
}

const sizeOf = (chunks: readonly Buffer[]) => chunks.reduce((sum, { length }) => sum + length, 0);

const REQUEST_ID_LENGTH = 200;

/** It is written down with the request, so it has a bound, whatever the upstream says. */
function requestIdOf({ headers }: UpstreamResponse): string | undefined {
  const id = headers['request-id'] ?? headers['x-request-id'];
  if (typeof id !== 'string' || id === '') return undefined;
  return id.slice(0, REQUEST_ID_LENGTH).replace(/[^ -~]/g, '?');
}

function relayTo(
  { ctx, timeouts, first_byte_seconds }: AttemptPlan,
  response: UpstreamResponse,
  begun: readonly Buffer[],
): Relay {
  const { idle_seconds } = timeouts;
  if (ctx.get('request.stream') === true) return { kind: 'relay', response, idle_seconds, begun };
  const first_chunk_seconds = Math.max(idle_seconds, first_byte_seconds);
  return { kind: 'relay', response, idle_seconds, first_chunk_seconds, begun };
}

/** Like the answer of a request in time, but nobody looked at its beginning. */
function lateRelay(plan: AttemptPlan, response: UpstreamResponse): Relay {
  const relay = relayTo(plan, response, []);
  if (response.statusCode === 200 && isEventStream(response.headers['content-type'])) return relay;
  return {
    ...relay,
    inspect: (first) => {
      const about = { name: plan.target.config.name, now: plan.clock.now() };
      return refuseForeignAnswer(response, about, first, { takes_bytes: isOther(plan.ctx) });
    },
  };
}

/** Waits for the head of the answer; when it comes too late for the client, it is read for its bill all the same. */
function awaitHead(plan: AttemptPlan, sending: Sending): Promise<UpstreamResponse> {
  const { ctx, target, clock, can_move_on, first_byte_seconds: seconds } = plan;
  const { name } = target.config;
  return new Promise((resolve, reject) => {
    const giveUp = (reason: StageError) => sending.abandon(reason);
    ctx.onCancel(giveUp);
    ctx.drainWithin(hasBill(ctx) ? target.drain : undefined);
    const timer = clock.after(seconds * 1000, () => {
      // How long an answer is read on that nobody waits for is decided elsewhere.
      if (ctx.aborted) return;
      const is_sent = sending.attempts > 0;
      const goes_on = is_sent && !can_move_on && drainLate(plan, sending, giveUp);
      const reason = tooLate(name, seconds, { is_sent, goes_on });
      if (goes_on) reject(reason);
      else giveUp(reason);
      sending.forgetBody();
    });
    sending.answer.then(
      (response) => {
        timer.close();
        resolve(response);
      },
      (error) => {
        timer.close();
        reject(error);
      },
    );
  });
}

function drainLate(plan: AttemptPlan, sending: Sending, giveUp: (reason: StageError) => void): boolean {
  const late = sending.answer.then((response) => lateRelay(plan, response));
  late.catch(() => {});
  return plan.ctx.drainLater(late, plan.first_byte_seconds, giveUp);
}

function howLong(plan: AttemptPlan, response: UpstreamResponse): HoldOptions {
  const { ctx, target, clock, timeouts, can_move_on, first_byte_seconds, began } = plan;
  const { statusCode: status = 0, headers } = response;
  if (status >= 400)
    return { ...HOLD, clock, until: 'end', silence_seconds: ERROR_SECONDS, seconds: ERROR_SECONDS, bytes_max: 65_536 };
  const silence_seconds = can_move_on ? first_byte_seconds : timeouts.idle_seconds;
  if (status === 200 && isEventStream(headers['content-type'])) {
    // Every stream of Responses greets, also one that fails because the upstream is overloaded.
    const greets = target.config.hold === 'first_content' || protocolAt(ctx, target) === 'responses';
    const { commit_seconds } = timeouts;
    // They begin with the request: proxies in front of the gateway wait no longer for a head because there was none upstream.
    const left = commit_seconds - (clock.monotonic() - began) / 1000;
    const seconds = Math.max(Math.min(HOLD_SECONDS_LEAST, commit_seconds), left);
    return { ...HOLD, clock, until: greets ? 'content' : 'event', silence_seconds, seconds };
  }
  const patience = ctx.get('request.stream') === true ? silence_seconds : Math.max(silence_seconds, first_byte_seconds);
  return { ...HOLD, clock, until: 'bytes', silence_seconds: patience, seconds: Infinity };
}

/** A request that left is not said to be one to send again: the upstream may be at work on it, and bill it. */
function tooLate(
  name: string,
  seconds: number,
  { is_sent, goes_on }: { is_sent: boolean; goes_on: boolean },
): StageError {
  const fact = `The upstream "${name}" did not begin to answer within ${seconds} seconds.`;
  const details = { upstream: name };
  if (!is_sent) return new StageError('upstream_timeout', fact, { details });
  const money = goes_on
    ? 'Its answer is waited for and charged if it comes'
    : 'It was given up, and the upstream may bill it all the same';
  const message = `${fact} ${money}; the same request sent again is paid again.`;
  return new StageError('upstream_timeout', message, { details, headers: { 'x-should-retry': 'false' } });
}

/** Whether there is a bill to be known: counting tokens and what is not charged cost nothing. */
function hasBill(ctx: ForwardContext): boolean {
  return ctx.get('request.protocol') !== 'count_tokens' && ctx.get('spend.most_nano_usd') !== 0;
}
