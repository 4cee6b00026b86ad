import { StageError } from '../contract/errors.ts';
import type { DropReason, RouteFacts } from '../contract/forwarding.ts';
import type { BodyState } from './body.ts';
import type { CompiledStage } from './compiled.ts';
import { isRefusal } from './contained/stage-failure.ts';
import type { RequestContext } from './context.ts';

/** Makes one request ready for each upstream it is to be sent to. */
export class Preparation {
  /** Whether `attempt` hooks run, which may write facts anew. */
  is_running = false;
  /** The last error of an `attempt` hook, whose it is, and what was thrown for it: the stage that sends may pass that on. */
  failed: { readonly stage: CompiledStage; readonly error: unknown; readonly thrown: unknown } | undefined;
  /** What the request was before; set while another upstream may follow. */
  #before: (Pick<RequestContext, 'rewrites' | 'conversion'> & { readonly body: BodyState | undefined }) | undefined;

  /** See `StageContext.prepareAttempt`. */
  prepare(ctx: RequestContext, facts: RouteFacts, is_last: boolean): void | Promise<void> {
    const sender = ctx.stage;
    this.#goBack(ctx, is_last);
    ctx.replaceFacts(facts);
    this.is_running = true;
    const done = () => {
      this.is_running = false;
      ctx.stage = sender;
    };
    const fail = (error: unknown): never => {
      const stage = ctx.stage!;
      done();
      // A stage that fails ends the request; only one that refuses keeps it from this upstream alone.
      const is_failure = error instanceof StageError && !isRefusal(stage, error);
      const thrown = is_failure ? new Error('a stage failed before an attempt', { cause: error }) : error;
      this.failed = { stage, error, thrown };
      throw thrown;
    };
    try {
      const waiting = runAttemptHooks(ctx, 0);
      if (waiting !== undefined) return waiting.then(done, fail);
    } catch (error) {
      fail(error);
    }
    done();
    return undefined;
  }

  /** See `StageContext.passOver`. */
  passOver(ctx: RequestContext, reason: DropReason): boolean {
    const [passed, ...others] = ctx.candidates ?? [];
    const [next] = others;
    if (passed === undefined || next === undefined) return false;
    const { name } = passed.upstream;
    ctx.candidates = others;
    ctx.replaceFacts({
      ...next.facts,
      'route.candidates': ctx.peek('route.candidates')?.filter((candidate) => candidate !== name),
      'route.dropped': [...(ctx.peek('route.dropped') ?? []), `${name}: ${reason}`],
    });
    return true;
  }

  #goBack(ctx: RequestContext, is_last: boolean): void {
    if (this.#before === undefined) {
      const { rewrites, conversion } = ctx;
      if (!is_last) this.#before = { body: ctx.body?.save(), rewrites, conversion };
      return;
    }
    const { body, rewrites, conversion } = this.#before;
    if (body !== undefined) ctx.body?.restore(body, is_last);
    ctx.rewrites = rewrites;
    ctx.conversion = conversion;
  }
}

/** Hooks that take no time are not waited for. */
function runAttemptHooks(ctx: RequestContext, from: number): Promise<void> | undefined {
  for (let i = from; i < ctx.entered.length; i++) {
    const stage = ctx.entered[i]!;
    if (stage.hooks.attempt === undefined) continue;
    ctx.stage = stage;
    const returned = stage.hooks.attempt(ctx);
    if (returned instanceof Promise) return returned.then(() => runAttemptHooks(ctx, i + 1));
  }
  return undefined;
}
