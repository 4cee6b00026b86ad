import type {
  GatewayConfig,
  ModelConfig,
  RouteUpstream,
  RoutingRuleConfig,
  UpstreamConfig,
} from '../../contract/config.ts';
import type { Candidate } from '../../contract/forwarding.ts';
import { protocolOf } from '../../contract/protocol.ts';
import type { CacheLifetime } from '../../contract/services.ts';
import { type CacheFate, cacheChoice } from '../cache-lifetime.ts';
import { upstreamFacts } from '../route-facts.ts';
import { hashOf } from './rendezvous.ts';

/** Where a rule, or no rule, leads: its upstreams in the order of gateway.yaml. */
export interface Route {
  /** Equal for routes that lead to the same. */
  readonly key: string;
  readonly upstreams: ReadonlySet<string>;
  /** Whether its upstreams keep state that not all of them can read. */
  readonly has_boundaries: boolean;
  /** Its upstreams for requests of a protocol for a model. */
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
  /** Whether it understands such requests, as they are or translated. */
  readonly is_understood: boolean;
  /** Whether translation drops the lifetimes that such requests ask for, as they do in single parts of a Messages request. */
  readonly drops_lifetimes: boolean;
  /** The candidate for requests that ask for this cache lifetime, and a list of it where it is alone; the same objects each time. */
  as(asked: CacheLifetime): {
    readonly candidate: Candidate;
    readonly alone: readonly Candidate[];
    /** What becomes of the lifetime there. */
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

/** What is the same for all routes of a pipeline. */
export interface RouteSurroundings {
  readonly upstream: (name: string) => UpstreamConfig;
  /** Whether requests are translated where an upstream speaks another protocol. */
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
