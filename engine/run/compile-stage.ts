import type { GatewayConfig } from '../contract/config.ts';
import { ENGINE_FACTS } from '../contract/engine-facts.ts';
import type { PipelineNotes, Services, SharedServices } from '../contract/services.ts';
import type { StageDefinition, StageHooks } from '../contract/stage.ts';
import { runAsStage } from '../kit/strays.ts';
import { compileCondition } from '../rules/compile.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../source/spec.ts';
import type { CompiledClause, CompiledStage, PlanObserver } from './compiled.ts';
import { auditLogOf } from './contained/audit-fields.ts';
import { containHooks } from './contained/contain.ts';
import { ruleFacts } from './decisions.ts';
import { factMask } from './fact-store.ts';

const HOOKS: readonly string[] = [
  'request',
  'attempt',
  'response',
  'rewrite',
  'event',
  'finish',
  'finally',
  'close',
] satisfies (keyof StageHooks)[];

/** The stage that writes the records of requests. */
const RECORDER = 'audit';

const DATABASE_SERVICES = ['tokens', 'ledger', 'audit'] as const;

function refuse(service: string, stage: string): never {
  throw new Error(
    `services.${service} needs the capability "database", which the stage "${stage}" does not declare under \`needs\``,
  );
}

/** The services without those the stage did not ask for, at no cost to the stages that did. */
function servicesFor({ name, needs }: StageDefinition, services: Services): Services {
  if (name === RECORDER) return services;
  if (needs.includes('database')) return { ...services, audit: auditLogOf(name, services.audit) };
  const withheld = DATABASE_SERVICES.map((service) => {
    const traps = { get: () => refuse(service, name) };
    return [service, new Proxy({}, traps)] as const;
  });
  return { ...services, ...Object.fromEntries(withheld) };
}

/** Stages that ship know what they need, and read what everybody may want to know of only to write it down. */
const SHIPPED_READERS: ReadonlySet<string> = new Set([RECORDER]);

/** Facts that are only found out where somebody looks at them. */
function factsLookedAt(spec: PipelineSpec, config: GatewayConfig): ReadonlySet<string> {
  const readers = [...spec.stages, ...spec.on_error, ...spec.finally].filter(
    ({ definition }) => !SHIPPED_READERS.has(definition.name),
  );
  const read = readers.flatMap(({ definition: { reads, readsIfSet } }) => [...reads, ...readsIfSet]);
  return new Set([...ruleFacts(spec, config), ...read]);
}

function notesOn(spec: PipelineSpec, config: GatewayConfig): PipelineNotes {
  const { match, stages } = spec;
  const in_force = stages.filter(({ mode }) => mode === 'enforce');
  const names = in_force.map(({ definition }) => definition.name);
  return { protocol: match.protocol, stages: names, facts_read: factsLookedAt(spec, config) };
}

/** What is wrong with what `create` returned, in words; `undefined` when nothing is. */
function hooksProblem(hooks: unknown, { terminal, place, needs }: StageDefinition): string | undefined {
  if (typeof hooks !== 'object' || hooks === null) return 'returns no hooks';
  if (typeof (hooks as { then?: unknown }).then === 'function') {
    // Nobody will wait for it, and its failure must not end the process.
    (hooks as Promise<unknown>).then(undefined, () => {});
    return 'returns a promise where hooks are expected; open what takes time in the first request';
  }
  for (const [name, hook] of Object.entries(hooks)) {
    if (!HOOKS.includes(name))
      return `returns ${JSON.stringify(name)}, which is no hook; there are ${HOOKS.join(', ')}`;
    if (hook !== undefined && typeof hook !== 'function')
      return `returns a hook ${JSON.stringify(name)} that is no function`;
  }
  const { request, rewrite, finally: last } = hooks as StageHooks;
  if (terminal && request === undefined) return 'returns no `request` hook, and the stage says that it always answers';
  if (rewrite !== undefined && !needs.includes('rewrite-response'))
    return 'returns a `rewrite` hook, which needs the capability "rewrite-response"';
  if (place === 'finally' && last === undefined) return 'returns no `finally` hook, the only one that would be called';
  if (place === 'stages' && last !== undefined) return "returns a `finally` hook, which needs `place: 'finally'`";
  return undefined;
}

function createHooks({ id, definition, options, position }: StageEntry, services: Services): StageHooks {
  const at = `the stage ${JSON.stringify(id)} (${position.file}:${position.line})`;
  let hooks: StageHooks;
  try {
    hooks = runAsStage(id, () => definition.create(options, servicesFor(definition, services)));
  } catch (error) {
    const reason = error instanceof Error ? error.message : `it threw a ${typeof error}, which is no error`;
    throw new Error(`${at} cannot be created: ${reason}`, { cause: error });
  }
  const problem = hooksProblem(hooks, definition);
  if (problem !== undefined) throw new Error(`${at} cannot be created: its \`create\` ${problem}`);
  return hooks;
}

/**
 * Instantiates the stage of an entry; one in shadow mode is not even created, unless it replaces texts. Throws an error that names the stage and
 * its position when the stage cannot be created.
 */
export function compileStage(
  pipeline: PipelineSpec,
  entry: StageEntry,
  shared: SharedServices,
  observer: PlanObserver | undefined,
): CompiledStage {
  const { id, definition } = entry;
  const services: Services = { ...shared, pipeline: notesOn(pipeline, shared.config) };
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
  // What a stage would replace can be counted without changing anything.
  if (!shadow || definition.needs.includes('rewrite-response')) {
    const made = observer === undefined ? create() : observer.onCreate(pipeline, entry, create);
    const { rewrite, close } = made;
    const watching = { ...(rewrite && { rewrite: rewrite.bind(made) }), ...(close && { close: close.bind(made) }) };
    stage.hooks = containHooks(stage, shadow ? watching : made, entry, services);
  }
  return stage;
}

/** Instantiates the stage of an `on_error` clause. Throws like `compileStage`. */
export function compileClause(
  pipeline: PipelineSpec,
  clause: ErrorClause,
  services: SharedServices,
  observer: PlanObserver | undefined,
): CompiledClause {
  const errors = clause.errors && new Set(clause.errors);
  return Object.assign(compileStage(pipeline, clause, services, observer), { errors });
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
