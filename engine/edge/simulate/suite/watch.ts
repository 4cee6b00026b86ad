/** Watches a plan at work: which stages ran, what their guards saw, which facts they wrote, what they raised. */

import { StageError } from '../../../base/contract/errors.ts';
import type { Rewriting } from '../../../base/contract/rewriting.ts';
import type { AttemptRecord, FactView, Services } from '../../../base/contract/services.ts';
import type { Answer, Relay, StageContext, StageHooks } from '../../../base/contract/stage.ts';
import { flatFacts } from '../../../base/rules/fact-view.ts';
import type { PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import type { PlanObserver } from '../../../pipeline/run/compiled.ts';
import { RequestContext } from '../../../pipeline/run/context.ts';
import type { Confinement } from '../no-network.ts';

/** What an entry of a pipeline did on one request. */
export interface StageTrace {
  readonly entry: StageEntry;
  readonly list: 'stages' | 'on_error' | 'finally';
  guard: { readonly held: boolean; readonly facts: FactView } | undefined;
  ran: boolean;
  readonly wrote: Map<string, unknown>;
  raised: { readonly code: string | undefined; readonly message: string } | undefined;
  /** What it ended the request with: a status of its own, or the upstream's response. */
  answered: { readonly kind: 'answer' | 'relay'; readonly status: number } | undefined;
}

/** What happened inside the gateway on one request. */
export interface RequestTrace {
  readonly pipeline: PipelineSpec;
  readonly stages: readonly StageTrace[];
  facts: FactView;
  attempts: readonly AttemptRecord[];
}

/** Creates a watch over the requests to one plan, which must come one after another. `factsOf` reads all facts of a request. */
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
          const nothing = { guard: undefined, ran: false, raised: undefined, answered: undefined };
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
      // A stage that took too long has no context any more.
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
    // A contained stage holds a context of its own that ends with its hook.
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
      const answer = result as Answer | Relay | undefined;
      if (answer?.kind === 'answer') stage.answered = { kind: 'answer', status: answer.status };
      if (answer?.kind === 'relay') stage.answered = { kind: 'relay', status: answer.response.statusCode! };
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
    // A stage that only watches is known to have been on duty by its finish hook.
    const is_observer = request === undefined && last === undefined;
    const watch = <T>(ctx: StageContext, hook: () => T | Promise<T>) => around(pipeline, id, ctx, hook);
    return {
      ...(request && { request: (ctx) => watch(ctx, () => request.call(hooks, ctx)) }),
      ...(attempt && {
        attempt(ctx) {
          // What kept the request from one upstream says nothing once it is made ready for another.
          stageTrace(pipeline, id).raised = undefined;
          return watch(ctx, () => attempt.call(hooks, ctx));
        },
      }),
      ...(response && { response: (ctx, head) => void watch(ctx, () => response.call(hooks, ctx, head)) }),
      // What replaces a text runs later, and is the stage's all the same.
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
    /** What happened since; `undefined` when no pipeline took the request. */
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
