import { StageError } from '../../base/contract/errors.ts';
import type { AttemptRecord, Candidate, DropReason, RouteFacts } from '../../base/contract/forwarding.ts';
import type { BodyState } from './body.ts';
import type { CompiledStage } from './compiled.ts';
import { isRefusal } from './contained/result.ts';
import type { RequestContext } from './context.ts';

const NOTHING: readonly never[] = [];

/** The candidates and attempts of one request, and the preparation of each attempt. */
export class RequestAttempts {
  candidates: readonly Candidate[] | undefined;
  records: readonly AttemptRecord[] = NOTHING;
  /** Whether `attempt` hooks are running; they may overwrite facts. */
  is_running = false;
  /** The last error of an `attempt` hook. `thrown` is the error raised to the forwarding stage, which may rethrow it. */
  failed: { readonly stage: CompiledStage; readonly error: unknown; readonly thrown: unknown } | undefined;
  /** The request before the first attempt; set while another upstream may follow. */
  #before: { readonly body: BodyState | undefined; readonly conversion: RequestContext['conversion'] } | undefined;

  prepare(ctx: RequestContext, facts: RouteFacts, is_last: boolean): void | Promise<void> {
    const sender = ctx.stage;
    this.#reset(ctx, is_last);
    ctx.replaceFacts(facts);
    this.is_running = true;
    const done = () => {
      this.is_running = false;
      ctx.stage = sender;
    };
    const fail = (error: unknown): never => {
      const stage = ctx.stage!;
      done();
      // A rejection moves on to the next upstream; a failure of the stage must end the request.
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

  /** Adds an attempt, or replaces the one with its number. */
  add(attempt: AttemptRecord): void {
    this.records = [...this.records.slice(0, attempt.n - 1), attempt];
  }

  dropFirstCandidate(ctx: RequestContext, reason: DropReason): boolean {
    const [passed, ...others] = this.candidates ?? [];
    const [next] = others;
    if (passed === undefined || next === undefined) return false;
    const { name } = passed.upstream;
    this.candidates = others;
    ctx.replaceFacts({
      ...next.facts,
      'route.candidates': ctx.peek('route.candidates')?.filter((candidate) => candidate !== name),
      'route.dropped': [...(ctx.peek('route.dropped') ?? []), `${name}: ${reason}`],
    });
    return true;
  }

  /** Undoes the changes of the last attempt's hooks to the request. */
  #reset(ctx: RequestContext, is_last: boolean): void {
    if (this.#before === undefined) {
      if (!is_last) this.#before = { body: ctx.incoming.save(), conversion: ctx.conversion };
      return;
    }
    const { body, conversion } = this.#before;
    if (body !== undefined) ctx.incoming.restore(body, is_last);
    ctx.conversion = conversion;
  }
}

/** Returns a promise only from the first asynchronous hook on. */
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
