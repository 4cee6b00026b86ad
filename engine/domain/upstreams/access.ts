/** `access.rules`: rejections of requests for a model, in addition to token groups. */
import type { GatewayConfig, ModelConfig } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { FactView, ModelCaller, ModelCatalog, Services } from '../../base/contract/services.ts';
import { accessRules, type KnownFacts, routingRules, simplify } from '../../base/rules/index.ts';

/** Raises forbidden when a rule rejects a request for any of its models; records rules in shadow mode. */
type CheckAccess = (ctx: RuledContext, model: ModelConfig, others?: readonly string[]) => void;

type RuledContext = Parameters<Services['facts']>[0] & { recordShadow(name: string): void };

/** The facts of a request, with another model. */
export function factsFor(facts: FactView, { id, family }: ModelConfig): FactView {
  return {
    ...facts,
    request: { ...(facts.request as FactView), model: id },
    model: { ...(facts.model as FactView), family },
  };
}

/** The check of the access rules of a configuration; `undefined` without any. */
export function createAccessCheck(
  services: Pick<Services, 'config' | 'condition' | 'facts' | 'models'>,
): CheckAccess | undefined {
  const rules = accessRules(services.config).map((rule) => ({ ...rule, holds: services.condition(rule.logic) }));
  if (rules.length === 0) return undefined;
  const by_model = new WeakMap<ModelConfig, typeof rules>();
  function check(ctx: RuledContext, model: ModelConfig, facts: FactView): void {
    const own_rules = by_model.get(model) ?? rules.filter(({ covers }) => covers(model.id));
    by_model.set(model, own_rules);
    for (const { name, mode, message, holds } of own_rules) {
      if (!holds(facts)) continue;
      if (mode === 'enforce') throw new StageError('forbidden', message, { details: { access_rule: name } });
      ctx.recordShadow(`access:${name}`);
    }
  }
  return (ctx, model, others = []) => {
    const facts = services.facts(ctx);
    check(ctx, model, facts);
    for (const other of others.flatMap((id) => services.models.find(id) ?? []))
      check(ctx, other, factsFor(facts, other));
  };
}

/** Whether a model is unavailable to a caller in every request. */
export type Refuses = (model: ModelConfig, caller: KnownFacts) => boolean;

/** Whether a caller may never use a model: rules that depend on the request do not count. `undefined` without rules. */
function createAlwaysRefuses(config: GatewayConfig): Refuses | undefined {
  const rules = accessRules(config).filter(({ mode }) => mode === 'enforce');
  if (rules.length === 0) return undefined;
  return ({ id, family }, caller) => {
    const known = new Map<string, unknown>([...caller, ['request.model', id], ['model.family', family]]);
    return rules.some((rule) => rule.covers(id) && simplify(rule.logic, known) === true);
  };
}

/** Whether no upstream of a caller's routes serves a model. `undefined` where every upstream serves every model. */
function createNeverReaches(config: GatewayConfig, models: Pick<ModelCatalog, 'isServedAt'>): Refuses | undefined {
  if (!config.from_model_lists || config.upstreams.length === 1) return undefined;
  const reachable = createReachable(config);
  return (model, caller) => !reachable(model, caller).some((upstream) => models.isServedAt(model, upstream));
}

/** Makes the lookup of the upstreams that a caller's requests for a model may go to. */
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

/** Facts about a caller that are known without a request. */
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

/** Makes the filter of the model list for a caller. */
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
