import type { GatewayConfig, ModelConfig, TokenGroupConfig, UpstreamConfig } from '../../base/contract/config.ts';
import { type ErrorDetails, StageError } from '../../base/contract/errors.ts';
import { NO_MODEL } from '../../base/contract/no-model.ts';
import type {
  EffectivePrice,
  Log,
  ManagedPolicies,
  ModelCaller,
  ModelCatalog,
  ModelRefusal,
  PricedRoute,
} from '../../base/contract/services.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { createOnceLog } from '../../base/kit/once-log.ts';
import { printable } from '../../base/kit/text/printable.ts';
import {
  answeringModels,
  CATALOGUE_DATE,
  costOf,
  createPriceBook,
  idsAt,
  modelFinder,
  namesMeant,
  plainName,
} from '../budget/index.ts';
import { namesModel } from '../policies/index.ts';
import { isModelId, type ModelListEntry } from './lists/ask-list.ts';
import { type ModelLists, NO_LISTS } from './lists/model-lists.ts';
import { reaches } from './routes.ts';

const FREE: EffectivePrice = {
  source: 'none',
  pico: { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 },
  server_tools_pico: {},
};

const NO_POLICIES: ManagedPolicies = { of: () => undefined, served() {} };

/** The models of a configuration, prepared for requests. Throws a RangeError for a price that cannot be stored. */
export function createModelCatalog(
  config: GatewayConfig,
  policies: ManagedPolicies = NO_POLICIES,
  lists: ModelLists = NO_LISTS,
): ModelCatalog {
  const prices = createPriceBook(config);
  const upstreams = new Map<string, UpstreamConfig>(config.upstreams.map((upstream) => [upstream.name, upstream]));
  const groups = new Map(config.token_groups.map((group) => [group.name, opener(group, config)]));
  const found = config.from_model_lists ? createFoundModels(config, lists) : undefined;
  const somebody_is_member = config.token_groups.some(({ members }) => members !== undefined);
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
    upstream(name) {
      const upstream = upstreams.get(name);
      if (upstream === undefined) throw new Error(`there is no upstream "${name}" in gateway.yaml`);
      return upstream;
    },
    answering(name, upstream, requested) {
      const model = answering(name, upstream, requested);
      // A model of the catalogue has a price at its provider's address only.
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

interface CallerContext {
  get(path: 'principal.email'): string;
  get(path: 'principal.groups'): readonly string[];
  get(path: 'principal.token.group'): string | undefined;
}

export function callerOf(ctx: CallerContext): ModelCaller {
  return {
    email: ctx.get('principal.email'),
    groups: ctx.get('principal.groups'),
    token_group: ctx.get('principal.token.group'),
  };
}

/** A caller with an access token of a group. */
export function callerWithToken(group: string): ModelCaller {
  return { token_group: group, groups: [group], email: '' };
}

/** Makes the test whether a token group may use a model. */
function opener({ models: globs = [], families = [] }: TokenGroupConfig, config: GatewayConfig) {
  const opens = ({ id, family }: ModelConfig) =>
    globs.some((glob) => matchesGlob(glob, id)) || (family !== undefined && families.includes(family));
  if (config.from_model_lists) return opens;
  const ids = new Set(config.models.filter(opens).map(({ id }) => id));
  return ({ id }: ModelConfig) => ids.has(id);
}

const QUOTED_LENGTH_MAX = 120;

const NOT_IN_CATALOGUE = `the price catalogue (${CATALOGUE_DATE}) has no price for it`;
const NOT_LISTED = 'no upstream available to you lists it';

const HOW_TO_SEE_MODELS = 'GET /v1/models lists the models you may use.';

/** Why a caller cannot use a model; `unknown`: the upstream allows no unknown name in this field. */
type Refusal =
  | ModelRefusal
  | { readonly by: 'upstream'; readonly upstream: string }
  | { readonly by: 'unknown'; readonly upstream: string; readonly field: string };

function explain(refusal: Refusal | undefined): { why: string; remedy: string; details: ErrorDetails } {
  const unknown = 'no model of this gateway has that identifier';
  if (refusal === undefined) return { why: unknown, remedy: '', details: {} };
  if (refusal.by === 'unknown') {
    const { upstream, field } = refusal;
    const remedy = ` An administrator can add "${field}" to \`allow_fields\` of the upstream "${upstream}".`;
    return { why: unknown, remedy, details: { upstream } };
  }
  if (refusal.by === 'list') return { why: NOT_LISTED, remedy: '', details: {} };
  if (refusal.by === 'policy') {
    const { policy } = refusal;
    const remedy = ' An administrator can add it to the policy.';
    return { why: `the policy "${policy}" does not list it`, remedy, details: { policy } };
  }
  if (refusal.by === 'upstream') {
    const { upstream } = refusal;
    return { why: `the upstream "${upstream}" of this request does not serve it`, remedy: '', details: { upstream } };
  }
  const { token_group } = refusal;
  if (token_group === undefined) {
    const remedy = ' An administrator can add one of your groups to the members of a token group.';
    return { why: 'you are a member of no token group', remedy, details: {} };
  }
  const remedy = ' An administrator can widen the group or create a token in another one.';
  return { why: `the token group "${token_group}" may not use it`, remedy, details: { token_group } };
}

/** Makes the error for a model that a caller cannot use. Without `models`, the gateway logs the entry to add. */
export function createModelRefuser(
  config: Pick<GatewayConfig, 'from_model_lists'>,
  log: Log,
): (id: string, refusal: ModelRefusal | undefined) => StageError {
  if (!config.from_model_lists) return modelNotFound;
  const logOnce = createOnceLog(log);
  return (id, refusal) => {
    if (refusal !== undefined && refusal.by !== 'list') return modelNotFound(id, refusal);
    const model = quotable(id);
    const [why, price, pricing] =
      refusal === undefined
        ? [NOT_IN_CATALOGUE, ', with its price', ', pricing: { input: ..., output: ... }']
        : [NOT_LISTED, '', ''];
    const help = `list all models to serve under \`models\`, this one as { id: ${model}${pricing} }`;
    logOnce({ model, help }, `a request for an unknown model was rejected: ${why}`);
    const remedy = `An administrator can list it in gateway.yaml under \`models\`${price}, together with all other models to serve.`;
    const message = `Model not found: "${model}"; ${why}. ${HOW_TO_SEE_MODELS} ${remedy}`;
    return new StageError('model_not_found', message, { details: { model } });
  };
}

/** The error for a model that a caller cannot use. @param param where the request names it, if not in `model` */
export function modelNotFound(id: string, refusal: Refusal | undefined, param?: string): StageError {
  const model = quotable(id);
  const { why, remedy, details } = explain(refusal);
  const at = param === undefined ? '' : `${param}: `;
  return new StageError('model_not_found', `${at}Model not found: "${model}"; ${why}. ${HOW_TO_SEE_MODELS}${remedy}`, {
    details: { ...(param !== undefined && { param }), model, ...details },
  });
}

function quotable(id: string): string {
  return printable(id.length > QUOTED_LENGTH_MAX ? `${id.slice(0, QUOTED_LENGTH_MAX)}...` : id);
}

/** Why a signed-in user may use no model at all, and how an administrator can change that. @param refusals one per model */
export function noModelsBecause(
  refusals: readonly (ModelRefusal | undefined)[],
  groups: readonly string[],
  { from_model_lists }: Pick<GatewayConfig, 'from_model_lists'> = {},
): string {
  if (refusals.length === 0 && from_model_lists) {
    return 'no upstream lists its models; the gateway serves those of the price catalogue';
  }
  if (refusals.length === 0) return 'this gateway has no models; an administrator adds them to gateway.yaml';
  const policy = refusals.find((refusal) => refusal?.by === 'policy');
  if (policy?.by === 'policy') {
    return `the policy "${policy.policy}" lists no model that your token group may use; an administrator adds one to the policy`;
  }
  const [first] = refusals;
  const group = first?.by === 'token_group' ? first.token_group : undefined;
  if (group !== undefined) {
    return `your token group "${group}" may use no model of this gateway; an administrator adds models to the group in gateway.yaml`;
  }
  const yours = groups.length === 0 ? 'the gateway knows none of your groups' : `your groups are ${groups.join(', ')}`;
  return `you are a member of no token group (${yours}); an administrator adds one of your groups to the members of a token group in gateway.yaml`;
}

/** An upstream at which a model has a price; models of the catalogue have one at their provider's address only. */
export function pricedAt({ catalogue }: ModelConfig, preferred: string): string {
  if (catalogue === undefined || preferred in catalogue) return preferred;
  return Object.keys(catalogue)[0] ?? preferred;
}

function idsWritten({ routing, token_groups }: GatewayConfig): readonly string[] {
  const globs = [...routing.rules, ...token_groups].flatMap(({ models = [] }) => models);
  const ids = globs.filter((glob) => !glob.includes('*'));
  // Of several names of one model, the first stays.
  return [...Map.groupBy(ids, plainName).values()].map(([id]) => id!);
}

/** A model with the default output limit and the thinking mode from its upstream's list. */
function withListed(model: ModelConfig, { max_tokens, thinking }: ModelListEntry): ModelConfig {
  return deepFreeze({
    ...model,
    ...(max_tokens !== undefined && { default_output_tokens: Math.min(max_tokens, model.max_output_tokens) }),
    ...(thinking !== undefined && { supports: { ...model.supports, thinking } }),
    assumed: model.assumed.filter((setting) => thinking === undefined || setting !== 'supports.thinking'),
  });
}

interface Served {
  readonly at: ReadonlySet<string>;
  readonly is_reached: boolean;
}

/** Models of the upstreams' lists and the price catalogue, looked up on demand. */
export function createFoundModels(config: GatewayConfig, lists: ModelLists) {
  const bare = modelFinder(config);
  const completed = new WeakMap<ModelConfig, ModelConfig>();
  const written = idsWritten(config);
  let listed = new Map<string, ModelConfig>();
  let all: readonly ModelConfig[] = [];
  let served = new WeakMap<ModelConfig, Served>();
  let seen: number | undefined;

  /** Settings from a model list are fixed until the next reload, so that a request ends with what it began with. */
  function find(id: string): ModelConfig | undefined {
    const model = listed.get(id) ?? bare(id);
    const known = model && completed.get(model);
    if (model === undefined || known !== undefined) return known;
    const upstreams = Object.keys(model.catalogue ?? {});
    const entry = upstreams.map((name) => lists.entry(name, model.id)).find((found) => found !== undefined);
    if (entry === undefined) return model;
    const whole = withListed(model, entry);
    for (const each of [model, whole]) completed.set(each, whole);
    return whole;
  }

  function servedOf(model: ModelConfig): Served {
    update();
    let found = served.get(model);
    if (found === undefined) {
      const at = new Set(Object.keys(model.catalogue ?? {}).filter((name) => lists.has(name, model.id) !== false));
      found = { at, is_reached: [...reaches(model, config.routing)].some((name) => at.has(name)) };
      served.set(model, found);
    }
    return found;
  }

  /** Unchanged models stay the same objects, because caches use them as keys. */
  function update(): void {
    if (seen === lists.version()) return;
    seen = lists.version();
    served = new WeakMap();
    const ids = new Set(
      config.upstreams.flatMap(({ name, base_url }) => lists.ids(name) ?? [...idsAt(base_url), ...written]),
    );
    const models = [...ids].flatMap((id) => find(id) ?? []);
    all = Object.freeze(models.filter((model) => servedOf(model).is_reached));
    listed = new Map(all.map((model) => [model.id, model]));
  }

  return {
    /** Those that are served: on a list, else in the catalogue or in the rules and token groups of gateway.yaml. */
    all(): readonly ModelConfig[] {
      update();
      return all;
    },
    /** A model with a price, served or not; the same object also for requests that began before a list changed. */
    find(id: string): ModelConfig | undefined {
      update();
      return isModelId(id) ? find(id) : undefined;
    },
    isServedAt: (model: ModelConfig, upstream: string) => servedOf(model).at.has(upstream),
    /** Whether any upstream that its requests can be routed to serves a model. */
    isServed: (model: ModelConfig) => servedOf(model).is_reached,
  };
}
