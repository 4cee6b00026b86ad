/** The models of a gateway.yaml that names none: those of the upstreams' lists that the catalogue of prices knows. */
import type { GatewayConfig, ModelConfig } from '../contract/config.ts';
import { idsAt } from '../money/prices/catalogue.ts';
import { modelFinder } from '../money/prices/known-models.ts';
import { plainName } from '../money/prices/model-names.ts';
import type { ModelLists } from './lists/model-lists.ts';
import { isModelId } from './lists/read-list.ts';
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

/** Where a model is served, as its upstreams' lists are now. */
interface Served {
  readonly at: ReadonlySet<string>;
  /** Whether its requests can be routed to any of these. */
  readonly is_reached: boolean;
}

/** Makes the finder of a configuration. */
export function createFoundModels(config: GatewayConfig, lists: ModelLists): FoundModels {
  const remember = modelFinder(config);
  const written = idsWritten(config);
  let listed = new Map<string, ModelConfig>();
  let all: readonly ModelConfig[] = [];
  let served = new WeakMap<ModelConfig, Served>();
  let seen: number | undefined;

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
    const models = [...ids].flatMap((id) => listed.get(id) ?? remember(id) ?? []);
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
      return listed.get(id) ?? (isModelId(id) ? remember(id) : undefined);
    },
    isServedAt: (model, upstream) => servedOf(model).at.has(upstream),
    isServed: (model) => servedOf(model).is_reached,
  };
}
