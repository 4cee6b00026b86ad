/** Traces the stages of a plan: which ran, the facts of their guards, written facts, raised errors. */

import { StageError } from '../../../base/contract/errors.ts';
import type { Rewriting } from '../../../base/contract/rewriting.ts';
import type { AttemptRecord, FactView, Services } from '../../../base/contract/services.ts';
import type { StageContext, StageHooks } from '../../../base/contract/stage.ts';
import { flatFacts } from '../../../base/rules/fact-view.ts';
import type { PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import type { PlanObserver } from '../../../pipeline/run/compiled.ts';
import { RequestContext } from '../../../pipeline/run/context.ts';
import type { Confinement } from '../no-network.ts';

/** The trace of a pipeline entry for one request. */
export interface StageTrace {
  readonly entry: StageEntry;
  readonly list: 'stages' | 'on_error' | 'finally';
  guard: { readonly held: boolean; readonly facts: FactView } | undefined;
  ran: boolean;
  readonly wrote: Map<string, unknown>;
  raised: { readonly code: string | undefined; readonly message: string } | undefined;
}

/** The trace of one request. */
export interface RequestTrace {
  readonly pipeline: PipelineSpec;
  readonly stages: readonly StageTrace[];
  facts: FactView;
  attempts: readonly AttemptRecord[];
}

/** Creates a tracer of the requests to one plan, which must be sequential. `factsOf` reads all facts of a request. */
export function createWatch(factsOf: Services['facts'], confinement: Confinement) {
  let trace: RequestTrace | undefined;
  let latest: StageContext | undefined;
  let activity = 0;
  let given_up = Promise.withResolvers<never>();

  function begin(): void {
    trace = undefined;
    latest = undefined;
    given_up = Promise.withResolvers<never>();
    given_up.promise.catch(() => {});
  }

  function traceOf(pipeline: PipelineSpec): RequestTrace {
    if (trace?.pipeline !== pipeline) {
      const stages = (['stages', 'on_error', 'finally'] as const).flatMap((list) =>
        pipeline[list].map((entry): StageTrace => {
          const nothing = { guard: undefined, ran: false, raised: undefined };
          return { entry, list, wrote: new Map(), ...nothing };
        }),
      );
      trace = { pipeline, stages, facts: {}, attempts: [] };
    }
    return trace;
  }

  const stageTrace = (pipeline: PipelineSpec, id: string) =>
    traceOf(pipeline).stages.find(({ entry }) => entry.id === id)!;

  function readFacts(ctx: StageContext): FactView {
    try {
      return factsOf(ctx);
    } catch {
      // The context of a stage that timed out has ended.
      return trace?.facts ?? {};
    }
  }

  function around<T>(
    pipeline: PipelineSpec,
    id: string,
    ctx: StageContext,
    hook: () => T | Promise<T>,
  ): T | Promise<T> {
    const request = traceOf(pipeline);
    const stage = stageTrace(pipeline, id);
    const before = new Set(flatFacts(readFacts(ctx)).map(([path]) => path));
    stage.ran = true;
    // The context of a contained stage ends with its hook.
    if (ctx instanceof RequestContext) latest = ctx;
    activity++;
    const done = () => {
      activity++;
      request.facts = readFacts(ctx);
      for (const [path, value] of flatFacts(request.facts)) if (!before.has(path)) stage.wrote.set(path, value);
    };
    const failed = (error: unknown): never => {
      done();
      const code = error instanceof StageError ? error.code : undefined;
      stage.raised = { code, message: error instanceof Error ? error.message : String(error) };
      throw error;
    };
    const finished = (result: T): T => {
      done();
      return result;
    };
    try {
      const result = confinement.run(id, hook);
      return result instanceof Promise
        ? Promise.race([result, given_up.promise]).then(finished, failed)
        : finished(result);
    } catch (error) {
      return failed(error);
    }
  }

  function watchedHooks(pipeline: PipelineSpec, { id, mode }: StageEntry, hooks: StageHooks): StageHooks {
    const { request, attempt, response, rewrite, event, finish, finally: last, close } = hooks;
    // The finish hook shows that a stage without a request hook was reached.
    const is_observer = request === undefined && last === undefined;
    const watch = <T>(ctx: StageContext, hook: () => T | Promise<T>) => around(pipeline, id, ctx, hook);
    return {
      ...(request && { request: (ctx) => watch(ctx, () => request.call(hooks, ctx)) }),
      ...(attempt && {
        attempt(ctx) {
          // An error on the attempt at another upstream no longer matters.
          stageTrace(pipeline, id).raised = undefined;
          return watch(ctx, () => attempt.call(hooks, ctx));
        },
      }),
      ...(response && { response: (ctx, head) => void watch(ctx, () => response.call(hooks, ctx, head)) }),
      // Replacements run later, still as this stage.
      ...(rewrite && {
        rewrite:
          mode === 'shadow'
            ? (ctx) => confinement.run(id, () => rewrite.call(hooks, ctx))
            : (ctx) => watch(ctx, () => rewrite.call(hooks, ctx)) as Rewriting | undefined,
      }),
      ...(event && { event: (ctx, sent) => confinement.run(id, () => event.call(hooks, ctx, sent)) }),
      ...((finish || is_observer) && { finish: (ctx) => watch(ctx, () => finish?.call(hooks, ctx)) }),
      ...(last && { finally: (ctx) => watch(ctx, () => last.call(hooks, ctx)) }),
      ...(close && { close: () => confinement.run(id, () => close.call(hooks)) }),
    } satisfies StageHooks;
  }

  const observer: PlanObserver = {
    onCreate: (pipeline, entry, create) => watchedHooks(pipeline, entry, confinement.run(entry.id, create)),
    onGuard(pipeline, entry, facts, held) {
      activity++;
      stageTrace(pipeline, entry.id).guard = { held, facts };
      traceOf(pipeline).facts = facts;
    },
  };
  return {
    observer,
    begin,
    giveUp: () => given_up.reject(new Error('nothing happened any more, and the test gave the stage up')),
    /** The trace since `begin`; `undefined` if no pipeline serves the request. */
    trace() {
      if (trace !== undefined && latest !== undefined) {
        trace.facts = readFacts(latest);
        trace.attempts = latest.attempts;
      }
      return trace;
    },
    get activity() {
      return activity;
    },
  };
}
