import {
  defineStage,
  type ModelConfig,
  matchesGlob,
  type RoutingRuleConfig,
  type Services,
  StageError,
  type UpstreamConfig,
} from '../engine/api.ts';

/** Longest model identifier an error message repeats. */
const QUOTED_LENGTH_MAX = 120;

const HOW_TO_SEE_MODELS = 'GET /v1/models lists the models this token may use.';

interface CompiledRule {
  readonly name: string;
  readonly user: string | undefined;
  readonly team: string | undefined;
  readonly group: string | undefined;
  readonly when: ((facts: Readonly<Record<string, unknown>>) => boolean) | undefined;
  readonly upstream: UpstreamConfig;
}

function ruleName(rule: RoutingRuleConfig, index: number): string {
  return rule.name ?? `routing.rules[${index}]`;
}

function coversModel(rule: RoutingRuleConfig, model: ModelConfig): boolean {
  return rule.models === undefined || rule.models.some((glob) => matchesGlob(glob, model.id));
}

/**
 * The rules each model can reach, in file order. Models are known at load, so no request ever matches a glob: with
 * hundreds of rules a request only compares strings.
 */
function compileRules({ config, condition, models }: Services): ReadonlyMap<ModelConfig, readonly CompiledRule[]> {
  const compiled = config.routing.rules.map(
    (rule, index): CompiledRule => ({
      name: ruleName(rule, index),
      user: rule.user,
      team: rule.team,
      group: rule.group,
      when: rule.when === undefined ? undefined : condition(rule.when),
      upstream: models.upstream(rule.upstream),
    }),
  );
  return new Map(
    models.all.map((model) => [model, compiled.filter((_, index) => coversModel(config.routing.rules[index]!, model))]),
  );
}

function modelNotFound(id: string, refused_group: string | undefined): StageError {
  const shown = id.length > QUOTED_LENGTH_MAX ? `${id.slice(0, QUOTED_LENGTH_MAX)}...` : id;
  const why =
    refused_group === undefined
      ? 'no model of this gateway has that identifier'
      : `the token group "${refused_group}" may not use it`;
  const remedy =
    refused_group === undefined ? '' : ' An administrator can widen the group or create a token in another one.';
  return new StageError('model_not_found', `Model not found: "${shown}"; ${why}. ${HOW_TO_SEE_MODELS}${remedy}`, {
    details: { model: shown, ...(refused_group === undefined ? {} : { token_group: refused_group }) },
  });
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
  reads: ['request.model', 'principal.email', 'principal.groups', 'principal.token.group'],
  readsIfSet: ['principal.team'],
  writes: [
    'route.upstream',
    'route.upstream_model',
    'route.region',
    'route.rule',
    'route.supports.count_tokens',
    'route.supports.prompt_cache_1h',
  ],
  raises: ['model_not_found'],
  create(_options, services) {
    const rules_by_model = compileRules(services);
    const default_upstream = services.models.upstream(services.config.routing.default_upstream);
    return {
      request(ctx) {
        const id = ctx.get('request.model');
        const model = services.models.find(id);
        if (model === undefined) throw modelNotFound(id, undefined);
        const token_group = ctx.get('principal.token.group');
        if (!services.models.allows(token_group, model)) throw modelNotFound(id, token_group);

        const user = ctx.get('principal.email');
        const team = ctx.get('principal.team');
        const groups = ctx.get('principal.groups');
        const rule = rules_by_model
          .get(model)!
          .find(
            (candidate) =>
              (candidate.user === undefined || candidate.user === user) &&
              (candidate.team === undefined || candidate.team === team) &&
              (candidate.group === undefined || groups.includes(candidate.group)) &&
              (candidate.when === undefined || candidate.when(services.facts(ctx))),
          );

        const upstream = rule?.upstream ?? default_upstream;
        ctx.set('route.upstream', upstream.name);
        ctx.set('route.upstream_model', model.upstream_ids[upstream.name] ?? model.id);
        if (upstream.region !== undefined) ctx.set('route.region', upstream.region);
        ctx.set('route.rule', rule?.name ?? 'default');
        ctx.set('route.supports.count_tokens', upstream.supports.count_tokens);
        ctx.set('route.supports.prompt_cache_1h', upstream.supports.prompt_cache_1h);
        return undefined;
      },
    };
  },
});
