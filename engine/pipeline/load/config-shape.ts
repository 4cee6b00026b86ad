import { relative, resolve, sep } from 'node:path';
import type {
  GatewayConfig,
  Profile,
  RouteUpstream,
  RoutingRuleConfig,
  UpstreamConfig,
} from '../../base/contract/config.ts';
import type { GatewayFile } from '../../base/contract/config-files.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { decidingVariable } from '../../base/kit/net/proxy-route.ts';
import { secretFile, secretInFile } from '../../base/kit/secret-names.ts';
import { isWritten, type MapNode } from '../../base/source/node.ts';
import { namesMeant, shapeModel } from '../../domain/budget/prices/known-models.ts';
import { UPSTREAM_TYPES } from '../../domain/upstreams/types/index.ts';
import { checksSignatures, type loadProfiles } from './profile.ts';

type FileUpstream = GatewayFile['upstreams'][number];
type FileRule = GatewayFile['routing']['rules'][number];

const DEFAULT_DATA_DIR = '.appscli/postgres';

/** The cache pool of an upstream without `cache_pool`. */
export function ownPool({ name }: { readonly name: string }): string {
  return `upstream ${name}`;
}

/** The default state boundary: address and credential; files below `directory` by relative path, for replicas elsewhere. */
export function ownBoundary(
  upstream: Pick<FileUpstream, 'base_url' | 'api_key_env' | 'auth_token_env'>,
  directory: string,
): string {
  const { base_url, api_key_env, auth_token_env } = upstream;
  const credential = api_key_env ?? auth_token_env ?? '';
  const file = secretFile(credential);
  const path = file === undefined ? '' : relative(directory, file);
  const is_below = path !== '' && !path.startsWith('..');
  return `${new URL(base_url).href} ${is_below ? secretInFile(path.replaceAll(sep, '/')) : credential}`;
}

function shapeUpstream(
  upstream: FileUpstream,
  profile: Profile | undefined,
  { env, directory }: Pick<ConfigSource, 'env' | 'directory'>,
): UpstreamConfig {
  const type = UPSTREAM_TYPES[upstream.type];
  const { supports, protocols = type.protocols, enforces, max_tokens_field: field, proxy } = upstream;
  const variable = decidingVariable(new URL(upstream.base_url), env);
  const count_tokens = type.counts_tokens && supports.count_tokens;
  const { unproven_reasoning = false } = supports;
  const unsigned_reasoning = supports.unproven_reasoning ?? !checksSignatures(upstream.base_url);
  return {
    ...upstream,
    ...(proxy ? { proxy } : variable?.is_proxy && { proxy: { url_env: variable.name } }),
    profile,
    protocols,
    // `max_tokens_field` implies that the upstream enforces that field.
    enforces: field === undefined || enforces.includes(field) ? enforces : [...enforces, field],
    cache_pool: upstream.cache_pool ?? ownPool(upstream),
    state_boundary: upstream.state_boundary ?? ownBoundary(upstream, directory),
    supports: { ...supports, count_tokens, unproven_reasoning, unsigned_reasoning },
  };
}

/** Default orders: the position in a list of names, and 1 for all entries of a list with weights. */
function shapeUpstreams(one: string | undefined, several: FileRule['upstreams']): readonly RouteUpstream[] {
  if (one !== undefined) return [{ upstream: one, order: 1, weight: 1 }];
  const entries = several!.map((entry) => (typeof entry === 'string' ? { upstream: entry } : entry));
  const is_shared = entries.some(({ weight }) => weight !== undefined);
  return entries.map(({ upstream, order, weight = 1 }, index) => ({
    upstream,
    order: order ?? (is_shared ? 1 : index + 1),
    weight,
  }));
}

function shapeRule({ upstream, upstreams, ...rule }: FileRule, index: number): RoutingRuleConfig {
  const name = rule.name ?? `routing.rules[${index}]`;
  return { ...rule, name, upstreams: shapeUpstreams(upstream, upstreams) };
}

/** Without a section `models`, a name matches the model under each of its names, such as dated aliases. */
function withAllNames<T extends { readonly models?: readonly string[] }>(entry: T): T {
  return entry.models === undefined ? entry : { ...entry, models: [...new Set(entry.models.flatMap(namesMeant))] };
}

/** The inputs of a configuration besides the validated values. `root`: gateway.yaml without defaults. */
interface ConfigSource {
  readonly root: MapNode;
  readonly directory: string;
  readonly profiles: ReturnType<typeof loadProfiles>;
  readonly env: NodeJS.ProcessEnv;
}

/** The configuration that the gateway uses, from the validated values of gateway.yaml. */
export function shapeConfig(value: unknown, source: ConfigSource): GatewayConfig {
  const { root, directory, profiles } = source;
  // Named rules are expanded in the conditions already.
  const { rules: _, ...raw } = value as GatewayFile;
  const { default_upstream: one, default_upstreams: several, ...of_routing } = raw.routing;
  const default_upstreams = shapeUpstreams(one, several);
  const routing = { ...of_routing, default_upstreams, rules: of_routing.rules.map(shapeRule) };
  const database: GatewayConfig['database'] = raw.database ?? {};
  const has_database = database.postgres !== undefined || database.embedded !== undefined;
  const from_lists = !isWritten(root, '/models') && {
    from_model_lists: true as const,
    routing: { ...routing, rules: routing.rules.map(withAllNames) },
    access: { ...raw.access, rules: raw.access.rules.map(withAllNames) },
    token_groups: raw.token_groups.map(withAllNames),
  };
  return deepFreeze({
    ...raw,
    routing,
    ...from_lists,
    server: { ...raw.server, profile: profiles.server, profile_name: profiles.server_name },
    database: has_database ? database : { ...database, embedded: { data_dir: resolve(directory, DEFAULT_DATA_DIR) } },
    upstreams: raw.upstreams.map((upstream, index) => shapeUpstream(upstream, profiles.upstreams[index], source)),
    models: raw.models.map((model, index) =>
      shapeModel(model, raw.upstreams, (setting) => isWritten(root, `/models/${index}/${setting.replace('.', '/')}`)),
    ),
  });
}
