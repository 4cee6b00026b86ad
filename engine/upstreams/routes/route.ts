import type {
  GatewayConfig,
  ModelConfig,
  RouteUpstream,
  RoutingRuleConfig,
  UpstreamConfig,
} from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { FactPath, FactValue } from '../../contract/facts.ts';
import type { Candidate } from '../../contract/forwarding.ts';
import { askedIn, protocolOf } from '../../contract/protocol.ts';
import type { CacheLifetime } from '../../contract/services.ts';
import { matchesGlob } from '../../kit/glob.ts';

/** Where a rule, or no rule, leads: its upstreams in the order of gateway.yaml. */
export interface Route {
  readonly key: string;
  readonly upstreams: ReadonlySet<string>;
  /** Whether its upstreams keep state that not all of them can read. */
  readonly has_boundaries: boolean;
  places(model: ModelConfig, protocol: string): readonly Place[];
}

/** An upstream of a route as requests of a protocol for a model see it. */
export interface Place {
  readonly upstream: UpstreamConfig;
  readonly upstream_model: string;
  readonly order: number;
  readonly weight: number;
  readonly seed: number;
  readonly pool: Pool;
  /** How much the model reads there, in tokens. */
  readonly context_window: number;
  readonly is_understood: boolean;
  /** Whether translation drops the lifetimes that such requests ask for, as they do in single parts of a Messages request. */
  readonly drops_lifetimes: boolean;
  /** The candidate for requests that ask for this cache lifetime, and a list of it where it is alone; the same objects each time. */
  as(asked: CacheLifetime): {
    readonly candidate: Candidate;
    readonly alone: readonly Candidate[];
    readonly fate: CacheFate;
  };
}

/** Upstreams of one order that share a prompt cache. */
export interface Pool {
  readonly name: string;
  readonly seed: number;
  /** Of all of them, whether they can serve or not: what leaves goes to the others of the pool, whose cache is warm. */
  readonly weight: number;
  readonly size: number;
}

/** What a rule may say about requests for a 1-hour lifetime. */
type RulePolicy = Pick<RoutingRuleConfig, 'on_unsupported_cache'>;

export interface RouteSurroundings {
  readonly upstream: (name: string) => UpstreamConfig;
  readonly translates: boolean;
}

/**
 * Makes a route of a list of upstreams, which has at least one.
 * @param rule what the rule that leads there says of its own
 */
export function createRoute(
  entries: readonly RouteUpstream[],
  surroundings: RouteSurroundings,
  rule: RulePolicy = {},
): Route {
  const upstreams = entries.map(({ upstream }) => surroundings.upstream(upstream));
  const known = new WeakMap<ModelConfig, Map<string, readonly Place[]>>();
  const pools = poolsOf(entries, upstreams);
  const makePlaces = (model: ModelConfig, protocol: string) =>
    entries.map((entry, index) =>
      createPlace(entry, pools[index]!, upstreams[index]!, { model, protocol, surroundings, rule }),
    );
  return {
    key: JSON.stringify([
      rule.on_unsupported_cache,
      entries.map(({ upstream, order, weight }) => [upstream, order, weight]),
    ]),
    upstreams: new Set(upstreams.map(({ name }) => name)),
    has_boundaries: new Set(upstreams.map(({ state_boundary }) => state_boundary)).size > 1,
    places(model, protocol) {
      const by_protocol = known.get(model) ?? new Map<string, readonly Place[]>();
      const found = by_protocol.get(protocol);
      if (found !== undefined) return found;
      const places = makePlaces(model, protocol);
      known.set(model, by_protocol.set(protocol, places));
      return places;
    },
  };
}

/** Whether any route of a configuration has several upstreams, so that it matters which of them has a session. */
export function sharesSessions({ routing }: GatewayConfig): boolean {
  return [routing.default_upstreams, ...routing.rules.map(({ upstreams }) => upstreams)].some(
    ({ length }) => length > 1,
  );
}

function poolsOf(entries: readonly RouteUpstream[], upstreams: readonly UpstreamConfig[]): readonly Pool[] {
  return entries.map(({ order }, index) => {
    const name = upstreams[index]!.cache_pool;
    const members = entries.filter((other, at) => other.order === order && upstreams[at]!.cache_pool === name);
    const weight = members.reduce((sum, member) => sum + member.weight, 0);
    return { name, seed: hashOf(`pool ${name}`), weight, size: members.length };
  });
}

function createPlace(
  { order, weight }: RouteUpstream,
  pool: Pool,
  upstream: UpstreamConfig,
  how: {
    readonly model: ModelConfig;
    readonly protocol: string;
    readonly surroundings: RouteSurroundings;
    readonly rule: RulePolicy;
  },
): Place {
  const { model, protocol, surroundings, rule } = how;
  const { name, supports, protocols } = upstream;
  const spoken = protocolOf(protocol);
  const counts = protocol !== 'count_tokens' || supports.count_tokens;
  const speaks = spoken === undefined || protocols.includes(spoken) || surroundings.translates;
  const upstream_model = model.upstream_ids[name] ?? model.id;
  const known: Partial<Record<CacheLifetime, ReturnType<Place['as']>>> = {};
  const keeps_hour = supports.prompt_cache_1h && model.supports.prompt_cache_1h;
  const make = (asked: CacheLifetime): ReturnType<Place['as']> => {
    const { fate, facts } = cacheChoice(asked, keeps_hour, upstream, rule);
    const candidate: Candidate = {
      upstream,
      upstream_model,
      facts: { ...upstreamFacts(protocol, model, upstream), ...facts },
    };
    return { candidate, alone: [{ ...candidate, is_alone: true }], fate };
  };
  return {
    upstream,
    upstream_model,
    order,
    weight,
    seed: hashOf(`upstream ${name}`),
    pool,
    context_window: Math.min(model.context_window, model.context_windows?.[name] ?? Infinity),
    is_understood: counts && speaks,
    drops_lifetimes: spoken === 'messages' && !protocols.includes('messages'),
    as: (asked) => (known[asked] ??= make(asked)),
  };
}

type Written<P extends FactPath> = { readonly [path in P]?: FactValue<path> };

/** Facts that tell what the requested model is and can do. */
export const MODEL_FACTS = [
  'model.family',
  'model.context_window',
  'model.max_output_tokens',
  'model.supports.tools',
  'model.supports.images',
  'model.supports.thinking',
  'model.supports.prompt_cache_1h',
] as const;

/** Facts that tell where a request goes, apart from the rule that decided it and the cost. */
export const UPSTREAM_FACTS = [
  'route.upstream',
  'route.protocol',
  'route.upstream_model',
  'route.region',
  'route.supports.count_tokens',
  'route.supports.prompt_cache_1h',
] as const;

type ModelFacts = Written<(typeof MODEL_FACTS)[number]>;

const facts_of_models = new WeakMap<ModelConfig, ModelFacts>();

/** What a model is and can do, for routing rules. */
export function modelFacts(model: ModelConfig): ModelFacts {
  let facts = facts_of_models.get(model);
  if (facts === undefined) {
    facts = describeModel(model);
    facts_of_models.set(model, facts);
  }
  return facts;
}

function describeModel({ family, context_window, max_output_tokens, supports }: ModelConfig): ModelFacts {
  return {
    ...(family !== undefined && { 'model.family': family }),
    'model.context_window': context_window,
    'model.max_output_tokens': max_output_tokens,
    'model.supports.tools': supports.tools,
    'model.supports.images': supports.images,
    'model.supports.thinking': supports.thinking !== 'none',
    'model.supports.prompt_cache_1h': supports.prompt_cache_1h,
  };
}

/** Where a request of a protocol for a model goes when an upstream was chosen; what is not known there is `undefined`. */
export function upstreamFacts(
  protocol: string,
  model: ModelConfig,
  upstream: UpstreamConfig,
): { readonly [path in (typeof UPSTREAM_FACTS)[number]]: FactValue<path> | undefined } {
  const { name, region, protocols, supports } = upstream;
  return {
    'route.upstream': name,
    'route.protocol': askedIn(protocol, protocols),
    'route.upstream_model': model.upstream_ids[name] ?? model.id,
    'route.region': region,
    'route.supports.count_tokens': supports.count_tokens,
    'route.supports.prompt_cache_1h': supports.prompt_cache_1h && model.supports.prompt_cache_1h,
  };
}

/** Facts about the prompt cache that change with the upstream. */
export const CACHE_FACTS = ['cache.effective_ttl', 'cache.downgraded'] as const;

/** What becomes of a request for a 1-hour lifetime; `as_asked` where its upstream can do what it asks for. */
export type CacheFate = 'as_asked' | UpstreamConfig['on_unsupported_cache'];

/** What becomes of the prompt cache of a request at one upstream. */
export interface CacheChoice {
  readonly fate: CacheFate;
  readonly facts: { readonly [path in (typeof CACHE_FACTS)[number]]: FactValue<path & FactPath> };
}

/** What may happen, made once: nothing of it depends on the request but what it asks for. */
const CHOICES: ReadonlyMap<string, CacheChoice> = new Map(
  (['as_asked', 'downgrade', 'refuse', 'pass'] as const).flatMap((fate) =>
    (['none', '5m', '1h'] as const).map((asked) => [`${fate} ${asked}`, choiceOf(fate, asked)] as const),
  ),
);

function choiceOf(fate: CacheFate, asked: CacheLifetime): CacheChoice {
  const downgraded = fate === 'downgrade';
  return Object.freeze({
    fate,
    facts: Object.freeze({
      'cache.effective_ttl': downgraded ? '5m' : asked,
      'cache.downgraded': downgraded,
    }),
  });
}

/**
 * What becomes of a request that asks for a cache lifetime, at an upstream.
 * @param asked the fact `cache.requested_ttl`; none where it is absent
 * @param keeps_hour whether upstream and model keep prompts for an hour (`route.supports.prompt_cache_1h`)
 * @param rule the rule that chose the upstream; what it says goes before what the upstream says
 */
export function cacheChoice(
  asked: string | undefined,
  keeps_hour: boolean,
  upstream: Pick<UpstreamConfig, 'on_unsupported_cache'>,
  rule?: Pick<RoutingRuleConfig, 'on_unsupported_cache'>,
): CacheChoice {
  const fits = asked !== '1h' || keeps_hour;
  const fate = fits ? 'as_asked' : (rule?.on_unsupported_cache ?? upstream.on_unsupported_cache);
  return CHOICES.get(`${fate} ${asked ?? 'none'}`)!;
}

/** The refusal of a request for a 1-hour lifetime that none of the upstreams it could go to supports. */
export function refuseLifetime(upstreams: readonly string[]): StageError {
  const names = upstreams.map((name) => `"${name}"`).join(' and ');
  const what = upstreams.length === 1 ? `The upstream ${names} does` : `The upstreams ${names} do`;
  const message = `${what} not keep prompts of this model for an hour, and the gateway is told to refuse such requests (on_unsupported_cache). Ask for five minutes: cache_control with ttl 5m, or without ttl; with the client of the Messages API set FORCE_PROMPT_CACHING_5M=1.`;
  return new StageError('invalid_request', message, {
    details: { param: 'cache_control.ttl', ...(upstreams.length === 1 && { upstream: upstreams[0]! }) },
  });
}

/**
 * Weighted rendezvous hashing: every process ranks the same keys the same way, and where one entry leaves, only its own keys
 * move, to all others by their weights.
 * @module
 */

/** Hashes a text to 32 bits: FNV-1a, mixed so that texts that differ in one character have nothing in common. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The last steps of MurmurHash3: every bit of the input decides over every bit of the result. */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/**
 * How much an entry wants a key; the highest of all entries has it. Over many keys each entry has the share of its weight.
 * @param key hash of the key
 * @param seed hash of the entry's name
 */
export function scoreOf(key: number, seed: number, weight: number): number {
  // Never 0 and never 1, so that the logarithm is a number below 0.
  const uniform = (mix((key ^ Math.imul(seed, 0x9e3779b1)) >>> 0) + 0.5) / 2 ** 32;
  return -weight / Math.log(uniform);
}

/** The upstreams that requests for a model may be routed to. */
export function reaches(
  { id }: Pick<ModelConfig, 'id'>,
  { rules, default_upstreams }: GatewayConfig['routing'],
): ReadonlySet<string> {
  const upstreams = new Set<string>();
  for (const { upstreams: candidates, models, mode, name: _, on_unsupported_cache: _policy, ...conditions } of rules) {
    if (mode === 'shadow' || !(models?.some((glob) => matchesGlob(glob, id)) ?? true)) continue;
    for (const { upstream } of candidates) upstreams.add(upstream);
    if (Object.values(conditions).every((condition) => condition === undefined)) return upstreams;
  }
  for (const { upstream } of default_upstreams) upstreams.add(upstream);
  return upstreams;
}
