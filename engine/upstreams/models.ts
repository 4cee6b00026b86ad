import type { GatewayConfig, ModelConfig, TokenGroupConfig, UpstreamConfig } from '../contract/config.ts';
import { NO_MODEL } from '../contract/no-model.ts';
import type {
  EffectivePrice,
  ManagedPolicies,
  ModelCaller,
  ModelCatalog,
  ModelRefusal,
  PricedRoute,
} from '../contract/services.ts';
import { namesModel } from '../identity/policies/managed-policies.ts';
import { matchesGlob } from '../kit/glob.ts';
import { answeringModels } from '../money/prices/answering-model.ts';
import { namesMeant } from '../money/prices/model-names.ts';
import { costOf, createPriceBook } from '../money/prices/prices.ts';
import { createFoundModels } from './found-models.ts';
import { type ModelLists, NO_LISTS } from './lists/model-lists.ts';

/** What an absent `token_groups` section means. */
const EVERY_MODEL: readonly TokenGroupConfig[] = [{ name: 'all', models: ['*'] }];

/** The price of requests that name no model, in tokens. */
const FREE: EffectivePrice = {
  source: 'none',
  pico: { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 },
  server_tools_pico: {},
};

/** Where there are no policies. */
const NO_POLICIES: ManagedPolicies = { of: () => undefined, served() {} };

/**
 * The models of a configuration with everything a request asks about them computed ahead. Throws a RangeError for a price that
 * cannot be kept.
 * @param lists what upstreams tell of their models, for a configuration that names none.
 */
export function createModelCatalog(
  config: GatewayConfig,
  policies: ManagedPolicies = NO_POLICIES,
  lists: ModelLists = NO_LISTS,
): ModelCatalog {
  const prices = createPriceBook(config);
  const upstreams = new Map<string, UpstreamConfig>(config.upstreams.map((upstream) => [upstream.name, upstream]));
  const token_groups = config.token_groups.length === 0 ? EVERY_MODEL : config.token_groups;
  const groups = new Map(token_groups.map((group) => [group.name, opener(group, config)]));
  const found = config.from_model_lists ? createFoundModels(config, lists) : undefined;
  const somebody_is_member = token_groups.some(({ members }) => members !== undefined);
  const isAllowed = (group: string | undefined, model: ModelConfig) =>
    group === undefined ? !somebody_is_member : (groups.get(group)?.(model) ?? false);
  const isNamed = (names: ReadonlySet<string>, model: ModelConfig) =>
    found === undefined ? names.has(model.id) : [...names].flatMap(namesMeant).some((word) => namesModel(word, model));
  const answering = answeringModels(config, found?.find);
  const hasPrice = ({ id }: ModelConfig, upstream: string) =>
    prices.periods(id, upstream).every(({ price }) => price !== undefined);
  function price({ id }: ModelConfig, route: PricedRoute): EffectivePrice {
    if (id === NO_MODEL.id) return FREE;
    const found = prices.of(id, route);
    if (found === undefined) throw new Error(`gateway.yaml gives the model "${id}" no price at "${route.upstream}"`);
    return found;
  }
  const find = found?.find ?? createFind(config.models);
  return {
    get all() {
      return found?.all() ?? config.models;
    },
    find,
    charged: (id) => (id === NO_MODEL.id ? NO_MODEL : find(id)),
    isServedAt: found?.isServedAt ?? (() => true),
    refusal(caller, model): ModelRefusal | undefined {
      const { token_group } = caller;
      if (!isAllowed(token_group, model)) return { by: 'token_group', token_group };
      if (found?.isServed(model) === false) return { by: 'list' };
      const policy = policies.of(caller);
      if (policy?.models === undefined || isNamed(policy.models, model)) return undefined;
      return { by: 'policy', policy: policy.models_policy! };
    },
    upstream: (name) => known(upstreams.get(name), 'upstream', name),
    answering(name, upstream, requested) {
      const model = answering(name, upstream, requested);
      // A model of the catalogue has a price where its provider is, which need not be here.
      return model?.catalogue === undefined || hasPrice(model, upstream) ? model : undefined;
    },
    price,
    cost: (model, usage, route) => costOf(price(model, route), usage),
  };
}

function createFind(models: readonly ModelConfig[]): ModelCatalog['find'] {
  const by_name = new Map(models.flatMap((model) => [model.id, ...model.aliases].map((name) => [name, model])));
  const of_groups = models.flatMap((model) => model.group_aliases.map((alias) => ({ ...alias, model })));
  const by_alias = Map.groupBy(of_groups, ({ name }) => name);
  if (by_alias.size === 0) return (name) => by_name.get(name);
  return (name, groups = []) => {
    const theirs = by_alias.get(name)?.find((alias) => alias.groups.some((group) => groups.includes(group)));
    return theirs?.model ?? by_name.get(name);
  };
}

/** The facts that tell who asks for a model. */
interface CallerContext {
  get(path: 'principal.email'): string;
  get(path: 'principal.groups'): readonly string[];
  get(path: 'principal.token.group'): string | undefined;
}

/** Who asks for a model, by the facts of a request. */
export function callerOf(ctx: CallerContext): ModelCaller {
  return {
    email: ctx.get('principal.email'),
    groups: ctx.get('principal.groups'),
    token_group: ctx.get('principal.token.group'),
  };
}

/** Somebody with an access token of a group, about whom nothing else is known. */
export function callerWithToken(group: string): ModelCaller {
  return { token_group: group, groups: [group], email: '' };
}

/** Whether a token group may use a model, worked out ahead for the models of gateway.yaml. */
function opener(
  { models: globs = [], families = [] }: TokenGroupConfig,
  { models, from_model_lists }: GatewayConfig,
): (model: ModelConfig) => boolean {
  const opens = ({ id, family }: ModelConfig) =>
    globs.some((glob) => matchesGlob(glob, id)) || (family !== undefined && families.includes(family));
  if (from_model_lists) return opens;
  const ids = new Set(models.filter(opens).map(({ id }) => id));
  return ({ id }) => ids.has(id);
}

function known<T>(value: T | undefined, kind: string, name: string): T {
  if (value === undefined) throw new Error(`there is no ${kind} "${name}" in gateway.yaml`);
  return value;
}
