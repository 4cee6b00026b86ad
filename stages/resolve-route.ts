import {
  defineStage,
  type FactView,
  type ModelCaller,
  type ModelConfig,
  matchesGlob,
  type PricedRoute,
  type Services,
  type TokenCounts,
  type UpstreamConfig,
} from '../engine/api.ts';
import type { DecisiveChoice } from '../engine/protocols/index.ts';
import { type RoutingRule, routingRules } from '../engine/rules/index.ts';
import {
  createDecisiveCheck,
  MODEL_FACTS,
  modelFacts,
  modelNotFound,
  refuseDecisiveQuery,
  UPSTREAM_FACTS,
  upstreamFacts,
} from '../engine/upstreams/index.ts';

interface CompiledRule extends Pick<RoutingRule, 'name' | 'mode'> {
  readonly holds: (facts: FactView) => boolean;
  readonly upstream: UpstreamConfig;
}

/**
 * The rules each model can reach, in file order. Models are known at load: of hundreds of rules a request sees only
 * those for its model.
 */
function compileRules({ config, condition, models }: Services): ReadonlyMap<ModelConfig, readonly CompiledRule[]> {
  const compiled = routingRules(config).map(({ name, mode, logic, upstream }): CompiledRule => {
    return { name, mode, holds: condition(logic), upstream: models.upstream(upstream) };
  });
  const covers = (index: number, model: ModelConfig) =>
    config.routing.rules[index]!.models?.some((glob) => matchesGlob(glob, model.id)) ?? true;
  return new Map(models.all.map((model) => [model, compiled.filter((_, index) => covers(index, model))]));
}

interface Found {
  readonly rule: CompiledRule | undefined;
  readonly shadows: readonly CompiledRule[] | undefined;
}

const NO_RULE: Found = { rule: undefined, shadows: undefined };

/** The first rule in force that holds, and the rules in shadow mode before it that hold. */
function findRule(rules: readonly CompiledRule[], facts: FactView): Found {
  let shadows: CompiledRule[] | undefined;
  for (const rule of rules) {
    if (!rule.holds(facts)) continue;
    if (rule.mode === 'enforce') return { rule, shadows };
    shadows ??= [];
    shadows.push(rule);
  }
  return { rule: undefined, shadows };
}

/** The facts of a request as if it asked for another model. */
function factsFor(facts: FactView, { id, family }: ModelConfig): FactView {
  return {
    ...facts,
    request: { ...(facts.request as FactView), model: id },
    model: { ...(facts.model as FactView), family },
  };
}

/**
 * What the request costs if it has as many tokens as it seems to have and gets as long an answer as it asks for. The rules
 * that choose the upstream may ask for it, so the default one's price has to do.
 */
function likelyCost(
  models: Services['models'],
  model: ModelConfig,
  asked: { readonly input: number; readonly output: number | undefined; readonly choices: number },
  route: PricedRoute,
): number {
  const { context_window, max_output_tokens } = model;
  const tokens: TokenCounts = {
    input: Math.min(asked.input, context_window),
    output: Math.min(asked.output ?? max_output_tokens, max_output_tokens) * asked.choices,
    cache_read: 0,
    cache_write_5m: 0,
    cache_write_1h: 0,
  };
  return models.cost(model, tokens, route);
}

export default defineStage({
  name: 'resolve-route',
  version: 1,
  summary: 'Decides which upstream serves the requested model for this caller.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [
    { title: 'Route by the rules of gateway.yaml', yaml: '- stage: resolve-route' },
    { title: 'Under another name in diagnostics', yaml: '- stage: resolve-route\n  id: route' },
  ],
  reads: ['request.protocol', 'request.model', 'request.received_at', 'principal.email', 'principal.groups'],
  readsIfSet: [
    'request.alias',
    'principal.token.group',
    'request.input_tokens_estimate',
    'request.max_tokens',
    'request.choices',
    'request.decisive_fields',
  ],
  writes: ['route.estimate_nano_usd', 'route.rule', 'request.other_models', ...MODEL_FACTS, ...UPSTREAM_FACTS],
  raises: ['model_not_found', 'invalid_request'],
  create(_options, services) {
    const { models } = services;
    const rules_by_model = compileRules(services);
    const default_upstream = models.upstream(services.config.routing.default_upstream);
    const checkDecisive = createDecisiveCheck(services.config, models);
    return {
      request(ctx) {
        const id = ctx.get('request.model');
        const model = models.find(id);
        const called = ctx.get('request.alias') ?? id;
        if (model === undefined) throw modelNotFound(called, undefined);
        const caller: ModelCaller = {
          email: ctx.get('principal.email'),
          groups: ctx.get('principal.groups'),
          token_group: ctx.get('principal.token.group'),
        };
        const refusal = models.refusal(caller, model);
        if (refusal !== undefined) throw modelNotFound(called, refusal);

        const about = modelFacts(model);
        for (const path of MODEL_FACTS) if (about[path] !== undefined) ctx.set(path, about[path]);
        const tokens = {
          input: ctx.get('request.input_tokens_estimate') ?? 0,
          output: ctx.get('request.max_tokens'),
          choices: ctx.get('request.choices') ?? 1,
        };
        const priced_as = { upstream: default_upstream.name, at: ctx.get('request.received_at') };
        const is_free = ctx.get('request.protocol') === 'count_tokens';
        ctx.set('route.estimate_nano_usd', is_free ? 0 : likelyCost(models, model, tokens, priced_as));
        const rules = rules_by_model.get(model)!;
        const { rule, shadows } = rules.length === 0 ? NO_RULE : findRule(rules, services.facts(ctx));

        const upstream = rule?.upstream ?? default_upstream;
        const other = shadows?.find((shadow) => shadow.upstream !== upstream);
        if (other !== undefined) ctx.noteShadow(`routing:${other.name}`);
        const there = upstreamFacts(ctx.get('request.protocol'), model, upstream);
        for (const path of UPSTREAM_FACTS) if (there[path] !== undefined) ctx.set(path, there[path]);
        ctx.set('route.rule', rule?.name ?? 'default');
        refuseDecisiveQuery(ctx.url, upstream);
        const decisive = ctx.get('request.decisive_fields') as Readonly<Record<string, DecisiveChoice>> | undefined;
        if (decisive !== undefined) {
          const facts = services.facts(ctx);
          const upstreamOf = (other: ModelConfig) =>
            findRule(rules_by_model.get(other)!, factsFor(facts, other)).rule?.upstream ?? default_upstream;
          const others = checkDecisive(decisive, { caller, model, called, upstream, at: priced_as.at, upstreamOf });
          if (others.length > 0) ctx.set('request.other_models', others);
        }
        return undefined;
      },
    };
  },
});
