import { resolve } from 'node:path';
import type {
  GatewayConfig,
  ModelConfig,
  ModelSetting,
  Profile,
  RoutingRuleConfig,
  UpstreamConfig,
} from '../contract/config.ts';
import type { Protocol } from '../contract/protocol.ts';
import { deepFreeze } from '../kit/freeze.ts';
import { isWritten, type MapNode } from '../source/node.ts';
import { checksSignatures, type LoadedProfiles } from './profile.ts';

/** What clients assume of a model whose window is not stated. */
const DEFAULT_CONTEXT_WINDOW = 200_000;
/** What an upstream of each type speaks where it does not say so. */
const DEFAULT_PROTOCOLS: Readonly<Record<UpstreamConfig['type'], readonly Protocol[]>> = {
  vendor: ['messages'],
  compat: ['chat', 'responses'],
};
const DEFAULT_DATA_DIR = '.appscli/postgres';

/** Bound of an answer that neither its client nor gateway.yaml bounds: what nearly all models of today can say. */
const DEFAULT_OUTPUT_TOKENS = 8192;
/** Part of its window that such an answer may take at most, so that there is room for what is asked. */
const DEFAULT_OUTPUT_SHARE = 0.25;

const MODEL_SETTINGS: readonly ModelSetting[] = [
  ...(['context_window', 'max_output_tokens'] as const),
  ...(['supports.tools', 'supports.images', 'supports.thinking'] as const),
  ...(['supports.sampling', 'supports.prompt_cache_1h'] as const),
];

type Shaped = 'context_window' | 'max_output_tokens' | 'default_output_tokens' | 'assumed';

type RawModel = Omit<ModelConfig, Shaped> & Partial<Pick<ModelConfig, 'context_window' | 'max_output_tokens'>>;

interface RawUpstream extends Omit<UpstreamConfig, 'protocols' | 'profile' | 'supports'> {
  readonly protocols?: UpstreamConfig['protocols'];
  readonly supports: Omit<UpstreamConfig['supports'], 'unproven_reasoning' | 'unsigned_reasoning'> & {
    readonly unproven_reasoning?: boolean;
  };
}

interface RawRule extends Omit<RoutingRuleConfig, 'name' | 'upstream'> {
  readonly name?: string;
  readonly upstream?: string;
  readonly upstreams?: readonly string[];
  readonly weights?: unknown;
}

interface RawConfig extends Omit<GatewayConfig, 'database' | 'upstreams' | 'models' | 'routing'> {
  readonly database?: GatewayConfig['database'];
  readonly upstreams: readonly RawUpstream[];
  readonly models: readonly RawModel[];
  readonly routing: { readonly default_upstream: string; readonly rules?: readonly RawRule[] };
  readonly rules?: unknown;
}

/** Only the Messages API has a call that counts tokens. */
function shapeUpstream(upstream: RawUpstream, profile: Profile | undefined): UpstreamConfig {
  const { type, supports, protocols = DEFAULT_PROTOCOLS[type] } = upstream;
  const count_tokens = type === 'vendor' && supports.count_tokens;
  const { unproven_reasoning = false } = supports;
  const unsigned_reasoning = supports.unproven_reasoning ?? !checksSignatures(upstream.base_url);
  return {
    ...upstream,
    profile,
    protocols,
    honours: honouredBy(upstream),
    supports: { ...supports, count_tokens, unproven_reasoning, unsigned_reasoning },
  };
}

/** A field that is said to be the only bound it takes is one that it keeps to. */
function honouredBy({ honours, max_tokens_field: field }: RawUpstream): UpstreamConfig['honours'] {
  return field === undefined || honours.includes(field) ? honours : [...honours, field];
}

/** @param isWritten whether gateway.yaml says something at a place. */
function shapeModel(model: RawModel, isWritten: (setting: ModelSetting) => boolean): ModelConfig {
  const { context_window = DEFAULT_CONTEXT_WINDOW, max_output_tokens } = model;
  const share = Math.max(1, Math.floor(context_window * DEFAULT_OUTPUT_SHARE));
  return {
    ...model,
    context_window,
    max_output_tokens: max_output_tokens ?? context_window,
    default_output_tokens: max_output_tokens ?? Math.min(DEFAULT_OUTPUT_TOKENS, share),
    assumed: MODEL_SETTINGS.filter((setting) => !isWritten(setting)),
  };
}

/** The first of several upstreams stands for all until failover exists. */
function shapeRule({ upstreams, weights: _, ...rule }: RawRule, index: number): RoutingRuleConfig {
  return { ...rule, name: rule.name ?? `routing.rules[${index}]`, upstream: rule.upstream ?? upstreams![0]! };
}

/** Where no server is named, the embedded one is meant. */
function shapeDatabase(database: GatewayConfig['database'] = {}, directory: string): GatewayConfig['database'] {
  if (database.postgres !== undefined || database.embedded !== undefined) return database;
  return { ...database, embedded: { data_dir: resolve(directory, DEFAULT_DATA_DIR) } };
}

/** What a validated gateway.yaml does not hold itself. */
export interface ConfigSource {
  /** The file as it is written. */
  readonly root: MapNode;
  /** Of gateway.yaml, where the embedded database lives by default. */
  readonly directory: string;
  readonly profiles: LoadedProfiles;
}

/** The configuration stages see, from a validated gateway.yaml. */
export function shapeConfig(value: unknown, { root, directory, profiles }: ConfigSource): GatewayConfig {
  // Conditions have their named rules expanded by now.
  const { rules: _, ...raw } = value as RawConfig;
  return deepFreeze({
    ...raw,
    server: { ...raw.server, profile: profiles.server },
    database: shapeDatabase(raw.database, directory),
    upstreams: raw.upstreams.map((upstream, index) => shapeUpstream(upstream, profiles.upstreams[index])),
    models: raw.models.map((model, index) =>
      shapeModel(model, (setting) => isWritten(root, `/models/${index}/${setting.replace('.', '/')}`)),
    ),
    routing: { ...raw.routing, rules: (raw.routing.rules ?? []).map(shapeRule) },
  });
}
