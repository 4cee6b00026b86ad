import type { GatewayConfig } from '../../../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../../../base/contract/errors.ts';
import type { FactView } from '../../../../base/contract/services.ts';
import { pathFinder } from '../../../../base/kit/path-patterns.ts';
import { compileCondition } from '../../../../base/rules/compile.ts';
import { type AccessRule, accessRules, formatRoute, routingRules } from '../../../../base/rules/config-rules.ts';
import { factsRead } from '../../../../base/rules/fact-paths.ts';
import { factView } from '../../../../base/rules/fact-view.ts';
import { simplify } from '../../../../base/rules/simplify.ts';
import type { PipelineSpec, StageEntry } from '../../../../base/source/spec.ts';
import { RECORDED_FACTS } from '../../../../domain/audit/recorded-facts.ts';
import { createManagedPolicies } from '../../../../domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../../../domain/upstreams/models.ts';
import { modelFacts } from '../../../../domain/upstreams/routes.ts';
import { callerOf, createPastRoutes, formatRefusal } from '../../../../pipeline/explain/past-route.ts';
import type { Usable } from '../change.ts';

/** What would become of a request of the past. */
export interface Verdict {
  /** `untold`: it depends on facts that nobody knows any more; `unread`: its body was refused then, as it would be now. */
  readonly end: 'served' | 'answered' | 'refused' | 'unserved' | 'untold' | 'unread';
  /** What refuses or answers it, or would have to be known; of one that is served its upstream. */
  readonly by: string;
  /** Further words: an error with its status, or the facts that are missing. */
  readonly with?: string;
  /** The model that serves it. */
  readonly model?: string;
  /** What in shadow mode would have refused it or sent it elsewhere: `refuse {}`. */
  readonly shadow: readonly Shadow[];
}

interface Shadow {
  readonly by: string;
  readonly does: string;
  /** Facts that it would take to know whether it held. */
  readonly missing?: string;
}

type End = Omit<Verdict, 'shadow'>;
type NoteShadow = (held: Held, by: string, does: string) => void;
/** One step of a pipeline; `undefined` where the request goes on. */
type Step = (facts: PastFacts, noteShadow: NoteShadow) => End | undefined;

const untold = (by: string, { missing }: Exclude<Held, boolean>): End => ({
  end: 'untold',
  by,
  with: missing.join(', '),
});

const codeWords = (code: string, status?: number): string => {
  const known = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode].status : undefined;
  return `${status ?? known ?? ''} ${code}`.trim();
};

/** Makes what judges requests of the past by a configuration: guards of stages, models, routes and access rules. No limits. */
export function createJudge(usable: Usable): (facts: PastFacts) => Verdict {
  const { pipelines } = usable;
  const servedPath = pathFinder(pipelines.flatMap(({ match }) => match.paths));
  const catalog = createModelCatalog(usable.config, createManagedPolicies(usable.config, usable.policies));
  const compiled = pipelines.map((pipeline) => ({ pipeline, steps: stepsOf(pipeline, usable.config, catalog) }));
  return (facts) => {
    const shadow: Shadow[] = [];
    const path = servedPath(String(facts.value('request.path'))) ?? '';
    const method = String(facts.value('request.method'));
    const found = compiled.find(
      ({ pipeline: { match } }) => match.paths.includes(path) && match.methods.includes(method),
    );
    if (found === undefined) return { end: 'unserved', by: 'pipelines', shadow };
    const called = facts.value('request.alias') ?? facts.value('request.model');
    const groups = facts.value('principal.groups') as readonly string[] | undefined;
    const model = typeof called === 'string' ? catalog.find(called, groups) : undefined;
    // An alias may mean something else by now.
    if (model !== undefined)
      facts.set({ 'request.model': model.id, 'request.alias': called === model.id ? null : called });
    const noteShadow: NoteShadow = (held, by, does) => {
      if (typeof held !== 'boolean') shadow.push({ by, does, missing: held.missing.join(', ') });
      else if (held) shadow.push({ by, does });
    };
    for (const step of found.steps) {
      const end = step(facts, noteShadow);
      if (end !== undefined) return { ...end, shadow };
    }
    return { end: 'answered', by: found.pipeline.name, shadow };
  };
}

type Catalog = ReturnType<typeof createModelCatalog>;

function stepsOf(pipeline: PipelineSpec, config: GatewayConfig, catalog: Catalog): Step[] {
  return pipeline.stages.flatMap((entry): Step[] => {
    const { definition, when, mode, id } = entry;
    const is_route = definition.name === 'resolve-route';
    if (!definition.terminal && !is_route) return [];
    const by = `stage ${pipeline.name}/${id}`;
    const does = is_route ? routeStep(pipeline, config, catalog) : () => endOf(entry, by);
    const guard = when === undefined ? undefined : pastCondition(when);
    return [
      (facts, noteShadow) => {
        const held = guard?.(facts) ?? true;
        if (mode === 'shadow') {
          noteShadow(held, by, definition.name === 'reject' ? 'refuse {}' : 'answer {}');
          return undefined;
        }
        if (typeof held !== 'boolean') return untold(by, held);
        if (!held) return undefined;
        const end = does(facts, noteShadow);
        // What forwards it does so where its route leads.
        const upstream = facts.value('route.upstream');
        if (end?.end !== 'answered' || definition.name !== 'forward' || upstream === undefined) return end;
        return { end: 'served', by: String(upstream), model: String(facts.value('request.model')) };
      },
    ];
  });
}

function endOf({ definition, options }: StageEntry, by: string): End {
  const { error, status } = options as { readonly error?: string; readonly status?: number };
  if (definition.name === 'reject' && error !== undefined)
    return { end: 'refused', by, with: codeWords(error, status) };
  return { end: 'answered', by };
}

function routeStep(pipeline: PipelineSpec, config: GatewayConfig, catalog: Catalog): Step {
  const choose = createPastRoutes(config, catalog, pipeline);
  const findRoute = decider('routing', routingRules(config), (rule) => `send {} to ${formatRoute(rule)}`);
  const findAccess = decider('access', accessRules(config), () => 'refuse {}');
  return (facts, noteShadow) => {
    const name = facts.value('request.alias') ?? facts.value('request.model');
    if (typeof name !== 'string') return { end: 'unread', by: pipeline.name };
    const model = catalog.find(name, facts.value('principal.groups') as readonly string[] | undefined);
    const refused = { end: 'refused', with: codeWords('model_not_found') } as const;
    if (model === undefined) return { ...refused, by: `model ${name}`, with: 'no such model' };
    const refusal = catalog.refusal(callerOf(facts.all), model);
    if (refusal !== undefined) return { ...refused, by: `model ${model.id}`, with: formatRefusal(refusal, model.id) };
    facts.set(modelFacts(model));
    const rule = findRoute(facts, noteShadow);
    if (rule !== undefined && 'end' in rule) return rule;
    const chosen = choose(model, rule && config.routing.rules[rule.index], facts.all);
    if ('refusal' in chosen) {
      return { end: 'refused', by: `route of ${model.id}`, with: codeWords(chosen.refusal.code) };
    }
    facts.set(chosen.wrote);
    const access = findAccess(facts, noteShadow, ({ covers }) => covers(model.id));
    if (access === undefined || 'end' in access) return access;
    return { end: 'refused', by: `access rule ${access.name}`, with: codeWords('forbidden') };
  };
}

/** Makes what finds the first of some rules that holds; what one in shadow mode would do is noted. */
function decider<Rule extends Pick<AccessRule, 'name' | 'mode' | 'logic'>>(
  kind: string,
  rules: readonly Rule[],
  does: (rule: Rule) => string,
): (facts: PastFacts, noteShadow: NoteShadow, covers?: (rule: Rule) => boolean) => Rule | End | undefined {
  const compiled = rules.map((rule) => ({ rule, holds: pastCondition(rule.logic) }));
  return (facts, noteShadow, covers = () => true) => {
    for (const { rule, holds } of compiled) {
      if (!covers(rule)) continue;
      const by = `${kind} rule ${rule.name}`;
      const held = holds(facts);
      if (rule.mode === 'shadow') noteShadow(held, by, does(rule));
      else if (typeof held !== 'boolean') return untold(by, held);
      else if (held) return rule;
    }
    return undefined;
  };
}

/** What is known of a request of the past. */
export class PastFacts {
  readonly #facts: Record<string, unknown>;
  /** Facts that are known not to have been set. */
  readonly #unset: ReadonlySet<string>;
  #view: FactView | undefined;

  constructor(facts: Readonly<Record<string, unknown>>, unset: ReadonlySet<string>) {
    this.#facts = { ...facts };
    this.#unset = unset;
  }

  get all(): Readonly<Record<string, unknown>> {
    return this.#facts;
  }

  get view(): FactView {
    this.#view ??= factView(Object.entries(this.#facts));
    return this.#view;
  }

  set(facts: Readonly<Record<string, unknown>>): void {
    Object.assign(this.#facts, facts);
    this.#view = undefined;
  }

  /** Whether its value, or that it has none, is known. */
  knows(path: string): boolean {
    return Object.hasOwn(this.#facts, path) || RECORDED_FACTS.has(path) || isDecidedHere(path) || this.#unset.has(path);
  }

  value(path: string): unknown {
    return this.#facts[path];
  }
}

/** Facts that follow from the configuration and the model; asked for only where they have been decided. */
const isDecidedHere = (path: string): boolean =>
  /^(?:model\.|route\.supports\.|route\.(?:upstream|protocol|upstream_model|region|rule)$)/.test(path);

/** How a condition turns out for a request of the past, or the facts that it would take to know. */
export type Held = boolean | { readonly missing: readonly string[] };

/** Makes what evaluates a condition, as far as the facts of a request are known. */
function pastCondition(logic: unknown): (facts: PastFacts) => Held {
  const holds = compileCondition(logic);
  const reads = [...new Set(factsRead(logic))];
  return (facts) => {
    const missing = reads.filter((path) => !facts.knows(path));
    if (missing.length === 0) return holds(facts.view);
    const known = new Map(reads.filter((path) => facts.knows(path)).map((path) => [path, facts.value(path)]));
    const rest = simplify(logic, known);
    return typeof rest === 'boolean' ? rest : { missing: missing.filter((path) => factsRead(rest).includes(path)) };
  };
}
