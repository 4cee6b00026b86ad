import type { GatewayConfig } from '../../base/contract/config.ts';
import { ENGINE_FACTS, type FactPath } from '../../base/contract/facts.ts';
import { PROTOCOLS } from '../../base/contract/protocol.ts';
import type { Services, SharedServices } from '../../base/contract/services.ts';
import type { StageDefinition, StageHooks } from '../../base/contract/stage.ts';
import { StageNotCreated } from '../../base/contract/start-error.ts';
import { pathFinder } from '../../base/kit/path-patterns.ts';
import { runAsStage } from '../../base/kit/unhandled-errors.ts';
import { compileCondition } from '../../base/rules/compile.ts';
import type { Loaded, PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import type { StoreNeeds } from '../../base/store/health.ts';
import { RECORDED_FACTS } from '../../domain/audit/recorded-facts.ts';
import { configHash } from '../../domain/telemetry/config-hash.ts';
import type { CompiledClause, CompiledPipeline, CompiledStage, PlanObserver } from './compiled.ts';
import { containHooks } from './contained/contain.ts';
import { auditLogOf } from './contained/stage-data.ts';
import { factMask, selectFacts } from './fact-store.ts';
import { ruleFacts } from './request-record.ts';

const HOOKS: readonly string[] = 'request attempt response rewrite event finish finally close'.split(' ');

const RECORDER = 'audit';

/** Withholds the services for which the stage does not declare a capability. */
function servicesFor({ name, needs }: StageDefinition, services: Services): Services {
  if (name === RECORDER) return services;
  if (needs.includes('database')) return { ...services, audit: auditLogOf(name, services.audit) };
  const withheld = ['tokens', 'ledger', 'audit'].map((service) => {
    const get = () => {
      throw new Error(
        `services.${service} needs the capability "database", which the stage "${name}" does not declare under \`needs\``,
      );
    };
    return [service, new Proxy({}, { get })] as const;
  });
  return { ...services, ...Object.fromEntries(withheld) };
}

/** The facts that rules and stages use: costly ones are computed only for them. The audit log alone does not count. */
function factsUsed(spec: PipelineSpec, config: GatewayConfig): ReadonlySet<string> {
  const readers = [...spec.stages, ...spec.on_error, ...spec.finally].filter(
    ({ definition }) => definition.name !== RECORDER,
  );
  const read = readers.flatMap(({ definition: { reads, readsIfSet } }) => [...reads, ...readsIfSet]);
  return new Set([...ruleFacts(spec, config), ...read]);
}

/** The problem with the hooks that `create` returned; `undefined` without one. */
function hooksProblem(hooks: unknown, { terminal, place, needs }: StageDefinition): string | undefined {
  if (typeof hooks !== 'object' || hooks === null) return 'returns no hooks';
  if (typeof (hooks as { then?: unknown }).then === 'function') {
    // Its rejection must not end the process.
    (hooks as Promise<unknown>).then(undefined, () => {});
    return 'returns a promise, not hooks; do asynchronous setup in the first request';
  }
  for (const [name, hook] of Object.entries(hooks)) {
    if (!HOOKS.includes(name))
      return `returns ${JSON.stringify(name)}, which is not a hook; the hooks are ${HOOKS.join(', ')}`;
    if (hook !== undefined && typeof hook !== 'function')
      return `returns a hook ${JSON.stringify(name)} that is not a function`;
  }
  const { request, rewrite, finally: last } = hooks as StageHooks;
  if (terminal && request === undefined) return 'returns no `request` hook, which a `terminal` stage needs';
  if (rewrite !== undefined && !needs.includes('rewrite-response'))
    return 'returns a `rewrite` hook, which needs the capability "rewrite-response"';
  if (place === 'finally' && last === undefined) return "returns no `finally` hook, which `place: 'finally'` needs";
  if (place === 'stages' && last !== undefined) return "returns a `finally` hook, which needs `place: 'finally'`";
  return undefined;
}

function createHooks({ id, definition, options, position }: StageEntry, services: Services): StageHooks {
  let hooks: StageHooks;
  try {
    hooks = runAsStage(id, () => definition.create(options, servicesFor(definition, services)));
  } catch (error) {
    const reason = error instanceof Error ? error.message : `it threw a ${typeof error}, not an Error`;
    throw new StageNotCreated(id, position, reason, error);
  }
  const problem = hooksProblem(hooks, definition);
  if (problem !== undefined) throw new StageNotCreated(id, position, `its \`create\` ${problem}`);
  return hooks;
}

/** Instantiates a stage; in shadow mode only to count what it would rewrite. Raises StageNotCreated. */
function compileStage(
  pipeline: PipelineSpec,
  entry: StageEntry,
  services: Services,
  observer: PlanObserver | undefined,
): CompiledStage {
  const { id, definition } = entry;
  const shadow = entry.mode === 'shadow';
  const stage: CompiledStage & { hooks: StageHooks } = {
    id,
    definition,
    hooks: {},
    guard: compileGuard(pipeline, entry, observer),
    shadow,
    readable: factMask([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]),
    writable: factMask(definition.writes),
  };
  const create = () => createHooks(entry, services);
  if (!shadow || definition.needs.includes('rewrite-response')) {
    const made = observer === undefined ? create() : observer.onCreate(pipeline, entry, create);
    const { rewrite, close } = made;
    const watching = { ...(rewrite && { rewrite: rewrite.bind(made) }), ...(close && { close: close.bind(made) }) };
    stage.hooks = containHooks(stage, shadow ? watching : made, entry, services);
  }
  return stage;
}

function compileGuard(
  pipeline: PipelineSpec,
  entry: StageEntry,
  observer: PlanObserver | undefined,
): CompiledStage['guard'] {
  if (entry.when === undefined) return undefined;
  const guard = compileCondition(entry.when);
  if (observer === undefined) return guard;
  return (facts) => {
    const held = guard(facts);
    observer.onGuard(pipeline, entry, facts, held);
    return held;
  };
}

/** A compiled configuration. Immutable: a reload replaces it as a whole and closes it after its last request. */
export interface Plan {
  readonly config: GatewayConfig;
  pipelinesAt(path: string): ReadonlyMap<string, CompiledPipeline> | undefined;
  readonly services: SharedServices;
  /** The `finally` stages for requests that match no pipeline. */
  readonly other_requests: CompiledPipeline | undefined;
  /** The store dependencies of each pipeline for models. */
  readonly store_needs: readonly StoreNeeds[];
  /** Counts a request as in flight, until the returned function is called. */
  enter(): () => void;
  idle(): Promise<void>;
  /** Resolves when no request is in flight and every stage is closed. */
  close(): Promise<void>;
}

/** Only stages without a guard count: the others may run for no request. */
function needsOf({ stages }: PipelineSpec): StoreNeeds {
  const writes = (fact: FactPath) =>
    stages.some(
      ({ definition, mode, when }) => mode === 'enforce' && when === undefined && definition.writes.includes(fact),
    );
  return { callers: writes('principal.id'), reservations: writes('spend.reserved_nano_usd') };
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

/** Instantiates every stage of a configuration that loaded without errors. Raises StageNotCreated; it then closes the others. */
export function buildPlan(
  loaded: Pick<Loaded, 'config' | 'pipelines' | 'other_requests'>,
  services: SharedServices,
  observer?: PlanObserver,
): Plan {
  const { config } = loaded;
  if (config === undefined) throw new Error('a configuration with errors has no plan');
  const version = configHash(config);
  const created: CompiledStage[] = [];
  const closeAll = () => Promise.all(created.map((stage) => stage.hooks.close?.()));
  const compilePipeline = (spec: PipelineSpec): CompiledPipeline => {
    const in_force = spec.stages.filter(({ mode }) => mode === 'enforce').map(({ definition }) => definition.name);
    const pipeline = { protocol: spec.match.protocol, stages: in_force, facts_read: factsUsed(spec, config) };
    const compile = (entry: StageEntry) => {
      const stage = compileStage(spec, entry, { ...services, pipeline }, observer);
      created.push(stage);
      return stage;
    };
    const stages = spec.stages.map(compile);
    const rule_facts = ruleFacts(spec, config);
    return {
      spec,
      version,
      seen_facts: rule_facts.filter((path) => !RECORDED_FACTS.has(path)),
      rule_view: selectFacts(rule_facts),
      stages,
      on_error: spec.on_error.map((clause): CompiledClause => {
        return Object.assign(compile(clause), { errors: clause.errors && new Set(clause.errors) });
      }),
      finally: spec.finally.map(compile),
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
    store_needs: loaded.pipelines.filter(({ match }) => PROTOCOLS.some((name) => name === match.protocol)).map(needsOf),
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
