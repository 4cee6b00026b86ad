/**
 * What a stage does wrong ends here. Every hook is wrapped once, when the plan is made, so that whoever calls it needs to
 * know nothing of time limits, of failures, or of stages the request may go on without.
 *
 * All stages: `event`, `finish`, `finally` and `close` never fail; what goes wrong in them is logged.
 * Stages that have a time limit or may fail without failing the request (the operator's own, and those a pipeline says so
 * about): each call gets a `Lease` and ends within the limit, and what it returns is checked. The `request`, `attempt`,
 * `response` and `rewrite` hooks of all others are called as they are, at no cost.
 */

import type { StageError } from '../../contract/errors.ts';
import type { Replacement, Rewriting } from '../../contract/rewriting.ts';
import type { Clock, Log, Services } from '../../contract/services.ts';
import type { ResponseEvent, ResponseHead, StageHooks } from '../../contract/stage.ts';
import { runAsStage } from '../../kit/strays.ts';
import type { StageEntry } from '../../source/spec.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';
import { checkRewriting } from '../rewriting/check-rewriting.ts';
import { Lease } from './lease.ts';
import { watchHook } from './loop-watch.ts';
import { checkError, checkResult, discardResult, type Result } from './result.ts';
import { asError, isRefusal, reportFailure, timeoutOf } from './stage-failure.ts';

type Last = 'finish' | 'finally';

/** Wraps the hooks that a stage made; `stage` is what they are called for. */
export function containHooks(
  stage: CompiledStage,
  made: StageHooks,
  limits: Pick<StageEntry, 'timeout_seconds' | 'fail_closed'>,
  { clock, log }: Pick<Services, 'clock' | 'log'>,
): StageHooks {
  const { timeout_seconds, fail_closed } = limits;
  const patience = { id: stage.id, timeout_seconds, clock };
  const is_contained = timeout_seconds !== undefined || !fail_closed;
  const contained = is_contained ? new ContainedStage(stage, made, { ...patience, fail_closed, log }) : undefined;
  const report = (ctx: RequestContext, moment: keyof StageHooks, error: unknown) =>
    reportFailure(log, ctx, stage, moment, error);
  const last = (moment: Last) => async (ctx: RequestContext) => {
    try {
      await (contained === undefined ? made[moment]!(ctx) : contained.call(ctx, moment));
    } catch (error) {
      report(ctx, moment, error);
    }
  };
  return {
    ...(made.request && { request: contained ? contained.request.bind(contained) : made.request.bind(made) }),
    ...(made.attempt && { attempt: contained ? contained.attempt.bind(contained) : made.attempt.bind(made) }),
    ...(made.response && { response: contained ? contained.response.bind(contained) : made.response.bind(made) }),
    ...(made.rewrite && { rewrite: contained ? contained.rewrite.bind(contained) : made.rewrite.bind(made) }),
    ...(made.event && {
      event(ctx: RequestContext, event) {
        try {
          if (contained === undefined) made.event!(ctx, event);
          else contained.event(ctx, event);
        } catch (error) {
          // The client already has the bytes; an observer that fails must not cut its stream.
          report(ctx, 'event', error);
        }
      },
    }),
    ...(made.finish && { finish: last('finish') }),
    ...(made.finally && { finally: last('finally') }),
    ...(made.close && { close: () => close(made, patience, log) }),
  };
}

async function close(made: StageHooks, patience: Patience, log: Log): Promise<void> {
  const { id: stage } = patience;
  const fail = (error: unknown) => log.error({ err: asError(error), stage }, 'a stage failed to close');
  try {
    const returned = runAsStage(stage, () => made.close!());
    if (isThenable(returned)) await waitFor(returned, patience, { onLateError: fail });
  } catch (error) {
    fail(error);
  }
}

/** The hooks of a stage that is given leases. */
class ContainedStage {
  readonly #stage: CompiledStage;
  readonly #made: StageHooks;
  readonly #patience: Patience & { readonly fail_closed: boolean; readonly log: Log };

  constructor(stage: CompiledStage, made: StageHooks, patience: Patience & { fail_closed: boolean; log: Log }) {
    this.#stage = stage;
    this.#made = made;
    this.#patience = patience;
  }

  async request(ctx: RequestContext): Promise<Result | undefined> {
    try {
      return checkResult(ctx, this.#stage, await this.call(ctx, 'request'));
    } catch (error) {
      this.#fail(ctx, 'request', error);
      return undefined;
    }
  }

  async attempt(ctx: RequestContext): Promise<void> {
    if (ctx.left_out?.has(this.#stage)) return;
    try {
      await this.call(ctx, 'attempt');
    } catch (error) {
      this.#fail(ctx, 'attempt', error);
    }
  }

  /** The head is sent when it returns, so that a promise comes too late and is a failure. */
  response(ctx: RequestContext, head: ResponseHead): void {
    if (ctx.left_out?.has(this.#stage)) return;
    const lease = new Lease(ctx, this.#stage);
    try {
      const returned: unknown = this.#run(lease, () => this.#made.response!(lease, lease.lend(head)));
      if (!isThenable(returned)) return;
      Promise.resolve(returned).catch((error) => this.#report(ctx, 'response', error));
      throw new Error('its response hook returned a promise, and the head of the response does not wait');
    } catch (error) {
      this.#fail(ctx, 'response', error);
    } finally {
      lease.end();
    }
  }

  /** What it returns is checked; a replacement runs outside of hooks and is contained by itself. */
  rewrite(ctx: RequestContext): Rewriting | undefined {
    if (ctx.left_out?.has(this.#stage)) return undefined;
    const lease = new Lease(ctx, this.#stage);
    try {
      const rewriting = checkRewriting(this.#run(lease, () => this.#made.rewrite!(lease)));
      return (
        rewriting && { ...rewriting, replacements: rewriting.replacements.map((one) => this.#contained(ctx, one)) }
      );
    } catch (error) {
      this.#fail(ctx, 'rewrite', error);
      return undefined;
    } finally {
      lease.end();
    }
  }

  #contained(ctx: RequestContext, { find, replace }: Replacement): Replacement {
    if (typeof replace === 'string') return { find, replace };
    const replaceContained = (found: string): string | undefined => {
      if (ctx.left_out?.has(this.#stage)) return undefined;
      const lease = new Lease(ctx, this.#stage);
      try {
        const replacement: unknown = this.#run(lease, () => replace(found));
        if (replacement === undefined || typeof replacement === 'string') return replacement;
        throw new Error('a replacement makes a text or nothing, and it made something else');
      } catch (error) {
        this.#fail(ctx, 'rewrite', error);
        return undefined;
      } finally {
        lease.end();
      }
    };
    return { find, replace: replaceContained };
  }

  /** Sees a copy of the event and is not waited for; what it leaves running is heard when it fails. */
  event(ctx: RequestContext, event: ResponseEvent): void {
    if (ctx.left_out?.has(this.#stage)) return;
    const lease = new Lease(ctx, this.#stage);
    let returned: unknown;
    try {
      returned = this.#run(lease, () => this.#made.event!(lease, { ...event }));
    } finally {
      if (!isThenable(returned)) lease.end();
    }
    if (!isThenable(returned)) return;
    const onLateError = (error: unknown) => this.#report(ctx, 'event', error);
    waitFor(returned, this.#patience, { lease, onLateError })
      .catch(onLateError)
      .finally(() => lease.end());
  }

  /** Runs a hook that may take time, within the stage's limit. Rejects with whatever the stage throws. */
  async call(ctx: RequestContext, moment: 'request' | 'attempt' | Last): Promise<unknown> {
    const lease = new Lease(ctx, this.#stage);
    const ends = watchHook(this.#stage.id, this.#patience.log, true);
    try {
      const returned = this.#run(lease, () => this.#made[moment]!(lease));
      if (!isThenable(returned)) return returned;
      return await waitFor(returned, this.#patience, {
        lease,
        onLateValue: discardResult,
        onLateError: (error) => this.#report(ctx, moment, error),
      });
    } finally {
      lease.end();
      ends();
    }
  }

  #run<T>(lease: Lease, hook: () => T): T {
    const ends = watchHook(this.#stage.id, this.#patience.log, false);
    try {
      return runAsStage(this.#stage.id, hook, lease);
    } finally {
      ends();
    }
  }

  /** Raises what the request fails with; where it may go on without the stage, that is reported instead. */
  #fail(ctx: RequestContext, moment: 'request' | 'attempt' | 'response' | 'rewrite', error: unknown): void {
    let failure = error;
    let refuses = false;
    try {
      refuses = isRefusal(this.#stage, error);
    } catch (trap) {
      // Even asking what was thrown can throw, where it is a proxy.
      failure = trap;
    }
    if (refuses) throw checkError(error as StageError);
    if (this.#patience.fail_closed) throw failure;
    this.#report(ctx, moment, failure);
    ctx.leaveOut(this.#stage);
  }

  #report(ctx: RequestContext, moment: keyof StageHooks, error: unknown): void {
    reportFailure(this.#patience.log, ctx, this.#stage, moment, error);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

/** How long is waited for a stage. */
interface Patience {
  readonly id: string;
  /** Longest one of its hooks may take; for ever where absent. */
  readonly timeout_seconds: number | undefined;
  readonly clock: Clock;
}

interface Wait {
  /** Ends what the stage may do. */
  readonly lease?: Lease;
  /** What becomes of a value that comes too late. */
  readonly onLateValue?: (value: unknown) => void;
  readonly onLateError: (error: unknown) => void;
}

/** Waits for a stage no longer than it may take, and never leaves its promise without somebody who hears it fail. */
function waitFor(
  pending: PromiseLike<unknown>,
  { id, timeout_seconds, clock }: Patience,
  { lease, onLateValue, onLateError }: Wait,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let late = false;
    const giveUp = (seconds: number) => {
      const reason = timeoutOf(id, seconds);
      lease?.cancel(reason);
      // A stage that listens can still say how far it came, such as that the request has left already.
      setImmediate(() => {
        late = true;
        lease?.end();
        reject(reason);
      });
    };
    const timer =
      timeout_seconds === undefined ? undefined : clock.after(timeout_seconds * 1000, () => giveUp(timeout_seconds));
    // A thenable of the stage's own may name another as its value, or settle more than once; a promise does neither.
    Promise.resolve(pending).then(
      (value) => {
        timer?.close();
        if (late) onLateValue?.(value);
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
