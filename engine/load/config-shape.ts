import { resolve } from 'node:path';
import type { GatewayConfig, ModelConfig, Profile, RoutingRuleConfig, UpstreamConfig } from '../config.ts';
import type { Protocol } from '../translation/protocol.ts';
import { deepFreeze } from './freeze.ts';

/** What clients assume of a model whose window is not stated. */
const DEFAULT_CONTEXT_WINDOW = 200_000;
/** What an upstream of each type speaks where it does not say so. */
const DEFAULT_PROTOCOLS: Readonly<Record<UpstreamConfig['type'], readonly Protocol[]>> = {
  vendor: ['messages'],
  compat: ['chat', 'responses'],
};
const DEFAULT_DATA_DIR = '.appscli/postgres';

type RawModel = Omit<ModelConfig, 'context_window' | 'max_output_tokens'> & Partial<ModelConfig>;

type RawUpstream = Omit<UpstreamConfig, 'protocols'> & Partial<UpstreamConfig>;

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
function shapeUpstream(upstream: RawUpstream): UpstreamConfig {
  const { type, supports, protocols = DEFAULT_PROTOCOLS[type] } = upstream;
  const count_tokens = type === 'vendor' && supports.count_tokens;
  return { ...upstream, protocols, supports: { ...supports, count_tokens } };
}

function shapeModel(model: RawModel): ModelConfig {
  const { context_window = DEFAULT_CONTEXT_WINDOW } = model;
  return { ...model, context_window, max_output_tokens: model.max_output_tokens ?? context_window };
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

/**
 * The configuration stages see, from a validated gateway.yaml.
 * @param directory of gateway.yaml, where the embedded database lives by default.
 */
export function shapeConfig(value: unknown, directory: string, profile: Profile): GatewayConfig {
  // Conditions have their named rules expanded by now.
  const { rules: _, ...raw } = value as RawConfig;
  return deepFreeze({
    ...raw,
    server: { ...raw.server, profile },
    database: shapeDatabase(raw.database, directory),
    upstreams: raw.upstreams.map(shapeUpstream),
    models: raw.models.map(shapeModel),
    routing: { ...raw.routing, rules: (raw.routing.rules ?? []).map(shapeRule) },
  });
}
