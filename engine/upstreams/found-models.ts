/** The models of a gateway.yaml that names none: those of the upstreams' lists that the catalogue of prices knows. */
import type { GatewayConfig, ModelConfig } from '../contract/config.ts';
import { deepFreeze } from '../kit/freeze.ts';
import { idsAt } from '../money/prices/catalogue.ts';
import { modelFinder } from '../money/prices/known-models.ts';
import { plainName } from '../money/prices/model-names.ts';
import type { ModelLists } from './lists/model-lists.ts';
import { isModelId, type ToldOfModel } from './lists/read-list.ts';
import { reaches } from './routes/reaches.ts';

/** Models that are found when somebody asks for them. */
export interface FoundModels {
  /**
   * Those that are served. Where an upstream tells no list, what the catalogue has of the provider at its address, and what
   * gateway.yaml names in rules and token groups.
   */
  all(): readonly ModelConfig[];
  /**
   * A model that the catalogue has a price for, served or not: the same object for the same id for as long as it is
   * remembered. A request that began before a list changed ends with the model that it began with.
   */
  find(id: string): ModelConfig | undefined;
  /** Whether an upstream has a model, and the catalogue its price there. */
  isServedAt(model: ModelConfig, upstream: string): boolean;
  /** Whether any upstream that its requests can be routed to does. */
  isServed(model: ModelConfig): boolean;
}

/** An upstream at which a model has a price: a model of the catalogue has one where its provider is, which need not be everywhere. */
export function pricedAt({ catalogue }: ModelConfig, preferred: string): string {
  if (catalogue === undefined || preferred in catalogue) return preferred;
  return Object.keys(catalogue)[0] ?? preferred;
}

/** The ids of models that gateway.yaml refers to, each by one of its names. */
function idsWritten({ routing, token_groups }: GatewayConfig): readonly string[] {
  const globs = [...routing.rules, ...token_groups].flatMap(({ models = [] }) => models);
  const ids = globs.filter((glob) => !glob.includes('*'));
  // The first of the names is the one that is written.
  return [...Map.groupBy(ids, plainName).values()].map(([id]) => id!);
}

/** A model with what its upstream's list says of it: how long it may answer where nobody says, and how it is told to think. */
function withTold(model: ModelConfig, { max_tokens, thinking }: ToldOfModel): ModelConfig {
  return deepFreeze({
    ...model,
    ...(max_tokens !== undefined && { default_output_tokens: Math.min(max_tokens, model.max_output_tokens) }),
    ...(thinking !== undefined && { supports: { ...model.supports, thinking } }),
    assumed: model.assumed.filter((setting) => thinking === undefined || setting !== 'supports.thinking'),
  });
}

/** Where a model is served, as its upstreams' lists are now. */
interface Served {
  readonly at: ReadonlySet<string>;
  /** Whether its requests can be routed to any of these. */
  readonly is_reached: boolean;
}

/** Makes the finder of a configuration. */
export function createFoundModels(config: GatewayConfig, lists: ModelLists): FoundModels {
  const bare = modelFinder(config);
  const completed = new WeakMap<ModelConfig, ModelConfig>();
  const written = idsWritten(config);
  let listed = new Map<string, ModelConfig>();
  let all: readonly ModelConfig[] = [];
  let served = new WeakMap<ModelConfig, Served>();
  let seen: number | undefined;

  /** What is told of a model once a list has it holds until the next reload: requests end as they begin. */
  function complete(model: ModelConfig): ModelConfig {
    const known = completed.get(model);
    if (known !== undefined) return known;
    const upstreams = Object.keys(model.catalogue ?? {});
    const told = upstreams.map((name) => lists.told(name, model.id)).find((said) => said !== undefined);
    if (told === undefined) return model;
    const whole = withTold(model, told);
    for (const each of [model, whole]) completed.set(each, whole);
    return whole;
  }

  function remember(id: string): ModelConfig | undefined {
    const model = listed.get(id) ?? bare(id);
    return model && complete(model);
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

  /** Models that stay are the same objects as before: what is worked out for a model is kept by it. */
  function update(): void {
    if (seen === lists.version()) return;
    seen = lists.version();
    served = new WeakMap();
    const ids = new Set(
      config.upstreams.flatMap(({ name, base_url }) => lists.ids(name) ?? [...idsAt(base_url), ...written]),
    );
    const models = [...ids].flatMap((id) => remember(id) ?? []);
    all = Object.freeze(models.filter((model) => servedOf(model).is_reached));
    listed = new Map(all.map((model) => [model.id, model]));
  }

  return {
    all() {
      update();
      return all;
    },
    find(id) {
      update();
      return isModelId(id) ? remember(id) : undefined;
    },
    isServedAt: (model, upstream) => servedOf(model).at.has(upstream),
    isServed: (model) => servedOf(model).is_reached,
  };
}
