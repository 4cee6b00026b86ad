/** Models for requests: the values of gateway.yaml, completed from the price catalogue. */
import { LRUCache } from 'lru-cache';
import type { GatewayConfig, ModelConfig, ModelSetting } from '../../../base/contract/config.ts';
import type { GatewayFile } from '../../../base/contract/config-files.ts';
import { deepFreeze } from '../../../base/kit/freeze.ts';
import { idsAt, lookUp } from './catalogue.ts';

type FileModel = GatewayFile['models'][number];
type Addresses = readonly Pick<GatewayFile['upstreams'][number], 'name' | 'base_url'>[];

/** Context window that clients assume for an unknown model, in tokens. */
const DEFAULT_CONTEXT_WINDOW = 200_000;
/** Output limit without one in the request or gateway.yaml, in tokens: nearly all current models support it. */
const DEFAULT_OUTPUT_TOKENS = 8192;
/** Largest share of the context window for that output limit, so that the input fits: by default, and of a known model. */
const DEFAULT_OUTPUT_SHARE = 0.25;
const KNOWN_OUTPUT_SHARE = 0.5;

const MODEL_SETTINGS: readonly ModelSetting[] = [
  ...(['context_window', 'max_output_tokens'] as const),
  ...(['supports.tools', 'supports.images', 'supports.thinking'] as const),
  ...(['supports.sampling', 'supports.prompt_cache_1h'] as const),
];

/** Catalogue values for keys that gateway.yaml omits: the smallest context window at any upstream, and the output limit. */
function fromCatalogue(
  { id, pricing, context_window, max_output_tokens, upstream_ids }: FileModel,
  upstreams: Addresses,
): Partial<Pick<ModelConfig, 'catalogue' | 'context_window' | 'max_output_tokens'>> {
  if (pricing !== undefined && context_window !== undefined && max_output_tokens !== undefined) return {};
  const known = upstreams.flatMap(({ name, base_url }) => {
    const found = lookUp(upstream_ids[name] ?? id, base_url);
    return found === undefined ? [] : [{ name, ...found }];
  });
  const windows = known.flatMap(({ context_window = [] }) => context_window);
  const answers = known.flatMap((each) => each.max_output_tokens ?? []);
  const priced = pricing === undefined ? known.filter(({ prices }) => prices.length > 0) : [];
  return {
    ...(windows.length > 0 && { context_window: Math.min(...windows) }),
    ...(answers.length > 0 && { max_output_tokens: Math.max(...answers) }),
    ...(priced.length > 0 && { catalogue: Object.fromEntries(priced.map(({ name, prices }) => [name, prices])) }),
  };
}

/**
 * A model for requests: the configured one, completed from the catalogue.
 * @param isWritten whether gateway.yaml has a value at a path.
 */
export function shapeModel(
  model: FileModel,
  upstreams: Addresses,
  isWritten: (setting: ModelSetting) => boolean,
): ModelConfig {
  const known = fromCatalogue(model, upstreams);
  const { max_output_tokens } = model;
  const context_window = model.context_window ?? known.context_window ?? DEFAULT_CONTEXT_WINDOW;
  const isKnown = (setting: ModelSetting) =>
    (setting === 'context_window' || setting === 'max_output_tokens') && known[setting] !== undefined;
  const most =
    known.max_output_tokens === undefined
      ? Math.min(DEFAULT_OUTPUT_TOKENS, context_window * DEFAULT_OUTPUT_SHARE)
      : Math.min(known.max_output_tokens, context_window * KNOWN_OUTPUT_SHARE);
  return {
    ...model,
    ...known,
    aliases: model.aliases.filter((alias) => typeof alias === 'string'),
    group_aliases: model.aliases.filter((alias) => typeof alias !== 'string'),
    context_window,
    max_output_tokens: max_output_tokens ?? known.max_output_tokens ?? context_window,
    default_output_tokens: max_output_tokens ?? Math.max(1, Math.floor(most)),
    assumed: MODEL_SETTINGS.filter((setting) => !isWritten(setting) && !isKnown(setting)),
  };
}

const NOTHING_SAID = {
  aliases: [],
  supports: { tools: true, images: true, thinking: 'adaptive', sampling: true, prompt_cache_1h: true },
  upstream_ids: {},
} as const;

/** The model that `models: [{ id }]` would be; `undefined` where the catalogue has no price for it at any upstream. */
export function modelById(id: string, { upstreams }: Pick<GatewayConfig, 'upstreams'>): ModelConfig | undefined {
  const model = shapeModel({ ...NOTHING_SAID, id }, upstreams, () => false);
  return model.catalogue === undefined ? undefined : deepFreeze(model);
}

const REMEMBERED_MAX = 1000;

/** Creates a `modelById` for a configuration; it returns the same object for the same id while the id is cached. */
export function modelFinder(config: Pick<GatewayConfig, 'upstreams'>): (id: string) => ModelConfig | undefined {
  const remembered = new LRUCache<string, ModelConfig>({ max: REMEMBERED_MAX });
  return (id) => {
    const known = remembered.get(id);
    if (known !== undefined) return known;
    const model = modelById(id, config);
    if (model !== undefined) remembered.set(id, model);
    return model;
  };
}

/** A model by its id: of gateway.yaml, or of the catalogue where gateway.yaml names none. */
export function modelOf(config: GatewayConfig, id: string): ModelConfig | undefined {
  return config.from_model_lists ? modelById(id, config) : config.models.find((model) => model.id === id);
}

/** All catalogue models of the providers at the addresses of the upstreams, for a gateway.yaml without models. */
export function cataloguedModels(config: Pick<GatewayConfig, 'upstreams'>): readonly ModelConfig[] {
  const ids = new Set(config.upstreams.flatMap(({ base_url }) => idsAt(base_url)));
  return [...ids].flatMap((id) => modelById(id, config) ?? []);
}

const DATE = /[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2})$/;
const ENDING = /-(?:latest|0)$/;

/** An id without the suffixes that distinguish names of one model: a date, `-latest`, or the `-0` of a first version. */
export function plainName(id: string): string {
  return id.replace(DATE, '').replace(ENDING, '');
}

/** Ids and globs for all names of a model, its id first; a glob stays unchanged. */
export function namesMeant(id: string): readonly string[] {
  if (id.includes('*')) return [id];
  const plain = plainName(id);
  return [...new Set([id, plain, `${plain}-0`, `${plain}-latest`, `${plain}-20*`, `${plain}@20*`])];
}

/** The date of a version that providers put behind a model's name: `coder-1-20260301`, `coder-1-2026-03-01`, `coder-1@20260301`. */
const SNAPSHOT = /[-@:](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** The model of gateway.yaml for an upstream's name of a model; `undefined` for an unknown name. */
export type AnsweringModel = (name: string, upstream: string, requested: string) => ModelConfig | undefined;

/**
 * Finds models by their names at upstreams: the name configured for the upstream, the id, an alias, or a dated version of one
 * of these, with or without the name of a vendor before a slash. Where several go by one name, or by one name but for its vendor,
 * it is the requested one.
 * @param find the model of an id where gateway.yaml names none.
 */
export function answeringModels(
  { models }: Pick<GatewayConfig, 'models'>,
  find?: (id: string) => ModelConfig | undefined,
): AnsweringModel {
  const by_id = new Map(models.map((model) => [model.id, model]));
  const by_name = new Map<string, ModelConfig>();
  for (const model of models) {
    for (const name of [model.id, ...model.aliases]) by_name.set(name, by_name.get(name) ?? model);
  }
  const namesOf = ({ id, aliases, upstream_ids }: ModelConfig, upstream: string) => [
    upstream_ids[upstream] ?? id,
    id,
    ...aliases,
  ];
  const findAs = (name: string, upstream: string, requested: ModelConfig | undefined): ModelConfig | undefined => {
    if (requested !== undefined && namesOf(requested, upstream).includes(name)) return requested;
    return models.find(({ upstream_ids }) => upstream_ids[upstream] === name) ?? by_name.get(name) ?? find?.(name);
  };
  return (name, upstream, requested) => {
    const requested_model = by_id.get(requested) ?? find?.(requested);
    // Nearly every response.
    if (
      requested_model !== undefined &&
      (name === requested_model.id || name === requested_model.upstream_ids[upstream])
    )
      return requested_model;
    const undated = name.replace(SNAPSHOT, '');
    if (
      requested_model !== undefined &&
      namesOf(requested_model, upstream).some((own) => isShortFor(own.replace(SNAPSHOT, ''), undated))
    )
      return requested_model;
    for (const spelling of spellingsOf(name)) {
      const found = findAs(spelling, upstream, requested_model);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** Whether one of two names is the other with vendors or places before a slash. */
function isShortFor(one: string, other: string): boolean {
  return one === other || one.endsWith(`/${other}`) || other.endsWith(`/${one}`);
}

function spellingsOf(name: string): string[] {
  const bare = name.slice(name.lastIndexOf('/') + 1);
  return [name, name.replace(SNAPSHOT, ''), bare, bare.replace(SNAPSHOT, '')];
}
