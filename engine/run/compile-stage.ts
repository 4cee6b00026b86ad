import type { ErrorCode } from '../contract/errors.ts';
import { ENGINE_FACTS } from '../contract/facts.ts';
import type { FactView, Services } from '../contract/services.ts';
import type { StageDefinition, StageHooks } from '../contract/stage.ts';
import { runAsStage } from '../kit/strays.ts';
import { compileCondition } from '../rules/compile.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../source/spec.ts';
import { factMask } from './fact-store.ts';
import type { PlanObserver } from './plan.ts';

/** A stage entry ready to run: its hooks, its guard as a function, its declared facts as masks (see `factMask`). */
export interface CompiledStage {
  readonly id: string;
  readonly definition: StageDefinition;
  readonly hooks: StageHooks;
  /** Absent means always. */
  readonly guard: Guard | undefined;
  /** Whether it is in shadow mode: its guard is evaluated, and it has no hooks. */
  readonly shadow: boolean;
  /** Whether its hooks run under the care of `contain.ts`: it has a time limit, or the request goes on when it fails. */
  readonly contained: boolean;
  readonly fail_closed: boolean;
  /** Longest one of its hooks may take. */
  readonly timeout_seconds: number | undefined;
  readonly readable: Uint8Array;
  readonly writable: Uint8Array;
}

/** A compiled `on_error` clause. */
export interface CompiledClause extends CompiledStage {
  /** Codes it handles; absent means all. */
  readonly errors: ReadonlySet<ErrorCode> | undefined;
}

type Guard = (facts: FactView) => boolean;

const HOOKS: readonly string[] = [
  'request',
  'response',
  'event',
  'finish',
  'finally',
  'close',
] satisfies (keyof StageHooks)[];

const DATABASE_SERVICES = ['tokens', 'ledger', 'audit'] as const;

function refuse(service: string, stage: string): never {
  throw new Error(`services.${service} needs the capability "database", which the stage "${stage}" does not declare`);
}

/** The services without those the stage did not ask for, at no cost to the stages that did. */
function servicesFor({ name, needs }: StageDefinition, services: Services): Services {
  if (needs.includes('database')) return services;
  const withheld = DATABASE_SERVICES.map((service) => {
    const traps = { get: () => refuse(service, name) };
    return [service, new Proxy({}, traps)] as const;
  });
  return { ...services, ...Object.fromEntries(withheld) };
}

/** What is wrong with what `create` returned, in words; `undefined` when nothing is. */
function hooksProblem(hooks: unknown, { terminal, place }: StageDefinition): string | undefined {
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
  const { request, finally: last } = hooks as StageHooks;
  if (terminal && request === undefined) return 'returns no `request` hook, and the stage says that it always answers';
  if (place === 'finally' && last === undefined) return 'returns no `finally` hook, the only one that would be called';
  if (place === 'stages' && last !== undefined) return "returns a `finally` hook, which needs `place: 'finally'`";
  return undefined;
}

function createHooks({ id, definition, options, place }: StageEntry, services: Services): StageHooks {
  const at = `the stage ${JSON.stringify(id)} (${place.file}:${place.line})`;
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
 * Instantiates the stage of an entry; one in shadow mode is not even created. Throws an error that names the stage and
 * its place when the stage cannot be created.
 */
export function compileStage(
  pipeline: PipelineSpec,
  entry: StageEntry,
  services: Services,
  observer: PlanObserver | undefined,
): CompiledStage {
  const { definition, timeout_seconds, fail_closed } = entry;
  const shadow = entry.mode === 'shadow';
  return {
    id: entry.id,
    definition,
    hooks: shadow ? {} : createHooks(entry, services),
    guard: compileGuard(pipeline, entry, observer),
    shadow,
    contained: timeout_seconds !== undefined || !fail_closed,
    fail_closed,
    timeout_seconds,
    readable: factMask([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]),
    writable: factMask(definition.writes),
  };
}

/** Instantiates the stage of an `on_error` clause. Throws like `compileStage`. */
export function compileClause(
  pipeline: PipelineSpec,
  clause: ErrorClause,
  services: Services,
  observer: PlanObserver | undefined,
): CompiledClause {
  return { ...compileStage(pipeline, clause, services, observer), errors: clause.errors && new Set(clause.errors) };
}

function compileGuard(
  pipeline: PipelineSpec,
  entry: StageEntry,
  observer: PlanObserver | undefined,
): Guard | undefined {
  if (entry.when === undefined) return undefined;
  const guard = compileCondition(entry.when);
  if (observer === undefined) return guard;
  return (facts) => {
    const held = guard(facts);
    observer.onGuard(pipeline, entry, facts, held);
    return held;
  };
}
