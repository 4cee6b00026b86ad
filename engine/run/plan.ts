import type { GatewayConfig } from '../contract/config.ts';
import type { FactPath } from '../contract/facts.ts';
import { PROTOCOLS } from '../contract/protocol.ts';
import type { SharedServices } from '../contract/services.ts';
import { pathFinder } from '../kit/path-patterns.ts';
import type { Loaded, PipelineSpec } from '../source/spec.ts';
import type { StoreNeeds } from '../store/health.ts';
import { configHash } from '../telemetry/config-hash.ts';
import { compileClause, compileStage } from './compile-stage.ts';
import type { CompiledPipeline, CompiledStage, PlanObserver } from './compiled.ts';
import { ruleFacts } from './decisions.ts';
import { selectFacts } from './fact-store.ts';

/** The compiled configuration: immutable, replaced as a whole by a reload, closed after its last request. */
export interface Plan {
  readonly config: GatewayConfig;
  /** The pipelines that serve a path, by method. */
  pipelinesAt(path: string): ReadonlyMap<string, CompiledPipeline> | undefined;
  readonly services: SharedServices;
  /** What runs after requests that no pipeline serves; `undefined` where nothing does. */
  readonly other_requests: CompiledPipeline | undefined;
  /** What each pipeline for models needs of the store. */
  readonly store_needs: readonly StoreNeeds[];
  /** Counts a request in; the returned function counts it out. */
  enter(): () => void;
  /** Resolves when no request is under way. */
  idle(): Promise<void>;
  /** Resolves when the last request has left and every stage has released what it opened. */
  close(): Promise<void>;
}

/** A stage that has a guard is for some requests only. */
function needsOf({ stages }: PipelineSpec): StoreNeeds {
  const writes = (fact: FactPath) =>
    stages.some(
      ({ definition, mode, when }) => mode === 'enforce' && when === undefined && definition.writes.includes(fact),
    );
  return { callers: writes('principal.id'), reservations: writes('spend.reserved_nano_usd') };
}

function servesModels({ match: { protocol } }: PipelineSpec): boolean {
  return PROTOCOLS.some((name) => name === protocol);
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

/**
 * Instantiates every stage of a configuration that loaded without errors. Throws when one cannot be created, after
 * releasing what the others opened.
 */
export function buildPlan(loaded: Loaded, services: SharedServices, observer?: PlanObserver): Plan {
  const { config } = loaded;
  if (config === undefined) throw new Error('a configuration with errors has no plan');
  const version = configHash(config);
  const created: CompiledStage[] = [];
  const closeAll = () => Promise.all(created.map((stage) => stage.hooks.close?.()));
  const add = <T extends CompiledStage>(stage: T): T => {
    created.push(stage);
    return stage;
  };
  const compilePipeline = (spec: PipelineSpec): CompiledPipeline => {
    const stages = spec.stages.map((entry) => add(compileStage(spec, entry, services, observer)));
    const rule_facts = ruleFacts(spec, config);
    return {
      spec,
      version,
      rule_facts,
      rule_view: selectFacts(rule_facts),
      stages,
      on_error: spec.on_error.map((clause) => add(compileClause(spec, clause, services, observer))),
      finally: spec.finally.map((entry) => add(compileStage(spec, entry, services, observer))),
      rewrites: stages.some((stage) => stage.hooks.rewrite !== undefined),
      observed: stages.some((stage) => stage.hooks.event !== undefined),
    };
  };

  let pipelines: readonly CompiledPipeline[];
  let other_requests: CompiledPipeline | undefined;
  try {
    pipelines = loaded.pipelines.map(compilePipeline);
    other_requests = loaded.other_requests && compilePipeline(loaded.other_requests);
  } catch (error) {
    void closeAll();
    throw error;
  }
  const index = indexByPath(pipelines);
  const findPath = pathFinder(index.keys());
  let running = 0;
  const waiting: (() => void)[] = [];
  const leave = () => {
    if (--running === 0) for (const resolve of waiting.splice(0)) resolve();
  };
  const idle = () => new Promise<void>((resolve) => (running === 0 ? resolve() : waiting.push(resolve)));
  return {
    config,
    services,
    other_requests,
    store_needs: loaded.pipelines.filter(servesModels).map(needsOf),
    pipelinesAt(path) {
      const served = findPath(path);
      return served === undefined ? undefined : index.get(served);
    },
    enter() {
      running++;
      return leave;
    },
    idle,
    async close() {
      await idle();
      await closeAll();
    },
  };
}
