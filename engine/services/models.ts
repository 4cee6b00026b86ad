import type { ManagedPolicies, ModelCaller, ModelCatalog, ModelRefusal, TokenCounts } from '../api.ts';
import type { GatewayConfig, ModelConfig, TokenGroupConfig, UpstreamConfig } from '../config.ts';
import { matchesGlob } from '../rules/glob.ts';
import { priceTokens, priceToPico } from './money.ts';

/** What an absent `token_groups` section means. */
const EVERY_MODEL: readonly TokenGroupConfig[] = [{ name: 'all', models: ['*'] }];

/** Where there are no policies. */
const NO_POLICIES: ManagedPolicies = { of: () => undefined };

/** The models of a configuration with everything a request asks about them computed ahead. Throws a RangeError for a price that is not exact. */
export function createModelCatalog(config: GatewayConfig, policies: ManagedPolicies = NO_POLICIES): ModelCatalog {
  const models = new Map(config.models.map((model) => [model.id, model]));
  const prices = new Map(config.models.map((model) => [model.id, picoPrices(model)]));
  const upstreams = new Map<string, UpstreamConfig>(config.upstreams.map((upstream) => [upstream.name, upstream]));
  const token_groups = config.token_groups.length === 0 ? EVERY_MODEL : config.token_groups;
  const allowed = new Map(token_groups.map((group) => [group.name, idsAllowed(group, config.models)]));
  const somebody_is_member = token_groups.some(({ members }) => members !== undefined);
  const isAllowed = (group: string | undefined, { id }: ModelConfig) =>
    group === undefined ? !somebody_is_member : (allowed.get(group)?.has(id) ?? false);
  return {
    all: config.models,
    find: (id) => models.get(id),
    refusal(caller, model): ModelRefusal | undefined {
      const { token_group } = caller;
      if (!isAllowed(token_group, model)) return { by: 'token_group', token_group };
      const policy = policies.of(caller);
      if (policy?.models === undefined || policy.models.has(model.id)) return undefined;
      return { by: 'policy', policy: policy.models_policy! };
    },
    upstream: (name) => known(upstreams.get(name), 'upstream', name),
    cost: (model, tokens) => priceTokens(inPriceOrder(tokens), known(prices.get(model.id), 'model', model.id)),
  };
}

/** Somebody with an access token of a group, about whom nothing else is known. */
export function callerWithToken(group: string): ModelCaller {
  return { token_group: group, groups: [group], email: '' };
}

function inPriceOrder(tokens: TokenCounts): number[] {
  return [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write_5m, tokens.cache_write_1h];
}

/** Prices in pico-USD per token. A cache price left out follows from the input price, rounded up to the next pico-USD. */
function picoPrices({ id, pricing }: ModelConfig): readonly number[] {
  const input = priceOf(id, 'input', pricing.input);
  const derived = (field: 'cache_read' | 'cache_write_5m' | 'cache_write_1h', twentieths: number): number => {
    const own = pricing[field];
    return own === undefined ? Math.ceil((input * twentieths) / 20) : priceOf(id, field, own);
  };
  return [
    input,
    priceOf(id, 'output', pricing.output),
    derived('cache_read', 2),
    derived('cache_write_5m', 25),
    derived('cache_write_1h', 40),
  ];
}

function priceOf(model: string, field: string, usd_per_million_tokens: number): number {
  try {
    return priceToPico(usd_per_million_tokens);
  } catch (error) {
    throw new RangeError(`the "${field}" price of the model "${model}": ${(error as Error).message}`);
  }
}

function idsAllowed(group: TokenGroupConfig, models: readonly ModelConfig[]): ReadonlySet<string> {
  const { models: globs = [], families = [] } = group;
  const allowed = models.filter(
    ({ id, family }) =>
      globs.some((glob) => matchesGlob(glob, id)) || (family !== undefined && families.includes(family)),
  );
  return new Set(allowed.map(({ id }) => id));
}

function known<T>(value: T | undefined, kind: string, name: string): T {
  if (value === undefined) throw new Error(`there is no ${kind} "${name}" in gateway.yaml`);
  return value;
}
