import type { GatewayConfig } from '../../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../../base/contract/errors.ts';
import type { FactView } from '../../../base/contract/services.ts';
import { pathFinder } from '../../../base/kit/path-patterns.ts';
import { compileCondition } from '../../../base/rules/compile.ts';
import { type AccessRule, accessRules, formatRoute, routingRules } from '../../../base/rules/config-rules.ts';
import { factsRead } from '../../../base/rules/fact-paths.ts';
import { factView } from '../../../base/rules/fact-view.ts';
import { simplify } from '../../../base/rules/simplify.ts';
import type { PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import { RECORDED_FACTS } from '../../../domain/audit/recorded-facts.ts';
import { createManagedPolicies } from '../../../domain/policies/managed-policies.ts';
import { createModelCatalog } from '../../../domain/upstreams/models.ts';
import { modelFacts } from '../../../domain/upstreams/routes.ts';
import { callerOf, createPastRoutes, formatRefusal } from '../../../pipeline/explain/past-request.ts';
import type { Usable } from './change.ts';

/** Outcome of a replayed request. */
export interface Verdict {
  /** `unknown`: depends on facts that were not recorded; `unread`: rejected before the body was read. */
  readonly end: 'served' | 'answered' | 'refused' | 'unserved' | 'unknown' | 'unread';
  /** The upstream of a served request, or the rule or stage that decides. */
  readonly by: string;
  /** An error with its status, or the missing facts. */
  readonly with?: string;
  readonly model?: string;
  readonly shadow: readonly Shadow[];
}

interface Shadow {
  readonly by: string;
  readonly does: string;
  readonly missing?: string;
}

type End = Omit<Verdict, 'shadow'>;
type NoteShadow = (held: Match, by: string, does: string) => void;
/** One step of a pipeline; `undefined` where the request goes on. */
type Step = (facts: PastFacts, recordShadow: NoteShadow) => End | undefined;

const unknown = (by: string, { missing }: Exclude<Match, boolean>): End => ({
  end: 'unknown',
  by,
  with: missing.join(', '),
});

const codeWords = (code: string, status?: number): string => {
  const known = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode].status : undefined;
  return `${status ?? known ?? ''} ${code}`.trim();
};

/** Makes the function that replays past requests under a configuration: conditions, models, routes and access rules, but no limits. */
export function createClassifier(usable: Usable): (facts: PastFacts) => Verdict {
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
    // An alias may have another model now.
    if (model !== undefined)
      facts.set({ 'request.model': model.id, 'request.alias': called === model.id ? null : called });
    const recordShadow: NoteShadow = (held, by, does) => {
      if (typeof held !== 'boolean') shadow.push({ by, does, missing: held.missing.join(', ') });
      else if (held) shadow.push({ by, does });
    };
    for (const step of found.steps) {
      const end = step(facts, recordShadow);
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
      (facts, recordShadow) => {
        const held = guard?.(facts) ?? true;
        if (mode === 'shadow') {
          recordShadow(held, by, definition.name === 'reject' ? 'reject {}' : 'answer {}');
          return undefined;
        }
        if (typeof held !== 'boolean') return unknown(by, held);
        if (!held) return undefined;
        const end = does(facts, recordShadow);
        // The stage forwards to the upstream of its route.
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
  const findAccess = decider('access', accessRules(config), () => 'reject {}');
  return (facts, recordShadow) => {
    const name = facts.value('request.alias') ?? facts.value('request.model');
    if (typeof name !== 'string') return { end: 'unread', by: pipeline.name };
    const model = catalog.find(name, facts.value('principal.groups') as readonly string[] | undefined);
    const refused = { end: 'refused', with: codeWords('model_not_found') } as const;
    if (model === undefined) return { ...refused, by: `model ${name}`, with: 'no such model' };
    const refusal = catalog.refusal(callerOf(facts.all), model);
    if (refusal !== undefined) return { ...refused, by: `model ${model.id}`, with: formatRefusal(refusal, model.id) };
    facts.set(modelFacts(model));
    const rule = findRoute(facts, recordShadow);
    if (rule !== undefined && 'end' in rule) return rule;
    const chosen = choose(model, rule, facts.all);
    if ('refusal' in chosen) {
      return { end: 'refused', by: `route of ${model.id}`, with: codeWords(chosen.refusal.code) };
    }
    facts.set(chosen.wrote);
    const access = findAccess(facts, recordShadow, ({ covers }) => covers(model.id));
    if (access === undefined || 'end' in access) return access;
    return { end: 'refused', by: `access rule ${access.name}`, with: codeWords('forbidden') };
  };
}

function decider<Rule extends Pick<AccessRule, 'name' | 'mode' | 'logic'>>(
  kind: string,
  rules: readonly Rule[],
  does: (rule: Rule) => string,
): (facts: PastFacts, recordShadow: NoteShadow, covers?: (rule: Rule) => boolean) => Rule | End | undefined {
  const compiled = rules.map((rule) => ({ rule, holds: pastCondition(rule.logic) }));
  return (facts, recordShadow, covers = () => true) => {
    for (const { rule, holds } of compiled) {
      if (!covers(rule)) continue;
      const by = `${kind} rule ${rule.name}`;
      const held = holds(facts);
      if (rule.mode === 'shadow') recordShadow(held, by, does(rule));
      else if (typeof held !== 'boolean') return unknown(by, held);
      else if (held) return rule;
    }
    return undefined;
  };
}

/** Recorded facts of a past request. */
export class PastFacts {
  readonly #facts: Record<string, unknown>;
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

  knows(path: string): boolean {
    return Object.hasOwn(this.#facts, path) || RECORDED_FACTS.has(path) || isDecidedHere(path) || this.#unset.has(path);
  }

  value(path: string): unknown {
    return this.#facts[path];
  }
}

const isDecidedHere = (path: string): boolean =>
  /^(?:model\.|route\.supports\.|route\.(?:upstream|protocol|upstream_model|region|rule)$)/.test(path);

/** Result of a condition for a past request, or the missing facts. */
type Match = boolean | { readonly missing: readonly string[] };

function pastCondition(logic: unknown): (facts: PastFacts) => Match {
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
