/** `access.rules`: refusals of requests for a model, beside token groups. */
import type { GatewayConfig, ModelConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { FactView, ModelCaller, ModelCatalog, Services } from '../../base/contract/services.ts';
import { type AccessRule, accessRules, type KnownFacts, routingRules, simplify } from '../../base/rules/index.ts';

interface CompiledRule extends Pick<AccessRule, 'name' | 'mode' | 'message'> {
  readonly holds: (facts: FactView) => boolean;
}

/**
 * Raises forbidden when a rule refuses a request for its model, or for one of the others that it names, by their ids; notes
 * rules in shadow mode that would.
 */
export type CheckAccess = (ctx: RuledContext, model: ModelConfig, others?: readonly string[]) => void;

type RuledContext = Parameters<Services['facts']>[0] & { recordShadow(name: string): void };

/** The facts of a request as if it named another model. */
export function factsFor(facts: FactView, { id, family }: ModelConfig): FactView {
  return {
    ...facts,
    request: { ...(facts.request as FactView), model: id },
    model: { ...(facts.model as FactView), family },
  };
}

/** The check that the rules of a configuration make; `undefined` when there are none. */
export function createAccessCheck({
  config,
  condition,
  facts: factsOf,
  models,
}: Pick<Services, 'config' | 'condition' | 'facts' | 'models'>): CheckAccess | undefined {
  const rules = accessRules(config);
  if (rules.length === 0) return undefined;
  const compiled = rules.map(
    (rule) => [rule, { ...rule, holds: condition(rule.logic) } satisfies CompiledRule] as const,
  );
  const rulesOf = ({ id }: ModelConfig) => compiled.flatMap(([rule, each]) => (rule.covers(id) ? [each] : []));
  const by_model = new WeakMap<ModelConfig, readonly CompiledRule[]>();
  function ask(ctx: RuledContext, model: ModelConfig, facts: FactView): void {
    const rules_of_it = by_model.get(model) ?? rulesOf(model);
    by_model.set(model, rules_of_it);
    for (const { name, mode, message, holds } of rules_of_it) {
      if (!holds(facts)) continue;
      if (mode === 'enforce') throw new StageError('forbidden', message, { details: { access_rule: name } });
      ctx.recordShadow(`access:${name}`);
    }
  }
  return (ctx, model, others = []) => {
    const facts = factsOf(ctx);
    ask(ctx, model, facts);
    for (const other of others.flatMap((id) => models.find(id) ?? [])) ask(ctx, other, factsFor(facts, other));
  };
}

/** Facts of requests, of which a list of models knows nothing. */
export type Refuses = (model: ModelConfig, caller: KnownFacts) => boolean;

/**
 * Whether a model is refused to somebody whatever the request is like: a rule that depends on the request, its route or the time
 * leaves the model in the list. `undefined` when there are no rules.
 */
function createAlwaysRefuses(config: GatewayConfig): Refuses | undefined {
  const rules = accessRules(config).filter(({ mode }) => mode === 'enforce');
  if (rules.length === 0) return undefined;
  return ({ id, family }, caller) => {
    const known = new Map<string, unknown>([...caller, ['request.model', id], ['model.family', family]]);
    return rules.some((rule) => rule.covers(id) && simplify(rule.logic, known) === true);
  };
}

/**
 * Whether somebody's requests for a model always go to upstreams that do not serve it; a rule that depends on the request leaves
 * the model in the list. `undefined` when every model is served wherever its requests go.
 */
function createNeverReaches(config: GatewayConfig, models: Pick<ModelCatalog, 'isServedAt'>): Refuses | undefined {
  if (!config.from_model_lists || config.upstreams.length === 1) return undefined;
  const reachable = createReachable(config);
  return (model, caller) => !reachable(model, caller).some((upstream) => models.isServedAt(model, upstream));
}

/** Makes the function that names the upstreams that somebody's requests for a model may go to. */
export function createReachable(config: GatewayConfig): (model: ModelConfig, caller: KnownFacts) => readonly string[] {
  const rules = routingRules(config).filter(({ mode }) => mode === 'enforce');
  return (model, caller) => {
    const known = new Map<string, unknown>([...caller, ['request.model', model.id]]);
    const reached: string[] = [];
    const add = (upstreams: readonly { readonly upstream: string }[]) =>
      reached.push(...upstreams.map(({ upstream }) => upstream).filter((name) => !reached.includes(name)));
    for (const { logic, upstreams } of rules) {
      const held = simplify(logic, known);
      if (held !== false) add(upstreams);
      if (held === true) return reached;
    }
    add(config.routing.default_upstreams);
    return reached;
  };
}

/** The facts about a caller by which models are refused or routed before there is a request. */
export const CALLER_FACTS = [
  'principal.id',
  'principal.kind',
  'principal.team',
  'principal.project',
  'principal.roles',
  'principal.token.id',
  'principal.token.name',
  'principal.token.group',
] as const;

/** Makes the function that says which models a list shows to somebody. */
export function createIsListed(
  config: GatewayConfig,
  models: Pick<ModelCatalog, 'refusal' | 'isServedAt'>,
): (caller: ModelCaller, known: KnownFacts) => (model: ModelConfig) => boolean {
  const alwaysRefuses = createAlwaysRefuses(config);
  const neverReaches = createNeverReaches(config, models);
  return (caller, known) => (model) =>
    models.refusal(caller, model) === undefined &&
    alwaysRefuses?.(model, known) !== true &&
    neverReaches?.(model, known) !== true;
}
