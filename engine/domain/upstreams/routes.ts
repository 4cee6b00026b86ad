/** Routing: the upstreams of a route that can serve a request, in which order, and session affinity. @module */
import type {
  GatewayConfig,
  ModelConfig,
  RouteUpstream,
  RoutingRuleConfig,
  UpstreamConfig,
} from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import type { FactPath, FactValue } from '../../base/contract/facts.ts';
import type { Candidate, Closed, DropReason, Seen, UpstreamStates } from '../../base/contract/forwarding.ts';
import { negotiatedProtocol, protocolOf } from '../../base/contract/protocol.ts';
import type { CacheLifetime } from '../../base/contract/services.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { definitionNamed, definitionOf, sessionKey } from '../protocols/index.ts';

/** The upstreams of a routing rule, or the default ones, in the order of gateway.yaml. */
export interface Route {
  readonly key: string;
  readonly upstreams: ReadonlySet<string>;
  readonly has_boundaries: boolean;
  places(model: ModelConfig, protocol: string): readonly Place[];
}

/** An upstream of a route, for requests of one protocol for one model. */
export interface Place {
  readonly upstream: UpstreamConfig;
  readonly upstream_model: string;
  readonly order: number;
  readonly weight: number;
  readonly seed: number;
  readonly pool: Pool;
  readonly context_window: number;
  readonly is_understood: boolean;
  readonly drops_lifetimes: boolean;
  /** The candidate for requests with this cache lifetime, and as a list of one; the same objects each time. */
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
  /** Sum over all members, including unavailable ones: other members of the pool serve their requests with a warm cache. */
  readonly weight: number;
  readonly size: number;
}

type RulePolicy = Pick<RoutingRuleConfig, 'on_unsupported_cache'>;

export interface RouteSurroundings {
  readonly upstream: (name: string) => UpstreamConfig;
  readonly translates: boolean;
}

/** Makes a route of a list of at least one upstream, with the settings of its routing rule. */
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

/** Whether any route of a configuration has several upstreams, so that session affinity matters. */
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
  const facts = upstreamFacts(protocol, model, upstream);
  const upstream_model = facts['route.upstream_model']!;
  const known: Partial<Record<CacheLifetime, ReturnType<Place['as']>>> = {};
  const make = (asked: CacheLifetime): ReturnType<Place['as']> => {
    const fate = cacheFate(asked, facts['route.supports.prompt_cache_1h']!, upstream, rule);
    const downgraded = fate === 'downgrade';
    const cache = { 'cache.effective_ttl': downgraded ? '5m' : asked, 'cache.downgraded': downgraded };
    const candidate: Candidate = { upstream, upstream_model, facts: { ...facts, ...cache } };
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
    drops_lifetimes:
      definitionNamed(spoken)?.kept.cache_lifetimes === true &&
      !protocols.some((protocol) => definitionOf(protocol).kept.cache_lifetimes),
    as: (asked) => (known[asked] ??= make(asked)),
  };
}

type ReadFacts = { readonly [path in FactPath]?: (model: ModelConfig) => FactValue<path> | undefined };

const OF_MODEL = {
  'model.family': ({ family }) => family,
  'model.context_window': ({ context_window }) => context_window,
  'model.max_output_tokens': ({ max_output_tokens }) => max_output_tokens,
  'model.supports.tools': ({ supports }) => supports.tools,
  'model.supports.images': ({ supports }) => supports.images,
  'model.supports.thinking': ({ supports }) => supports.thinking !== 'none',
  'model.supports.prompt_cache_1h': ({ supports }) => supports.prompt_cache_1h,
} as const satisfies ReadFacts;

type ModelFacts = { readonly [path in keyof typeof OF_MODEL]?: FactValue<path> };

/** Facts about the requested model. */
export const MODEL_FACTS = Object.keys(OF_MODEL) as readonly (keyof ModelFacts)[];

const facts_of_models = new WeakMap<ModelConfig, ModelFacts>();

/** Facts about a model, for routing rules. */
export function modelFacts(model: ModelConfig): ModelFacts {
  let facts = facts_of_models.get(model);
  if (facts === undefined) {
    const all = MODEL_FACTS.map((path) => [path, OF_MODEL[path](model)] as const);
    facts = Object.fromEntries(all.filter(([, value]) => value !== undefined)) as ModelFacts;
    facts_of_models.set(model, facts);
  }
  return facts;
}

/** Facts about the upstream of a request. */
export const UPSTREAM_FACTS = [
  'route.upstream',
  'route.protocol',
  'route.upstream_model',
  'route.region',
  'route.supports.count_tokens',
  'route.supports.prompt_cache_1h',
] as const;

/** Facts about the chosen upstream; `undefined` where unknown. */
export function upstreamFacts(
  protocol: string,
  model: ModelConfig,
  { name, region, protocols, supports }: UpstreamConfig,
): { readonly [path in (typeof UPSTREAM_FACTS)[number]]: FactValue<path> | undefined } {
  return {
    'route.upstream': name,
    'route.protocol': negotiatedProtocol(protocol, protocols),
    'route.upstream_model': model.upstream_ids[name] ?? model.id,
    'route.region': region,
    'route.supports.count_tokens': supports.count_tokens,
    'route.supports.prompt_cache_1h': supports.prompt_cache_1h && model.supports.prompt_cache_1h,
  };
}

/** Facts about the prompt cache that depend on the upstream. */
export const CACHE_FACTS = ['cache.effective_ttl', 'cache.downgraded'] as const;

type CacheFate = 'as_asked' | UpstreamConfig['on_unsupported_cache'];

/** How an upstream handles a cache lifetime (`cache.requested_ttl`); settings of the rule override the upstream's. */
export function cacheFate(
  asked: string | undefined,
  keeps_hour: boolean,
  upstream: Pick<UpstreamConfig, 'on_unsupported_cache'>,
  rule?: RulePolicy,
): CacheFate {
  if (asked !== '1h' || keeps_hour) return 'as_asked';
  return rule?.on_unsupported_cache ?? upstream.on_unsupported_cache;
}

function refuseLifetime(upstreams: readonly string[]): StageError {
  const names = upstreams.map((name) => `"${name}"`).join(' and ');
  const what = upstreams.length === 1 ? `The upstream ${names} does` : `The upstreams ${names} do`;
  const message = `${what} not cache prompts of this model for an hour, and the gateway rejects such requests (on_unsupported_cache). Request five minutes: cache_control with ttl 5m, or without ttl; with the client of the Messages API set FORCE_PROMPT_CACHING_5M=1.`;
  return new StageError('invalid_request', message, {
    details: { param: 'cache_control.ttl', ...(upstreams.length === 1 && { upstream: upstreams[0]! }) },
  });
}

// Weighted rendezvous hashing: every process ranks keys the same way. When an entry leaves, only its keys move, spread over
// the other entries by weight.

/** Hashes a text to 32 bits: FNV-1a with the finalizer of MurmurHash3, so that similar texts have unrelated hashes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** The finalizer of MurmurHash3: every bit of the input affects every bit of the result. */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Score of an entry for a key in rendezvous hashing; the highest wins. Over many keys, shares are those of the weights. */
function scoreOf(key: number, seed: number, weight: number): number {
  // Strictly between 0 and 1, so that the logarithm is negative and finite.
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

export interface Needs extends Session {
  /** Estimated tokens, including the output if it is bounded; 0: unknown. */
  readonly tokens: number;
  readonly cache_ttl: CacheLifetime;
  readonly by?: Seen | undefined;
  /** Whether the request contains state that only its issuing upstream can read. */
  readonly holds_state: boolean;
  /** Checks the privileged fields for an upstream, and returns the models that they name there. Absent without any. */
  readonly decide?: ((place: Place) => readonly string[]) | undefined;
}

export interface Choosing {
  readonly states: UpstreamStates;
  readonly now: () => number;
  readonly random: () => number;
}

export interface Choice {
  readonly candidates: readonly Candidate[];
  /** Number of spare candidates at the end, which are tried only after all others failed. */
  readonly spare: number;
  /** Dropped upstreams of the route, each as `name: reason`; `undefined` without any. */
  readonly dropped: readonly string[] | undefined;
}

export interface Dropped {
  readonly place: Place;
  readonly reason: DropReason;
}

/** Reasons that make an upstream temporarily unavailable. */
const FOR_A_WHILE: ReadonlySet<DropReason> = new Set(['open', 'limited', 'credential', 'model_missing']);

/** The upstreams of a route that can serve a request. Raises upstream_unavailable, or the error of `needs.decide`. */
export function chooseCandidates(route: Route, places: readonly Place[], needs: Needs, choosing: Choosing): Choice {
  const [first] = places as [Place];
  if (places.length === 1) return { candidates: onlyCandidate(first, needs, choosing), spare: 0, dropped: undefined };
  const dropped: Dropped[] = [];
  const preferred = placeNamed(places, affinityOf(choosing.states, needs));
  const ranking: Ranking = { key: needs.session_key, preferred, ...choosing };
  const is_bound = route.has_boundaries && needs.holds_state;
  const { able, decided } = is_bound
    ? dropForeign(
        places,
        needs,
        { ...ranking, preferred: placeNamed(places, ownerOf(choosing.states, needs)) ?? preferred },
        dropped,
      )
    : dropUnable(places, needs, dropped);
  let left = dropRefusing(able, needs, dropped);
  left = dropClosed(left, { ...choosing, is_bound, by: needs.by }, dropped);
  const { keeping, spare } = splitByCache(left, needs, dropped);
  const candidates = rankPlaces(keeping, ranking).map((place) => candidateOf(place, needs, decided));
  if (left.length === 1 && !dropped.some(({ reason }) => FOR_A_WHILE.has(reason))) {
    candidates[0] = { ...candidates[0]!, is_alone: true };
  }
  if (spare.length > 0) {
    const others = namesOf(dropped.filter(({ place }) => !spare.includes(place)));
    const later = rankPlaces(spare, ranking).map((place) => candidateOf(place, needs, decided));
    candidates.push(...later.map((one) => ({ ...one, facts: { ...one.facts, 'route.dropped': others } })));
  }
  return { candidates, spare: spare.length, dropped: namesOf(dropped) };
}

function namesOf(dropped: readonly Dropped[]): readonly string[] | undefined {
  return dropped.length === 0 ? undefined : dropped.map(({ place, reason }) => `${place.upstream.name}: ${reason}`);
}

function onlyCandidate(place: Place, needs: Needs, { states, now }: Choosing): readonly Candidate[] {
  const { alone, fate } = place.as(needs.cache_ttl);
  const others = needs.decide?.(place) ?? [];
  if (fate === 'refuse') throw refuseLifetime([place.upstream.name]);
  const closed = states.closed(place.upstream.name, place.upstream_model, needs.by);
  if (closed !== undefined && mustNotBeTried(closed, true)) throw unavailable(place, closed, now());
  return others.length === 0 ? alone : [withModels(alone[0]!, others)];
}

function placeNamed(places: readonly Place[], name: string | undefined): Place | undefined {
  return name === undefined ? undefined : places.find(({ upstream }) => upstream.name === name);
}

function candidateOf(
  place: Place,
  { cache_ttl }: Needs,
  decided: ReadonlyMap<Place, readonly string[]> | undefined,
): Candidate {
  const { candidate } = place.as(cache_ttl);
  return decided === undefined ? candidate : withModels(candidate, decided.get(place)!);
}

function withModels(candidate: Candidate, others: readonly string[]): Candidate {
  const models = others.length === 0 ? undefined : others;
  return { ...candidate, facts: { ...candidate.facts, 'request.other_models': models } };
}

/** Keeps the places that can read the state in a request: those of the upstream that made it, else of the session. */
function dropForeign(places: readonly Place[], needs: Needs, ranking: Ranking, dropped: Dropped[]): Able {
  const { preferred } = ranking;
  if (preferred !== undefined) return dropUnable(near(preferred, places, dropped), needs, dropped);
  const { able, decided } = dropUnable(places, needs, dropped);
  // Affinity must not depend on availability or load.
  const [owner] = rankPlaces(able, { ...ranking, states: { share: () => 1, active: () => 0 } });
  return { able: near(owner!, able, dropped), decided };
}

function near({ upstream: { state_boundary } }: Place, places: readonly Place[], dropped: Dropped[]): readonly Place[] {
  return leave(places, ({ upstream }) => upstream.state_boundary === state_boundary, 'state_boundary', dropped);
}

/** Drops places that take no requests now; where all are closed, keeps the one whose time ends first. */
function dropClosed(
  places: readonly Place[],
  { states, now, is_bound, by }: Choosing & { readonly is_bound: boolean; readonly by: Seen | undefined },
  dropped: Dropped[],
): readonly Place[] {
  let closed: Map<Place, Closed> | undefined;
  for (const place of places) {
    const found = states.closed(place.upstream.name, place.upstream_model, by);
    if (found === undefined) continue;
    closed ??= new Map();
    closed.set(place, found);
  }
  if (closed === undefined) return places;
  const left =
    closed.size < places.length ? places.filter((place) => !closed.has(place)) : [lastResort(closed, now(), is_bound)];
  for (const [place, { because }] of closed) if (!left.includes(place)) dropped.push({ place, reason: because });
  return left;
}

function lastResort(closed: ReadonlyMap<Place, Closed>, now: number, is_bound: boolean): Place {
  const untilOf = ([, { until = Number.POSITIVE_INFINITY }]: readonly [Place, Closed]) => until;
  const soonest = [...closed].toSorted((a, b) => untilOf(a) - untilOf(b));
  const willing = soonest.filter(([, { because }]) => because !== 'drained');
  const [place, found] = willing[0] ?? soonest[0]!;
  if (willing.length === 0 || (willing.length === 1 && mustNotBeTried(found, true)))
    throw unavailable(place, found, now, is_bound);
  return place;
}

export interface Able {
  readonly able: readonly Place[];
  /** Further models per place; `undefined` where the request names none. */
  readonly decided: ReadonlyMap<Place, readonly string[]> | undefined;
}

/** Drops places that can never serve such a request; of all of them, keeps the first, or raises its error. */
function dropUnable(places: readonly Place[], { decide, tokens }: Needs, dropped: Dropped[]): Able {
  if (decide === undefined && areAlike(places)) return { able: places, decided: undefined };
  const decided = decide && new Map<Place, readonly string[]>();
  const refused = decide && decideAll(places, decide, decided!);
  const allowed = refused === undefined ? places : leave(places, (place) => !refused.has(place), 'privileged', dropped);
  if (allowed.length === 0) throw refused!.get(places[0]!)!;
  const understood = leave(allowed, (place) => place.is_understood, 'protocol', dropped, allowed[0]);
  // Token counts are estimates, so the largest window always qualifies.
  const window = Math.min(tokens, Math.max(...understood.map((place) => place.context_window)));
  const able = leave(understood, (place) => place.context_window >= window, 'context_window', dropped);
  return { able, decided };
}

function areAlike(places: readonly Place[]): boolean {
  const { context_window } = places[0]!;
  return places.every((place) => place.is_understood && place.context_window === context_window);
}

/** Keeps places that pass a test, or `otherwise` if none does. */
function leave(
  places: readonly Place[],
  passes: (place: Place) => boolean,
  reason: DropReason,
  dropped: Dropped[],
  otherwise?: Place,
): readonly Place[] {
  if (places.every(passes)) return places;
  const passing = places.filter(passes);
  const left = passing.length === 0 && otherwise !== undefined ? [otherwise] : passing;
  for (const place of places) if (!left.includes(place)) dropped.push({ place, reason });
  return left;
}

/** Collects, per place, the other models the request may use there. @returns the errors of places that reject it */
function decideAll(
  places: readonly Place[],
  decide: NonNullable<Needs['decide']>,
  decided: Map<Place, readonly string[]>,
): ReadonlyMap<Place, StageError> {
  const refused = new Map<Place, StageError>();
  for (const place of places) {
    try {
      decided.set(place, decide(place));
    } catch (error) {
      if (!(error instanceof StageError)) throw error;
      refused.set(place, error);
    }
  }
  return refused;
}

/** Drops places that reject a 1-hour lifetime. Raises invalid_request if all do. */
function dropRefusing(places: readonly Place[], { cache_ttl }: Needs, dropped: Dropped[]): readonly Place[] {
  if (cache_ttl !== '1h') return places;
  const left = leave(places, (place) => place.as(cache_ttl).fate !== 'refuse', 'cache', dropped);
  if (left.length === 0) throw refuseLifetime(places.map(({ upstream }) => upstream.name));
  return left;
}

/** Moves places without a 1-hour cache to the end, where the request wants one and another place has it. */
function splitByCache(
  places: readonly Place[],
  { cache_ttl }: Needs,
  dropped: Dropped[],
): { readonly keeping: readonly Place[]; readonly spare: readonly Place[] } {
  const keeps = (place: Place) => place.as(cache_ttl).fate === 'as_asked' && !place.drops_lifetimes;
  const keeping = cache_ttl === '1h' ? places.filter(keeps) : places;
  if (keeping.length === 0 || keeping.length === places.length) return { keeping: places, spare: [] };
  const spare = places.filter((place) => !keeping.includes(place));
  for (const place of spare) dropped.push({ place, reason: 'cache' });
  return { keeping, spare };
}

export interface Ranking {
  readonly key: string | undefined;
  /** The upstream with the prompt cache of the session, even if it cannot serve now. */
  readonly preferred: Place | undefined;
  readonly states: Pick<UpstreamStates, 'active' | 'share'>;
  readonly random: () => number;
}

/**
 * Ranks places: the session's upstream first, then those that share its cache, then by `order`, within one by weighted rendezvous
 * hashing, cache pools first. Without a session: power of two random choices.
 */
export function rankPlaces(places: readonly Place[], ranking: Ranking): Place[] {
  const { key, preferred, states } = ranking;
  const hash = key === undefined ? undefined : hashOf(key);
  const sorted: Place[] = [];
  const scores: number[] = [];
  // Insertion sort: few entries, and no allocation per request.
  for (const place of places) {
    const score = hash === undefined ? chanceOf(place, ranking) : poolScore(place, hash, states);
    let at = sorted.length;
    while (at > 0 && isBefore(place, score, sorted[at - 1]!, scores[at - 1]!, hash, ranking)) {
      sorted[at] = sorted[at - 1]!;
      scores[at] = scores[at - 1]!;
      at--;
    }
    sorted[at] = place;
    scores[at] = score;
  }
  if (hash === undefined && preferred === undefined && sorted.length > 1) lessBusyFirst(sorted, states);
  return sorted;
}

function weightOf({ upstream, upstream_model, weight }: Place, { share }: Ranking['states']): number {
  return weight * share(upstream.name, upstream_model);
}

/** A random score, so that requests without a session spread. */
function chanceOf(place: Place, { random, states }: Ranking): number {
  return scoreOf((random() * 2 ** 32) >>> 0, place.seed, weightOf(place, states));
}

function poolScore(place: Place, hash: number, states: Ranking['states']): number {
  const { pool } = place;
  return scoreOf(hash, pool.seed, pool.size === 1 ? weightOf(place, states) : pool.weight);
}

function isBefore(
  place: Place,
  score: number,
  other: Place,
  other_score: number,
  hash: number | undefined,
  { preferred, states }: Ranking,
): boolean {
  if (preferred !== undefined) {
    if (place === preferred || other === preferred) return place === preferred;
    const [is_close, other_is_close] = [
      place.pool.name === preferred.pool.name,
      other.pool.name === preferred.pool.name,
    ];
    if (is_close !== other_is_close) return is_close;
  }
  if (place.order !== other.order) return place.order < other.order;
  if (place.weight > 0 !== other.weight > 0) return place.weight > 0;
  if (hash === undefined || place.pool.name !== other.pool.name)
    // The name breaks ties, so that pools do not interleave.
    return score !== other_score ? score > other_score : place.pool.name < other.pool.name;
  return scoreOf(hash, place.seed, weightOf(place, states)) > scoreOf(hash, other.seed, weightOf(other, states));
}

/** Power of two choices by requests in flight per weight. */
function lessBusyFirst(sorted: Place[], { active }: Ranking['states']): void {
  const [first, second] = sorted as [Place, Place];
  if (first.order !== second.order || second.weight === 0) return;
  const load = ({ upstream, weight }: Place) => active(upstream.name) / weight;
  if (load(second) < load(first)) sorted.splice(0, 2, second, first);
}

/** Longest `retry-after`: with a longer one the Messages client gives up at once. */
const RETRY_SECONDS_MAX = 60;
/** `retry-after` for a drained upstream, whose end is unknown. */
const RETRY_SECONDS_DRAINED = 10;

const ALONE = { caller: 'your requests', request: 'this request' } as const;

/** Whether not even the last upstream is tried; one that is limited responds at once, with a better error. */
export function mustNotBeTried({ because }: Closed, is_alone: boolean): boolean {
  return because === 'drained' || (because === 'open' && is_alone);
}

/** The error where no upstream of a route takes requests; `retry-after` is the time of the next trial. */
export function unavailable(
  { upstream: { name } }: Pick<Candidate, 'upstream'>,
  closed: Closed,
  now: number,
  holds_state = false,
): StageError {
  const { because, until, last, alone } = closed;
  const seconds = Math.min(RETRY_SECONDS_MAX, Math.max(1, Math.ceil(((until ?? Infinity) - now) / 1000)));
  const wait = because === 'drained' && until === undefined ? RETRY_SECONDS_DRAINED : seconds;
  const whose = alone === undefined ? 'it failed too often' : `it failed too often on ${ALONE[alone]}`;
  const failed = last === undefined ? whose : `${whose} (${last})`;
  const why = because === 'drained' ? 'an administrator has drained it' : failed;
  const no_other = holds_state
    ? 'only it can read the encrypted or stored state in this request'
    : 'the route has no other that could serve this request';
  return new StageError(
    'upstream_unavailable',
    `The upstream "${name}" is unavailable: ${why}, and ${no_other}. Try again in ${wait} s.`,
    {
      details: { upstream: name, because, ...(last !== undefined && { last }) },
      headers: { 'retry-after': String(wait) },
    },
  );
}

/** How long a session's state stays bound to its upstream: far longer than prompts are cached. */
const STATE_SECONDS = 24 * 60 * 60;
const HOUR_SECONDS = 60 * 60;
const SHORT_SECONDS = 5 * 60;

const RESPONSE_ID = /"id"\s*:\s*"(resp[\w-]{1,200})"/;
const RESPONSE_HEAD_CHARS = 1000;

/** The keys of session affinity. */
export interface Session {
  readonly session_key: string | undefined;
  /** Each model has its own prompt cache, and may have its own route. */
  readonly model: string;
  readonly continues: string | undefined;
}

interface Served extends Session {
  readonly upstream: string;
  readonly cache_ttl: string | undefined;
  /** Whether the upstreams of its route cannot read each other's state. */
  readonly has_boundaries: boolean;
}

/** Session affinity of requests: as long as prompts are cached, and longer for state. */
export function createSessionKeeper(states: Pick<UpstreamStates, 'affinity' | 'settle'>) {
  return {
    keep({ upstream, session_key, model, continues, cache_ttl, has_boundaries }: Served): void {
      if (session_key !== undefined)
        states.settle(affinityKey(session_key, model), upstream, cache_ttl === '1h' ? HOUR_SECONDS : SHORT_SECONDS);
      if (!has_boundaries) return;
      if (continues !== undefined) states.settle(continues, upstream, STATE_SECONDS);
      if (session_key === undefined) return;
      states.settle(stateKey(session_key, model), upstream, STATE_SECONDS);
      states.settle(stateKey(session_key), upstream, STATE_SECONDS);
    },
    /** Records which upstream stores a Responses response. @param answer its beginning */
    keepStored(answer: string, upstream: string): void {
      const id = RESPONSE_ID.exec(answer.slice(0, RESPONSE_HEAD_CHARS))?.[1];
      if (id !== undefined) states.settle(sessionKey('stored', id), upstream, STATE_SECONDS);
    },
  };
}

function affinityOf({ affinity }: Pick<UpstreamStates, 'affinity'>, { session_key, model }: Session) {
  return session_key === undefined ? undefined : affinity(affinityKey(session_key, model));
}

function ownerOf({ affinity }: Pick<UpstreamStates, 'affinity'>, { session_key, model, continues }: Session) {
  const kept = continues === undefined ? undefined : affinity(continues);
  if (kept !== undefined || session_key === undefined) return kept;
  return affinity(stateKey(session_key, model)) ?? affinity(stateKey(session_key));
}

const affinityKey = (session_key: string, model: string) => `${session_key} ${model}`;
const stateKey = (session_key: string, model = '') => `state ${session_key} ${model}`;
