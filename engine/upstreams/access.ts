/** `access.rules`: which requests for a model are refused, whoever may use it otherwise. */
import type { GatewayConfig, ModelConfig } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import type { FactView, ModelCatalog } from '../contract/services.ts';
import { type AccessRule, accessRules, type KnownFacts, routingRules, simplify } from '../rules/index.ts';

interface CompiledRule extends Pick<AccessRule, 'name' | 'mode' | 'message'> {
  readonly holds: (facts: FactView) => boolean;
}

/** Raises forbidden when a rule refuses a request for a model; tells `noteShadow` of those in shadow mode that would. */
export type CheckAccess = (model: ModelConfig, facts: FactView, noteShadow: (name: string) => void) => void;

/** The check that the rules of a configuration make; `undefined` when there are none. */
export function createAccessCheck(
  config: GatewayConfig,
  condition: (logic: unknown) => (facts: FactView) => boolean,
): CheckAccess | undefined {
  const rules = accessRules(config);
  if (rules.length === 0) return undefined;
  const compiled = rules.map(
    (rule) => [rule, { ...rule, holds: condition(rule.logic) } satisfies CompiledRule] as const,
  );
  const rulesOf = ({ id }: ModelConfig) => compiled.flatMap(([rule, each]) => (rule.covers(id) ? [each] : []));
  const by_model = new WeakMap<ModelConfig, readonly CompiledRule[]>();
  return (model, facts, noteShadow) => {
    const rules_of_it = by_model.get(model) ?? rulesOf(model);
    by_model.set(model, rules_of_it);
    for (const { name, mode, message, holds } of rules_of_it) {
      if (!holds(facts)) continue;
      if (mode === 'enforce') throw new StageError('forbidden', message, { details: { access_rule: name } });
      noteShadow(`access:${name}`);
    }
  };
}

/** Facts of requests, of which a list of models knows nothing. */
export type Refuses = (model: ModelConfig, caller: KnownFacts) => boolean;

/**
 * Whether a model is refused to somebody whatever the request is like: a rule that depends on the request, its route or the time
 * leaves the model in the list. `undefined` when there are no rules.
 */
export function createAlwaysRefuses(config: GatewayConfig): Refuses | undefined {
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
export function createNeverReaches(
  config: GatewayConfig,
  models: Pick<ModelCatalog, 'isServedAt'>,
): Refuses | undefined {
  if (!config.from_model_lists || config.upstreams.length === 1) return undefined;
  const rules = routingRules(config).filter(({ mode }) => mode === 'enforce');
  return (model, caller) => {
    const known = new Map<string, unknown>([...caller, ['request.model', model.id]]);
    const isServed = ({ upstream }: { readonly upstream: string }) => models.isServedAt(model, upstream);
    for (const { logic, upstreams } of rules) {
      const held = simplify(logic, known);
      if (held === false) continue;
      if (upstreams.some(isServed)) return false;
      if (held === true) return true;
    }
    return !config.routing.default_upstreams.some(isServed);
  };
}
