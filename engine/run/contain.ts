/**
 * Runs the hooks of stages that have a time limit or may fail without failing the request: the operator's own, and those
 * a pipeline says so about. Hooks of all other stages are called directly, at no cost.
 */

import { StageError } from '../contract/errors.ts';
import type { Clock, Services } from '../contract/services.ts';
import type { ResponseEvent, ResponseHead, StageHooks } from '../contract/stage.ts';
import { runAsStage } from '../kit/strays.ts';
import type { CompiledStage } from './compile-stage.ts';
import type { RequestContext } from './context.ts';
import { Lease } from './lease.ts';
import { checkResult, discardResult, type Result } from './result.ts';

/** Where a request hears of a stage's failure. */
export type FailureReport = (stage: CompiledStage, moment: keyof StageHooks, error: unknown) => void;

type Settled = (value: unknown) => void;

/** The errors of stages that ran out of time. A stage could make one that looks alike, and put any text into it. */
const timeouts = new WeakSet<object>();

/** Whether an error says that a stage ran out of time. */
export function isTimeout(error: unknown): error is StageError {
  return timeouts.has(error as object);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

/** What goes wrong in the listener is the stage's own trouble; it is given up anyway. */
function tellCancelled(lease: Lease, reason: StageError): void {
  try {
    lease.cancel(reason);
  } catch {}
}

interface Wait {
  readonly stage: CompiledStage;
  readonly clock: Clock;
  /** Ends what the stage may do. */
  readonly lease: Lease | undefined;
  /** What becomes of a value that comes too late. */
  readonly onLateValue: Settled;
  readonly onLateError: Settled;
}

/** Waits for a stage no longer than it may take, and never leaves its promise without somebody who hears it fail. */
function waitFor(
  pending: PromiseLike<unknown>,
  { stage, clock, lease, onLateValue, onLateError }: Wait,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let late = false;
    const giveUp = () => {
      const message = `The stage "${stage.id}" did not finish within ${stage.timeout_seconds} seconds.`;
      const reason = new StageError('stage_failed', message, { details: { stage: stage.id } });
      timeouts.add(reason);
      if (lease !== undefined) tellCancelled(lease, reason);
      // A stage that listens can still say how far it came, such as that the request has left already.
      setImmediate(() => {
        late = true;
        lease?.end();
        reject(reason);
      });
    };
    const timer = stage.timeout_seconds === undefined ? undefined : clock.after(stage.timeout_seconds * 1000, giveUp);
    // A thenable of the stage's own may name another as its value, or settle more than once; a promise does neither.
    Promise.resolve(pending).then(
      (value) => {
        timer?.close();
        if (late) onLateValue(value);
        resolve(value);
      },
      (error) => {
        timer?.close();
        if (late) onLateError(error);
        reject(error);
      },
    );
  });
}

/** Runs a hook that may take time, within the stage's limit. Rejects with whatever the stage throws. */
async function call(
  ctx: RequestContext,
  stage: CompiledStage,
  moment: 'request' | 'finish' | 'finally',
  report: FailureReport,
): Promise<unknown> {
  const lease = new Lease(ctx, stage);
  try {
    const returned = runAsStage(stage.id, () => stage.hooks[moment]!(lease));
    if (!isThenable(returned)) return returned;
    return await waitFor(returned, {
      stage,
      clock: ctx.clock,
      lease,
      onLateValue: discardResult,
      onLateError: (error) => report(stage, moment, error),
    });
  } finally {
    lease.end();
  }
}

/** Codes that the context itself raises, in every stage that reads a body or waits. */
const CONTEXT_CODES: ReadonlySet<string> = new Set([
  'bad_http',
  'body_too_large',
  'draining',
  'invalid_encoding',
  'invalid_json',
  'overloaded',
  'rate_limit_exceeded',
  'request_timeout',
]);

/** Whether an error is a stage's way to refuse a request rather than a failure of the stage. */
export function isRefusal(stage: CompiledStage, error: unknown): error is StageError {
  if (!(error instanceof StageError)) return false;
  return CONTEXT_CODES.has(error.code) || stage.definition.raises.includes(error.code);
}

/**
 * Runs the `request` hook of a contained stage. When the stage fails and the request may go on without it, that is
 * reported and there is no result. Raises what the stage raises, and anything else it throws.
 */
export async function callRequest(
  ctx: RequestContext,
  stage: CompiledStage,
  report: FailureReport,
): Promise<Result | undefined> {
  try {
    return checkResult(ctx, stage, await call(ctx, stage, 'request', report));
  } catch (error) {
    if (stage.fail_closed || isRefusal(stage, error)) throw error;
    report(stage, 'request', error);
    ctx.leaveOut(stage);
    return undefined;
  }
}

/** Runs a `finish` or `finally` hook of a contained stage. Rejects with whatever it throws. */
export async function callLast(
  ctx: RequestContext,
  stage: CompiledStage,
  moment: 'finish' | 'finally',
  report: FailureReport,
): Promise<void> {
  await call(ctx, stage, moment, report);
}

/**
 * Runs the `response` hook of a contained stage. The head is sent when it returns, so that a promise comes too late and
 * is a failure. Throws what the stage throws, unless the request may go on without it.
 */
export function callResponse(
  ctx: RequestContext,
  stage: CompiledStage,
  head: ResponseHead,
  report: FailureReport,
): void {
  if (ctx.isLeftOut(stage)) return;
  const lease = new Lease(ctx, stage);
  try {
    const returned: unknown = runAsStage(stage.id, () => stage.hooks.response!(lease, lease.lend(head)));
    if (!isThenable(returned)) return;
    Promise.resolve(returned).catch((error) => report(stage, 'response', error));
    throw new Error('its response hook returned a promise, and the head of the response does not wait');
  } catch (error) {
    if (stage.fail_closed) throw error;
    report(stage, 'response', error);
    ctx.leaveOut(stage);
  } finally {
    lease.end();
  }
}

/**
 * Runs the `event` hook of a contained stage on a copy of the event. It is not waited for; what it leaves running is
 * heard when it fails. Throws what it throws at once.
 */
export function callEvent(
  ctx: RequestContext,
  stage: CompiledStage,
  event: ResponseEvent,
  report: FailureReport,
): void {
  if (ctx.isLeftOut(stage)) return;
  const lease = new Lease(ctx, stage);
  let returned: unknown;
  try {
    returned = runAsStage(stage.id, () => stage.hooks.event!(lease, { ...event }));
  } finally {
    if (!isThenable(returned)) lease.end();
  }
  if (!isThenable(returned)) return;
  const fail = (error: unknown) => report(stage, 'event', error);
  waitFor(returned, { stage, clock: ctx.clock, lease, onLateValue: () => {}, onLateError: fail })
    .catch(fail)
    .finally(() => lease.end());
}

/** Lets a stage release what it opened. Never rejects: a failure is logged with the stage's id. */
export async function closeStage(stage: CompiledStage, { clock, log }: Pick<Services, 'clock' | 'log'>): Promise<void> {
  const { hooks } = stage;
  if (hooks.close === undefined) return;
  const fail = (error: unknown) => log.error({ err: asError(error), stage: stage.id }, 'a stage failed to close');
  try {
    const returned = runAsStage(stage.id, () => hooks.close!());
    if (!isThenable(returned)) return;
    await waitFor(returned, { stage, clock, lease: undefined, onLateValue: () => {}, onLateError: fail });
  } catch (error) {
    fail(error);
  }
}

/** What a stage threw, as something a log can show; anything but an error may be prompt text and is not repeated. */
export function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(`it threw ${thrown === null ? 'null' : `a value of type ${typeof thrown}`}, which is no error`);
}
