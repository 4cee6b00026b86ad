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
import {
  type Candidate,
  DROP_REASONS,
  type DropReason,
  type Seen,
  type Unavailable,
  type UpstreamStates,
} from '../../base/contract/forwarding.ts';
import { negotiatedProtocol, protocolOf } from '../../base/contract/protocol.ts';
import type { CacheLifetime } from '../../base/contract/services.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { definitionNamed, definitionOf, sessionKey } from '../protocols/index.ts';

/** The upstreams of a routing rule, or the default ones, in the order of gateway.yaml. */
export interface Route {
  readonly key: string;
  readonly upstreams: ReadonlySet<string>;
  /** Whether its upstreams differ in `state_boundary`. */
  readonly has_state_boundaries: boolean;
  entries(model: ModelConfig, protocol: string): readonly RouteEntry[];
}

/** An upstream of a route, for requests of one protocol for one model. */
export interface RouteEntry {
  readonly upstream: UpstreamConfig;
  readonly upstream_model: string;
  readonly order: number;
  readonly weight: number;
  readonly seed: number;
  readonly pool: Pool;
  readonly context_window: number;
  readonly is_understood: boolean;
  readonly drops_lifetimes: boolean;
  /** The candidate for requests with this cache lifetime, and as the only one; the same objects each time. */
  as(asked: CacheLifetime): {
    readonly candidate: Candidate;
    readonly as_only_candidate: readonly Candidate[];
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

/** Makes a route of a list of at least one upstream, with the settings of its routing rule. */
export function createRoute(
  configured: readonly RouteUpstream[],
  { upstream, translates }: { readonly upstream: (name: string) => UpstreamConfig; readonly translates: boolean },
  rule: RulePolicy = {},
): Route {
  const upstreams = configured.map((one) => upstream(one.upstream));
  const known = new WeakMap<ModelConfig, Map<string, readonly RouteEntry[]>>();
  const pools = poolsOf(configured, upstreams);
  return {
    key: JSON.stringify([
      rule.on_unsupported_cache,
      configured.map(({ upstream, order, weight }) => [upstream, order, weight]),
    ]),
    upstreams: new Set(upstreams.map(({ name }) => name)),
    has_state_boundaries: new Set(upstreams.map(({ state_boundary }) => state_boundary)).size > 1,
    entries(model, protocol) {
      const by_protocol = known.get(model) ?? new Map<string, readonly RouteEntry[]>();
      const found = by_protocol.get(protocol);
      if (found !== undefined) return found;
      const request = { model, protocol, translates, rule };
      const entries = configured.map((one, index) => createEntry(one, pools[index]!, upstreams[index]!, request));
      known.set(model, by_protocol.set(protocol, entries));
      return entries;
    },
  };
}

/** Whether any route of a configuration has several upstreams, so that session affinity matters. */
export function sharesSessions({ routing }: GatewayConfig): boolean {
  return [routing.default_upstreams, ...routing.rules.map(({ upstreams }) => upstreams)].some(
    ({ length }) => length > 1,
  );
}

function poolsOf(configured: readonly RouteUpstream[], upstreams: readonly UpstreamConfig[]): readonly Pool[] {
  return configured.map(({ order }, index) => {
    const name = upstreams[index]!.cache_pool;
    const members = configured.filter((other, at) => other.order === order && upstreams[at]!.cache_pool === name);
    const weight = members.reduce((sum, member) => sum + member.weight, 0);
    return { name, seed: hashOf(`pool ${name}`), weight, size: members.length };
  });
}

function createEntry(
  { order, weight }: RouteUpstream,
  pool: Pool,
  upstream: UpstreamConfig,
  request: {
    readonly model: ModelConfig;
    readonly protocol: string;
    readonly translates: boolean;
    readonly rule: RulePolicy;
  },
): RouteEntry {
  const { model, protocol, translates, rule } = request;
  const { name, supports, protocols } = upstream;
  const spoken = protocolOf(protocol);
  const counts = protocol !== 'count_tokens' || supports.count_tokens;
  const speaks = spoken === undefined || protocols.includes(spoken) || translates;
  const facts = upstreamFacts(protocol, model, upstream);
  const upstream_model = facts['route.upstream_model']!;
  const known: Partial<Record<CacheLifetime, ReturnType<RouteEntry['as']>>> = {};
  const make = (asked: CacheLifetime): ReturnType<RouteEntry['as']> => {
    const fate = cacheFate(asked, facts['route.supports.prompt_cache_1h']!, upstream, rule);
    const downgraded = fate === 'downgrade';
    const cache = { 'cache.effective_ttl': downgraded ? '5m' : asked, 'cache.downgraded': downgraded };
    const candidate: Candidate = { upstream, upstream_model, facts: { ...facts, ...cache } };
    return { candidate, as_only_candidate: [{ ...candidate, is_only_candidate: true }], fate };
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
  const message = `${what} not cache prompts of this model for an hour, and the gateway rejects such requests (on_unsupported_cache). Request five minutes: cache_control with ttl 5m, or without ttl; in the Messages client, set FORCE_PROMPT_CACHING_5M=1.`;
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
  readonly checkPrivileged?: ((entry: RouteEntry) => readonly string[]) | undefined;
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

interface Dropped {
  readonly entry: RouteEntry;
  readonly reason: DropReason;
}

/** Reasons that make an upstream temporarily unavailable. */
const FOR_A_WHILE: ReadonlySet<DropReason> = new Set(['open', 'limited', 'credential', 'model_missing']);

/** The upstreams of a route that can serve a request. Raises upstream_unavailable, or the error of `needs.checkPrivileged`. */
export function chooseCandidates(
  route: Route,
  entries: readonly RouteEntry[],
  needs: Needs,
  choosing: Choosing,
): Choice {
  const [first] = entries as [RouteEntry];
  if (entries.length === 1) return { candidates: onlyCandidate(first, needs, choosing), spare: 0, dropped: undefined };
  const dropped: Dropped[] = [];
  const preferred = entryNamed(entries, affinityOf(choosing.states, needs));
  const ranking: Ranking = { key: needs.session_key, preferred, ...choosing };
  const is_bound = route.has_state_boundaries && needs.holds_state;
  const { able, other_models } = is_bound
    ? dropForeign(
        entries,
        needs,
        { ...ranking, preferred: entryNamed(entries, ownerOf(choosing.states, needs)) ?? preferred },
        dropped,
      )
    : dropUnable(entries, needs, dropped);
  let left = dropRefusing(able, needs, dropped);
  left = dropUnavailable(left, { ...choosing, is_bound, by: needs.by }, dropped);
  const { keeping, spare } = splitByCache(left, needs, dropped);
  const candidates = rankEntries(keeping, ranking).map((entry) => candidateOf(entry, needs, other_models));
  if (left.length === 1 && !dropped.some(({ reason }) => FOR_A_WHILE.has(reason))) {
    candidates[0] = { ...candidates[0]!, is_only_candidate: true };
  }
  if (spare.length > 0) {
    const others = namesOf(dropped.filter(({ entry }) => !spare.includes(entry)));
    const later = rankEntries(spare, ranking).map((entry) => candidateOf(entry, needs, other_models));
    candidates.push(...later.map((one) => ({ ...one, facts: { ...one.facts, 'route.dropped': others } })));
  }
  return { candidates, spare: spare.length, dropped: namesOf(dropped) };
}

function namesOf(dropped: readonly Dropped[]): readonly string[] | undefined {
  return dropped.length === 0 ? undefined : dropped.map(({ entry, reason }) => `${entry.upstream.name}: ${reason}`);
}

function onlyCandidate(entry: RouteEntry, needs: Needs, { states, now }: Choosing): readonly Candidate[] {
  const { as_only_candidate, fate } = entry.as(needs.cache_ttl);
  const others = needs.checkPrivileged?.(entry) ?? [];
  if (fate === 'refuse') throw refuseLifetime([entry.upstream.name]);
  const unavailable = states.unavailable(entry.upstream.name, entry.upstream_model, needs.by);
  if (unavailable !== undefined && mustNotBeTried(unavailable, true)) throw unavailableError(entry, unavailable, now());
  return others.length === 0 ? as_only_candidate : [withModels(as_only_candidate[0]!, others)];
}

function entryNamed(entries: readonly RouteEntry[], name: string | undefined): RouteEntry | undefined {
  return name === undefined ? undefined : entries.find(({ upstream }) => upstream.name === name);
}

function candidateOf(entry: RouteEntry, { cache_ttl }: Needs, other_models: Able['other_models']): Candidate {
  const { candidate } = entry.as(cache_ttl);
  return other_models === undefined ? candidate : withModels(candidate, other_models.get(entry)!);
}

function withModels(candidate: Candidate, others: readonly string[]): Candidate {
  const models = others.length === 0 ? undefined : others;
  return { ...candidate, facts: { ...candidate.facts, 'request.other_models': models } };
}

/**
 * Keeps the entries that can read the state in a request: those with the `state_boundary` of the upstream that issued it, else of the
 * session's upstream.
 */
function dropForeign(entries: readonly RouteEntry[], needs: Needs, ranking: Ranking, dropped: Dropped[]): Able {
  const { preferred } = ranking;
  if (preferred !== undefined) return dropUnable(near(preferred, entries, dropped), needs, dropped);
  const { able, other_models } = dropUnable(entries, needs, dropped);
  // Affinity must not depend on availability or load.
  const [owner] = rankEntries(able, { ...ranking, states: { share: () => 1, active: () => 0 } });
  return { able: near(owner!, able, dropped), other_models };
}

function near(
  { upstream: { state_boundary } }: RouteEntry,
  entries: readonly RouteEntry[],
  dropped: Dropped[],
): readonly RouteEntry[] {
  return keepOnly(entries, ({ upstream }) => upstream.state_boundary === state_boundary, 'state_boundary', dropped);
}

/** Drops entries that take no requests now; where all are unavailable, keeps the one whose time ends first. */
function dropUnavailable(
  entries: readonly RouteEntry[],
  { states, now, is_bound, by }: Choosing & { readonly is_bound: boolean; readonly by: Seen | undefined },
  dropped: Dropped[],
): readonly RouteEntry[] {
  let unavailable: Map<RouteEntry, Unavailable> | undefined;
  for (const entry of entries) {
    const found = states.unavailable(entry.upstream.name, entry.upstream_model, by);
    if (found === undefined) continue;
    unavailable ??= new Map();
    unavailable.set(entry, found);
  }
  if (unavailable === undefined) return entries;
  const left =
    unavailable.size < entries.length
      ? entries.filter((entry) => !unavailable.has(entry))
      : [lastResort(unavailable, now(), is_bound)];
  for (const [entry, { because }] of unavailable) if (!left.includes(entry)) dropped.push({ entry, reason: because });
  return left;
}

function lastResort(unavailable: ReadonlyMap<RouteEntry, Unavailable>, now: number, is_bound: boolean): RouteEntry {
  const untilOf = ([, { until = Number.POSITIVE_INFINITY }]: readonly [RouteEntry, Unavailable]) => until;
  const soonest = [...unavailable].toSorted((a, b) => untilOf(a) - untilOf(b));
  const willing = soonest.filter(([, { because }]) => because !== 'drained');
  const [entry, found] = willing[0] ?? soonest[0]!;
  if (willing.length === 0 || (willing.length === 1 && mustNotBeTried(found, true)))
    throw unavailableError(entry, found, now, is_bound);
  return entry;
}

export interface Able {
  readonly able: readonly RouteEntry[];
  /** Further models per entry; `undefined` where the request names none. */
  readonly other_models: ReadonlyMap<RouteEntry, readonly string[]> | undefined;
}

/** Drops entries that can never serve such a request; if none qualifies, keeps the first, or raises its error. */
function dropUnable(entries: readonly RouteEntry[], { checkPrivileged, tokens }: Needs, dropped: Dropped[]): Able {
  if (checkPrivileged === undefined && areAlike(entries)) return { able: entries, other_models: undefined };
  const other_models = checkPrivileged && new Map<RouteEntry, readonly string[]>();
  const refused = checkPrivileged && checkAllPrivileged(entries, checkPrivileged, other_models!);
  const allowed =
    refused === undefined ? entries : keepOnly(entries, (entry) => !refused.has(entry), 'privileged', dropped);
  if (allowed.length === 0) throw refused!.get(entries[0]!)!;
  const understood = keepOnly(allowed, (entry) => entry.is_understood, 'protocol', dropped, allowed[0]);
  // Token counts are estimates, so the largest window always qualifies.
  const window = Math.min(tokens, Math.max(...understood.map((entry) => entry.context_window)));
  const able = keepOnly(understood, (entry) => entry.context_window >= window, 'context_window', dropped);
  return { able, other_models };
}

function areAlike(entries: readonly RouteEntry[]): boolean {
  const { context_window } = entries[0]!;
  return entries.every((entry) => entry.is_understood && entry.context_window === context_window);
}

/** Keeps entries that pass a test, or `otherwise` if none does. */
function keepOnly(
  entries: readonly RouteEntry[],
  passes: (entry: RouteEntry) => boolean,
  reason: DropReason,
  dropped: Dropped[],
  otherwise?: RouteEntry,
): readonly RouteEntry[] {
  if (entries.every(passes)) return entries;
  const passing = entries.filter(passes);
  const left = passing.length === 0 && otherwise !== undefined ? [otherwise] : passing;
  for (const entry of entries) if (!left.includes(entry)) dropped.push({ entry, reason });
  return left;
}

/** Collects, per entry, the other models the request may use there. @returns the errors of entries that reject it */
function checkAllPrivileged(
  entries: readonly RouteEntry[],
  checkPrivileged: NonNullable<Needs['checkPrivileged']>,
  other_models: Map<RouteEntry, readonly string[]>,
): ReadonlyMap<RouteEntry, StageError> {
  const refused = new Map<RouteEntry, StageError>();
  for (const entry of entries) {
    try {
      other_models.set(entry, checkPrivileged(entry));
    } catch (error) {
      if (!(error instanceof StageError)) throw error;
      refused.set(entry, error);
    }
  }
  return refused;
}

/** Drops entries that reject a 1-hour lifetime. Raises invalid_request if all do. */
function dropRefusing(entries: readonly RouteEntry[], { cache_ttl }: Needs, dropped: Dropped[]): readonly RouteEntry[] {
  if (cache_ttl !== '1h') return entries;
  const left = keepOnly(entries, (entry) => entry.as(cache_ttl).fate !== 'refuse', 'cache', dropped);
  if (left.length === 0) throw refuseLifetime(entries.map(({ upstream }) => upstream.name));
  return left;
}

/** Moves entries without a 1-hour cache to the end, where the request wants one and another entry has it. */
function splitByCache(entries: readonly RouteEntry[], { cache_ttl }: Needs, dropped: Dropped[]) {
  const keeps = (entry: RouteEntry) => entry.as(cache_ttl).fate === 'as_asked' && !entry.drops_lifetimes;
  const keeping = cache_ttl === '1h' ? entries.filter(keeps) : entries;
  if (keeping.length === 0 || keeping.length === entries.length) return { keeping: entries, spare: [] };
  const spare = entries.filter((entry) => !keeping.includes(entry));
  for (const entry of spare) dropped.push({ entry, reason: 'cache' });
  return { keeping, spare };
}

export interface Ranking {
  readonly key: string | undefined;
  /** The upstream with the prompt cache of the session, even if it cannot serve now. */
  readonly preferred: RouteEntry | undefined;
  readonly states: Pick<UpstreamStates, 'active' | 'share'>;
  readonly random: () => number;
}

/**
 * Ranks entries: the session's upstream first, then those that share its cache, then by `order`, within one by weighted rendezvous
 * hashing, cache pools first. Without a session: power of two random choices.
 */
export function rankEntries(entries: readonly RouteEntry[], ranking: Ranking): RouteEntry[] {
  const { key, preferred, states, random } = ranking;
  const hash = key === undefined ? undefined : hashOf(key);
  const sorted: RouteEntry[] = [];
  const scores: number[] = [];
  // Insertion sort: few entries, and no allocation per request.
  for (const entry of entries) {
    const { pool } = entry;
    const weight = hash !== undefined && pool.size > 1 ? pool.weight : weightOf(entry, states);
    // A random score spreads requests without a session.
    const score =
      hash === undefined ? scoreOf((random() * 2 ** 32) >>> 0, entry.seed, weight) : scoreOf(hash, pool.seed, weight);
    let at = sorted.length;
    while (at > 0 && isBefore(entry, score, sorted[at - 1]!, scores[at - 1]!, hash, ranking)) {
      sorted[at] = sorted[at - 1]!;
      scores[at] = scores[at - 1]!;
      at--;
    }
    sorted[at] = entry;
    scores[at] = score;
  }
  if (hash === undefined && preferred === undefined && sorted.length > 1) lessBusyFirst(sorted, states);
  return sorted;
}

function weightOf({ upstream, upstream_model, weight }: RouteEntry, { share }: Ranking['states']): number {
  return weight * share(upstream.name, upstream_model);
}

function isBefore(
  entry: RouteEntry,
  score: number,
  other: RouteEntry,
  other_score: number,
  hash: number | undefined,
  { preferred, states }: Ranking,
): boolean {
  if (preferred !== undefined) {
    if (entry === preferred || other === preferred) return entry === preferred;
    const [is_close, other_is_close] = [
      entry.pool.name === preferred.pool.name,
      other.pool.name === preferred.pool.name,
    ];
    if (is_close !== other_is_close) return is_close;
  }
  if (entry.order !== other.order) return entry.order < other.order;
  if (entry.weight > 0 !== other.weight > 0) return entry.weight > 0;
  if (hash === undefined || entry.pool.name !== other.pool.name)
    // The name breaks ties, so that pools do not interleave.
    return score !== other_score ? score > other_score : entry.pool.name < other.pool.name;
  return scoreOf(hash, entry.seed, weightOf(entry, states)) > scoreOf(hash, other.seed, weightOf(other, states));
}

/** Power of two choices by requests in flight per weight. */
function lessBusyFirst(sorted: RouteEntry[], { active }: Ranking['states']): void {
  const [first, second] = sorted as [RouteEntry, RouteEntry];
  if (first.order !== second.order || second.weight === 0) return;
  const load = ({ upstream, weight }: RouteEntry) => active(upstream.name) / weight;
  if (load(second) < load(first)) sorted.splice(0, 2, second, first);
}

/** A `retry-after` of at most a minute: with a longer one the Messages client gives up at once. */
export const shortWait = (seconds: number): number => Math.min(60, Math.max(1, Math.ceil(seconds)));

/** `retry-after` for a drained upstream, whose end is unknown. */
const RETRY_SECONDS_DRAINED = 10;

const ONLY_FOR = { caller: 'your requests', request: 'this request' } as const;

/** Why an upstream takes no requests, for callers. */
function describeUnavailable({ because, last, only_for }: Unavailable): string {
  const of_last = last === undefined ? '' : ` (${last})`;
  if (because !== 'open') return DROP_REASONS[because] + of_last;
  return `it failed too often${only_for === undefined ? '' : ` on ${ONLY_FOR[only_for]}`}${of_last}`;
}

/** Whether the last candidate is skipped too. A rate-limited one is still tried: it responds at once, with a better error. */
export function mustNotBeTried({ because }: Unavailable, is_only_candidate: boolean): boolean {
  return because === 'drained' || (because === 'open' && is_only_candidate);
}

/**
 * The error where no upstream of a route takes requests. `retry-after` is the time until the next probe, at most 60 s; it is 10 s if the
 * upstream is drained.
 */
export function unavailableError(
  { upstream: { name } }: Pick<Candidate, 'upstream'>,
  unavailable: Unavailable,
  now: number,
  holds_state = false,
): StageError {
  const { because, until, last } = unavailable;
  const is_drained = because === 'drained';
  const wait = is_drained ? RETRY_SECONDS_DRAINED : shortWait(((until ?? Infinity) - now) / 1000);
  const no_other = holds_state
    ? 'only it can read the encrypted or stored state in this request'
    : 'the route has no other that could serve this request';
  const remedy = is_drained ? 'Ask an administrator to resume the upstream' : `Try again in ${wait} s`;
  return new StageError(
    'upstream_unavailable',
    `The upstream "${name}" is unavailable: ${describeUnavailable(unavailable)}, and ${no_other}. ${remedy}.`,
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
  /** Whether the upstreams of its route differ in `state_boundary`. */
  readonly has_state_boundaries: boolean;
}

/** Session affinity of requests: as long as prompts are cached, and longer for state. */
export function createSessionKeeper(states: Pick<UpstreamStates, 'affinity' | 'remember'>) {
  return {
    keep({ upstream, session_key, model, continues, cache_ttl, has_state_boundaries }: Served): void {
      if (session_key !== undefined)
        states.remember(affinityKey(session_key, model), upstream, cache_ttl === '1h' ? HOUR_SECONDS : SHORT_SECONDS);
      if (!has_state_boundaries) return;
      if (continues !== undefined) states.remember(continues, upstream, STATE_SECONDS);
      if (session_key === undefined) return;
      states.remember(stateKey(session_key, model), upstream, STATE_SECONDS);
      states.remember(stateKey(session_key), upstream, STATE_SECONDS);
    },
    /** Records which upstream stores a Responses response. @param answer beginning of the response */
    keepStored(answer: string, upstream: string): void {
      const id = RESPONSE_ID.exec(answer.slice(0, RESPONSE_HEAD_CHARS))?.[1];
      if (id !== undefined) states.remember(sessionKey('stored', id), upstream, STATE_SECONDS);
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
