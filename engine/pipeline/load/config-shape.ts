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
import { checksSignatures, type LoadedProfiles } from './profile.ts';

const DEFAULT_DATA_DIR = '.appscli/postgres';

/** The cache pool of an upstream without `cache_pool`. */
export function ownPool({ name }: { readonly name: string }): string {
  return `upstream ${name}`;
}

/**
 * The state boundary of an upstream without `state_boundary`: its address and credential. A credential file below `directory`
 * counts by its relative path, so that replicas in other directories share the boundary.
 */
export function ownBoundary(
  upstream: Pick<GatewayFile['upstreams'][number], 'base_url' | 'api_key_env' | 'auth_token_env'>,
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
  upstream: GatewayFile['upstreams'][number],
  {
    profile,
    env,
    directory,
  }: { readonly profile: Profile | undefined; readonly env: NodeJS.ProcessEnv; readonly directory: string },
): UpstreamConfig {
  const type = UPSTREAM_TYPES[upstream.type];
  const { supports, protocols = type.protocols } = upstream;
  const count_tokens = type.counts_tokens && supports.count_tokens;
  const { unproven_reasoning = false } = supports;
  const unsigned_reasoning = supports.unproven_reasoning ?? !checksSignatures(upstream.base_url);
  return {
    ...upstream,
    ...shapeProxy(upstream, env),
    profile,
    protocols,
    enforces: enforcedBy(upstream),
    cache_pool: upstream.cache_pool ?? ownPool(upstream),
    state_boundary: upstream.state_boundary ?? ownBoundary(upstream, directory),
    supports: { ...supports, count_tokens, unproven_reasoning, unsigned_reasoning },
  };
}

/** The proxy of gateway.yaml, else that of the environment (`HTTPS_PROXY`). */
function shapeProxy(
  { base_url, proxy }: GatewayFile['upstreams'][number],
  env: NodeJS.ProcessEnv,
): Pick<UpstreamConfig, 'proxy'> {
  if (proxy !== undefined) return { proxy };
  const variable = decidingVariable(new URL(base_url), env);
  return variable?.is_proxy ? { proxy: { url_env: variable.name } } : {};
}

/** `max_tokens_field` implies that the upstream enforces that field. */
function enforcedBy({
  enforces,
  max_tokens_field: field,
}: GatewayFile['upstreams'][number]): UpstreamConfig['enforces'] {
  return field === undefined || enforces.includes(field) ? enforces : [...enforces, field];
}

type FileRoute = GatewayFile['routing']['rules'][number]['upstreams'];

/** Default orders: the position in a list of names, and 1 for all entries of a list with weights. */
function shapeUpstreams(one: string | undefined, several: FileRoute): readonly RouteUpstream[] {
  if (one !== undefined) return [{ upstream: one, order: 1, weight: 1 }];
  const entries = several!.map((entry) => (typeof entry === 'string' ? { upstream: entry } : entry));
  const is_shared = entries.some(({ weight }) => weight !== undefined);
  return entries.map(({ upstream, order, weight = 1 }, index) => ({
    upstream,
    order: order ?? (is_shared ? 1 : index + 1),
    weight,
  }));
}

function shapeRule(
  { upstream, upstreams, ...rule }: GatewayFile['routing']['rules'][number],
  index: number,
): RoutingRuleConfig {
  const name = rule.name ?? `routing.rules[${index}]`;
  return { ...rule, name, upstreams: shapeUpstreams(upstream, upstreams) };
}

/** Without a section `models`, a name matches the model under each of its names, such as dated aliases. */
function withAllNames<T extends { readonly models?: readonly string[] }>(entry: T): T {
  return entry.models === undefined ? entry : { ...entry, models: [...new Set(entry.models.flatMap(namesMeant))] };
}

function shapeRouting({
  default_upstream,
  default_upstreams,
  ...routing
}: GatewayFile['routing']): GatewayConfig['routing'] {
  return {
    ...routing,
    default_upstreams: shapeUpstreams(default_upstream, default_upstreams),
    rules: routing.rules.map(shapeRule),
  };
}

/** Defaults to the embedded server. */
function shapeDatabase(database: GatewayConfig['database'] = {}, directory: string): GatewayConfig['database'] {
  if (database.postgres !== undefined || database.embedded !== undefined) return database;
  return { ...database, embedded: { data_dir: resolve(directory, DEFAULT_DATA_DIR) } };
}

/** The inputs of a configuration besides the validated values. */
export interface ConfigSource {
  /** gateway.yaml without defaults. */
  readonly root: MapNode;
  /** The directory of gateway.yaml. */
  readonly directory: string;
  readonly profiles: LoadedProfiles;
  readonly env: NodeJS.ProcessEnv;
}

/** The configuration that the gateway uses, from the validated values of gateway.yaml. */
export function shapeConfig(value: unknown, { root, directory, profiles, env }: ConfigSource): GatewayConfig {
  // Named rules are expanded in the conditions already.
  const { rules: _, ...raw } = value as GatewayFile;
  const routing = shapeRouting(raw.routing);
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
    database: shapeDatabase(raw.database, directory),
    upstreams: raw.upstreams.map((upstream, index) =>
      shapeUpstream(upstream, { profile: profiles.upstreams[index], env, directory }),
    ),
    models: raw.models.map((model, index) =>
      shapeModel(model, raw.upstreams, (setting) => isWritten(root, `/models/${index}/${setting.replace('.', '/')}`)),
    ),
  });
}
