/** Models as requests meet them: what gateway.yaml says of each, and what the catalogue knows where it says nothing. */
import { LRUCache } from 'lru-cache';
import type { GatewayConfig, ModelConfig, ModelSetting } from '../../../base/contract/config.ts';
import type { GatewayFile } from '../../../base/contract/config-files.ts';
import { deepFreeze } from '../../../base/kit/freeze.ts';
import { idsAt, lookUp } from './catalogue.ts';

type FileModel = GatewayFile['models'][number];
type Addresses = readonly Pick<GatewayFile['upstreams'][number], 'name' | 'base_url'>[];

/** What clients assume of a model whose window is not stated. */
const DEFAULT_CONTEXT_WINDOW = 200_000;
/** Bound of an answer that neither its client nor gateway.yaml bounds: what nearly all models of today can say. */
const DEFAULT_OUTPUT_TOKENS = 8192;
/** Part of its window that such an answer may take at most, so that there is room for what is asked: by default, and of a known model. */
const DEFAULT_OUTPUT_SHARE = 0.25;
const KNOWN_OUTPUT_SHARE = 0.5;

const MODEL_SETTINGS: readonly ModelSetting[] = [
  ...(['context_window', 'max_output_tokens'] as const),
  ...(['supports.tools', 'supports.images', 'supports.thinking'] as const),
  ...(['supports.sampling', 'supports.prompt_cache_1h'] as const),
];

/** What the catalogue says of what gateway.yaml leaves out: the smallest window at any upstream, and the longest answer. */
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
 * A model as requests meet it.
 * @param isWritten whether gateway.yaml says something at a place.
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

/** Makes a `modelById` for a configuration that gives the same object for the same id, for as long as it is remembered. */
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

/** All that the catalogue has of the providers at the addresses of the upstreams, for a gateway.yaml that names no models. */
export function cataloguedModels(config: Pick<GatewayConfig, 'upstreams'>): readonly ModelConfig[] {
  const ids = new Set(config.upstreams.flatMap(({ base_url }) => idsAt(base_url)));
  return [...ids].flatMap((id) => modelById(id, config) ?? []);
}

const DATE = /[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2})$/;
const ENDING = /-(?:latest|0)$/;

/** An id without what tells one name of a model from another: its date, `-latest`, or the `-0` of a first version. */
export function plainName(id: string): string {
  return id.replace(DATE, '').replace(ENDING, '');
}

/** Ids and globs for all names of the model that an id means, itself the first; a glob stays as it is. */
export function namesMeant(id: string): readonly string[] {
  if (id.includes('*')) return [id];
  const plain = plainName(id);
  return [...new Set([id, plain, `${plain}-0`, `${plain}-latest`, `${plain}-20*`, `${plain}@20*`])];
}

/** The date of a version that providers put behind a model's name: `coder-1-20260301`, `coder-1-2026-03-01`, `coder-1@20260301`. */
const SNAPSHOT = /[-@:](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** The model of gateway.yaml that an upstream's name for a model stands for; `undefined` for a name that nobody knows. */
export type AnsweringModel = (name: string, upstream: string, requested: string) => ModelConfig | undefined;

/**
 * Finds models by what upstreams call them: the name configured for the upstream, the id, an alias, or a dated version of one
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
    const asked = by_id.get(requested) ?? find?.(requested);
    // Nearly every answer.
    if (asked !== undefined && (name === asked.id || name === asked.upstream_ids[upstream])) return asked;
    const undated = name.replace(SNAPSHOT, '');
    if (asked !== undefined && namesOf(asked, upstream).some((own) => isShortFor(own.replace(SNAPSHOT, ''), undated)))
      return asked;
    for (const spelling of spellingsOf(name)) {
      const found = findAs(spelling, upstream, asked);
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
