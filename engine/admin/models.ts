import type { ModelConfig } from '../contract/config.ts';
import type { EffectivePrice, Principal } from '../contract/services.ts';
import { createIsListed, createReachable } from '../upstreams/access.ts';
import { noModelsBecause } from '../upstreams/model-refusals.ts';
import type { AdminOptions, Asked } from './asked.ts';

const PICO_TO_USD_PER_MILLION = 1e6;

/** The models that the caller may use. */
export function modelOperations({ config, models, clock }: AdminOptions) {
  // Made when somebody asks: few do.
  let made: { isListed: ReturnType<typeof createIsListed>; reachable: ReturnType<typeof createReachable> } | undefined;
  const rules = () => {
    made ??= { isListed: createIsListed(config, models), reachable: createReachable(config) };
    return made;
  };
  const pricesOf = (model: ModelConfig, known: ReadonlyMap<string, unknown>) =>
    rules()
      .reachable(model, known)
      .filter((upstream) => models.isServedAt(model, upstream))
      .flatMap((upstream) => {
        const price = priceAt(model, upstream);
        return price === undefined ? [] : [{ upstream, usd_per_million_tokens: ratesOf(price) }];
      });
  function priceAt(model: ModelConfig, upstream: string): EffectivePrice | undefined {
    try {
      return models.price(model, { upstream, at: clock.now() });
    } catch {
      // gateway.yaml has no price for it there.
      return undefined;
    }
  }
  return {
    async listModels({ caller }: Asked, _nothing: object) {
      const { principal } = caller;
      const { groups, email, token } = principal;
      const asking = { token_group: token.group, groups, email };
      const known = factsOf(principal);
      const listed = models.all.filter(rules().isListed(asking, known));
      const refusals = models.all.map((model) => models.refusal(asking, model));
      return {
        models: listed.map((model) => ({
          id: model.id,
          display_name: model.display_name ?? model.id,
          context_window: model.assumed.includes('context_window') ? null : model.context_window,
          max_output_tokens: model.assumed.includes('max_output_tokens') ? null : model.max_output_tokens,
          prices: pricesOf(model, known),
        })),
        no_models_because: listed.length > 0 ? null : why(refusals),
      };

      function why(refused: typeof refusals): string {
        const by_rules = refused.length > 0 && refused.some((refusal) => refusal === undefined);
        return by_rules
          ? 'access.rules in gateway.yaml refuse you every model; an administrator can change them'
          : noModelsBecause(refused, groups, config);
      }
    },
  };
}

function factsOf({ id, kind, email, groups, team, project, roles, token }: Principal): ReadonlyMap<string, unknown> {
  return new Map<string, unknown>([
    ['principal.id', id],
    ['principal.kind', kind],
    ['principal.email', email],
    ['principal.groups', groups],
    ['principal.team', team],
    ['principal.project', project],
    ['principal.roles', roles],
    ['principal.token.id', token.id],
    ['principal.token.name', token.name],
    ['principal.token.group', token.group],
  ]);
}

function ratesOf({ pico }: EffectivePrice) {
  const usd = (rate: number) => rate / PICO_TO_USD_PER_MILLION;
  return {
    input: usd(pico.input),
    output: usd(pico.output),
    cache_read: usd(pico.cache_read),
    cache_write_5m: usd(pico.cache_write_5m),
    cache_write_1h: usd(pico.cache_write_1h),
  };
}
