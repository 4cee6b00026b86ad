import type { GatewayConfig, ModelConfig, RoutingRuleConfig } from '../../../contract/config.ts';
import { ERRORS, type ErrorCode } from '../../../contract/errors.ts';
import { callerOf, createPastRoutes, formatRefusal } from '../../../explain/past-route.ts';
import { createManagedPolicies } from '../../../identity/policies/managed-policies.ts';
import { pathFinder } from '../../../kit/path-patterns.ts';
import { accessRules, formatRoute, routingRules } from '../../../rules/config-rules.ts';
import type { PipelineSpec, StageEntry } from '../../../source/spec.ts';
import { createModelCatalog } from '../../../upstreams/models.ts';
import { modelFacts } from '../../../upstreams/route-facts.ts';
import type { Usable } from '../change.ts';
import { type Held, type PastFacts, pastCondition } from './condition.ts';

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
          noteShadow(held, by, definition.name === 'fail' ? 'refuse {}' : 'answer {}');
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
  if (definition.name === 'fail' && error !== undefined) return { end: 'refused', by, with: codeWords(error, status) };
  return { end: 'answered', by };
}

function routeStep(pipeline: PipelineSpec, config: GatewayConfig, catalog: Catalog): Step {
  const choose = createPastRoutes(config, catalog, pipeline);
  const findRule = ruleFinder(config);
  const checkAccess = accessStep(config);
  return (facts, noteShadow) => {
    const name = facts.value('request.alias') ?? facts.value('request.model');
    if (typeof name !== 'string') return { end: 'unread', by: pipeline.name };
    const model = catalog.find(name, facts.value('principal.groups') as readonly string[] | undefined);
    const refused = { end: 'refused', with: codeWords('model_not_found') } as const;
    if (model === undefined) return { ...refused, by: `model ${name}`, with: 'no such model' };
    const refusal = catalog.refusal(callerOf(facts.all), model);
    if (refusal !== undefined) return { ...refused, by: `model ${model.id}`, with: formatRefusal(refusal, model.id) };
    facts.set(modelFacts(model));
    const rule = findRule(facts, noteShadow);
    if (rule !== undefined && 'end' in rule) return rule;
    const chosen = choose(model, rule, facts.all);
    if ('refusal' in chosen) {
      return { end: 'refused', by: `route of ${model.id}`, with: codeWords(chosen.refusal.code) };
    }
    facts.set(chosen.wrote);
    return checkAccess(model, facts, noteShadow);
  };
}

type FindRule = (facts: PastFacts, noteShadow: NoteShadow) => RoutingRuleConfig | End | undefined;

function ruleFinder(config: GatewayConfig): FindRule {
  const rules = routingRules(config).map((rule) => ({ ...rule, holds: pastCondition(rule.logic) }));
  return (facts, noteShadow) => {
    for (const { index, name, mode, holds, ...rule } of rules) {
      const held = holds(facts);
      if (mode === 'shadow') {
        noteShadow(held, `routing rule ${name}`, `send {} to ${formatRoute(rule)}`);
      } else if (typeof held !== 'boolean') return untold(`routing rule ${name}`, held);
      else if (held) return config.routing.rules[index];
    }
    return undefined;
  };
}

function accessStep(
  config: GatewayConfig,
): (model: ModelConfig, facts: PastFacts, note: NoteShadow) => End | undefined {
  const rules = accessRules(config).map((rule) => ({ ...rule, holds: pastCondition(rule.logic) }));
  return ({ id }, facts, noteShadow) => {
    for (const { name, mode, covers, holds } of rules) {
      if (!covers(id)) continue;
      const held = holds(facts);
      if (mode === 'shadow') {
        noteShadow(held, `access rule ${name}`, 'refuse {}');
      } else if (typeof held !== 'boolean') return untold(`access rule ${name}`, held);
      else if (held) return { end: 'refused', by: `access rule ${name}`, with: codeWords('forbidden') };
    }
    return undefined;
  };
}
