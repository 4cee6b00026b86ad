import type { FactView, Services, StageDefinition, StageHooks } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import type { ErrorCode } from '../errors.ts';
import { ENGINE_FACTS } from '../facts.ts';
import type { ErrorClause, Loaded, PipelineSpec, StageEntry } from '../load/spec.ts';
import { compileCondition } from '../rules/compile.ts';
import { factMask } from './fact-store.ts';

/** A stage entry ready to run: its hooks, its guard as a function, its declared facts as masks (see `factMask`). */
export interface CompiledStage {
  readonly id: string;
  readonly definition: StageDefinition;
  readonly hooks: StageHooks;
  /** Absent means always. */
  readonly guard: Guard | undefined;
  readonly readable: Uint8Array;
  readonly writable: Uint8Array;
}

/** A compiled `on_error` clause. */
export interface CompiledClause extends CompiledStage {
  /** Codes it handles; absent means all. */
  readonly errors: ReadonlySet<ErrorCode> | undefined;
}

/** A pipeline ready to run. */
export interface CompiledPipeline {
  readonly spec: PipelineSpec;
  readonly stages: readonly CompiledStage[];
  readonly on_error: readonly CompiledClause[];
  readonly finally: readonly CompiledStage[];
  /** Whether any stage has an `event` hook; without one a response is not observed at all. */
  readonly observed: boolean;
}

/** The compiled configuration: immutable, replaced as a whole by a reload, closed after its last request. */
export interface Plan {
  readonly config: GatewayConfig;
  /** The pipelines that serve a path, by method. */
  pipelinesAt(path: string): ReadonlyMap<string, CompiledPipeline> | undefined;
  readonly services: Services;
  /** Counts a request in; the returned function counts it out. */
  enter(): () => void;
  /** Resolves when the last request has left and every stage has released what it opened. */
  close(): Promise<void>;
}

/** Watches the conditions of a plan being evaluated, for tests of pipelines and for explanations. */
export interface PlanObserver {
  /** A guard of an entry or an `on_error` clause was evaluated. */
  onGuard(pipeline: PipelineSpec, entry: StageEntry, facts: FactView, held: boolean): void;
}

function compileStage(entry: StageEntry, services: Services, watch: WatchGuard): CompiledStage {
  const { definition } = entry;
  return {
    id: entry.id,
    definition,
    hooks: definition.create(entry.options as never, services),
    guard: entry.when === undefined ? undefined : watch(entry, compileCondition(entry.when)),
    readable: factMask([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]),
    writable: factMask(definition.writes),
  };
}

function compileClause(clause: ErrorClause, services: Services, watch: WatchGuard): CompiledClause {
  return { ...compileStage(clause, services, watch), errors: clause.errors && new Set(clause.errors) };
}

type Guard = (facts: FactView) => boolean;
type WatchGuard = (entry: StageEntry, guard: Guard) => Guard;

function watchGuards(pipeline: PipelineSpec, observer: PlanObserver | undefined): WatchGuard {
  if (observer === undefined) return (_entry, guard) => guard;
  return (entry, guard) => (facts) => {
    const held = guard(facts);
    observer.onGuard(pipeline, entry, facts, held);
    return held;
  };
}

function compilePipeline(spec: PipelineSpec, services: Services, observer?: PlanObserver): CompiledPipeline {
  const watch = watchGuards(spec, observer);
  const stages = spec.stages.map((entry) => compileStage(entry, services, watch));
  return {
    spec,
    stages,
    on_error: spec.on_error.map((clause) => compileClause(clause, services, watch)),
    finally: spec.finally.map((entry) => compileStage(entry, services, watch)),
    observed: stages.some((stage) => stage.hooks.event !== undefined),
  };
}

function indexByPath(pipelines: readonly CompiledPipeline[]): Map<string, Map<string, CompiledPipeline>> {
  const index = new Map<string, Map<string, CompiledPipeline>>();
  for (const pipeline of pipelines) {
    for (const path of pipeline.spec.match.paths) {
      const methods = index.get(path) ?? new Map<string, CompiledPipeline>();
      index.set(path, methods);
      for (const method of pipeline.spec.match.methods) methods.set(method, pipeline);
    }
  }
  return index;
}

/** Instantiates every stage of a configuration that loaded without errors. */
export function buildPlan(loaded: Loaded, services: Services, observer?: PlanObserver): Plan {
  const { config } = loaded;
  if (config === undefined) throw new Error('a configuration with errors has no plan');
  const pipelines = loaded.pipelines.map((spec) => compilePipeline(spec, services, observer));
  const index = indexByPath(pipelines);
  let running = 0;
  let onIdle: (() => void) | undefined;
  const leave = () => {
    if (--running === 0) onIdle?.();
  };
  return {
    config,
    services,
    pipelinesAt: (path) => index.get(path),
    enter() {
      running++;
      return leave;
    },
    async close() {
      if (running > 0) await new Promise<void>((resolve) => (onIdle = resolve));
      const all = pipelines.flatMap((pipeline) => [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally]);
      const results = await Promise.allSettled(all.map(async (stage) => stage.hooks.close?.()));
      results.forEach((result, i) => {
        if (result.status === 'rejected')
          services.log.error({ err: result.reason, stage: all[i]!.id }, 'a stage failed to close');
      });
    },
  };
}
