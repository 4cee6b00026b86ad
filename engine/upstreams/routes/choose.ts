import { StageError } from '../../contract/errors.ts';
import type { Candidate, Closed, DropReason, Seen, UpstreamStates } from '../../contract/forwarding.ts';
import type { CacheLifetime } from '../../contract/services.ts';
import { hashOf, type Place, type Route, refuseLifetime, scoreOf } from './route.ts';
import { homeOf, ownerOf, type Session } from './sessions.ts';

export interface Needs extends Session {
  /** How many tokens it likely comes to, its answer included where it is bounded; 0 where nobody can tell. */
  readonly tokens: number;
  readonly cache_ttl: CacheLifetime;
  readonly by?: Seen | undefined;
  /** Whether it holds what only the upstream can read that it came from. */
  readonly holds_state: boolean;
  /**
   * Whether an upstream takes the fields that choose models, prices and accounts: the models they name there. Raises the error
   * that it would be refused with. Absent where there are none.
   */
  readonly decide?: ((place: Place) => readonly string[]) | undefined;
}

export interface Choosing {
  readonly states: UpstreamStates;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly random: () => number;
}

export interface Choice {
  readonly candidates: readonly Candidate[];
  /** How many of them, the last ones, were dropped, and are asked only when all others have failed. */
  readonly spare: number;
  /** Those of the route that are not asked, each as `name: reason`; `undefined` without any. */
  readonly dropped: readonly string[] | undefined;
}

export interface Dropped {
  readonly place: Place;
  readonly reason: DropReason;
}

/** Why an upstream that could serve a request does not serve now, as it found out itself. */
const FOR_A_WHILE: ReadonlySet<DropReason> = new Set(['open', 'limited', 'credential', 'model_missing']);

/** The upstreams of a route that can serve a request. Raises upstream_unavailable, and what `needs.decide` raises everywhere. */
export function chooseCandidates(route: Route, places: readonly Place[], needs: Needs, choosing: Choosing): Choice {
  const [first] = places as [Place];
  if (places.length === 1) return { candidates: onlyCandidate(first, needs, choosing), spare: 0, dropped: undefined };
  const dropped: Dropped[] = [];
  const home = placeNamed(places, homeOf(choosing.states, needs));
  const ranking: Ranking = { key: needs.session_key, home, ...choosing };
  const is_bound = route.has_boundaries && needs.holds_state;
  const { able, decided } = is_bound
    ? dropForeign(
        places,
        needs,
        { ...ranking, home: placeNamed(places, ownerOf(choosing.states, needs)) ?? home },
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
    // Once they are asked, no other upstream is left that could do more.
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
  if (closed !== undefined && mayNotBeAsked(closed, true)) throw unavailable(place, closed, now());
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

/**
 * Leaves only what can serve a request and read the state that it holds: where that is known to come from, else where the
 * session belongs.
 */
function dropForeign(places: readonly Place[], needs: Needs, ranking: Ranking, dropped: Dropped[]): Able {
  const { home } = ranking;
  if (home !== undefined) return dropUnable(near(home, places, dropped), needs, dropped);
  const { able, decided } = dropUnable(places, needs, dropped);
  // Where it was served must not depend on what happens to be weak or busy now.
  const [owner] = rankPlaces(able, { ...ranking, states: { share: () => 1, active: () => 0 } });
  return { able: near(owner!, able, dropped), decided };
}

function near({ upstream: { state_boundary } }: Place, places: readonly Place[], dropped: Dropped[]): readonly Place[] {
  return places.filter((place) => {
    const is_near = place.upstream.state_boundary === state_boundary;
    if (!is_near) dropped.push({ place, reason: 'state_boundary' });
    return is_near;
  });
}

/**
 * Leaves out what takes no requests now. The last one is asked all the same, unless it is the only one there could be: where
 * all are closed, the one whose time ends first.
 */
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
  if (willing.length === 0 || (willing.length === 1 && mayNotBeAsked(found, true)))
    throw unavailable(place, found, now, is_bound);
  return place;
}

export interface Able {
  readonly able: readonly Place[];
  /** The models each of them may use for it beside its own; `undefined` where the request names none. */
  readonly decided: ReadonlyMap<Place, readonly string[]> | undefined;
}

/**
 * Leaves out what can never serve such a request. Where that is all of them, what refuses it everywhere is raised, or the
 * first one is left to say what is wrong with it.
 */
export function dropUnable(places: readonly Place[], needs: Needs, dropped: Dropped[]): Able {
  if (needs.decide === undefined && areAlike(places)) return { able: places, decided: undefined };
  const decided = needs.decide === undefined ? undefined : new Map<Place, readonly string[]>();
  const refused = decided === undefined ? undefined : decideAll(places, needs.decide!, decided);
  const allowed = refused === undefined ? places : leave(places, (place) => !refused.has(place), 'decisive', dropped);
  if (allowed.length === 0) throw refused!.get(places[0]!)!;
  const understood = leave(allowed, (place) => place.is_understood, 'protocol', dropped, allowed[0]);
  const longest = longestWindow(understood, needs.tokens);
  const able = leave(understood, (place) => place.context_window >= longest, 'context_window', dropped);
  return { able, decided };
}

/** Whether they differ in nothing that this is about, as nearly always. */
function areAlike(places: readonly Place[]): boolean {
  const { context_window } = places[0]!;
  for (const place of places) if (!place.is_understood || place.context_window !== context_window) return false;
  return true;
}

/** Leaves those that pass a test, or `otherwise` where none does. */
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

/** Notes for each place which models a request may use there beside its own. @returns what refuses it elsewhere */
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

/** The least window that will do: nobody knows tokens exactly, so the longest there is always does. */
function longestWindow(places: readonly Place[], tokens: number): number {
  let longest = 0;
  for (const { context_window } of places) if (context_window > longest) longest = context_window;
  return Math.min(tokens, longest);
}

/** Leaves out what refuses a request for a 1-hour lifetime. Raises invalid_request where that is all of them. */
export function dropRefusing(places: readonly Place[], { cache_ttl }: Needs, dropped: Dropped[]): readonly Place[] {
  if (cache_ttl !== '1h') return places;
  const left = places.filter((place) => place.as(cache_ttl).fate !== 'refuse');
  if (left.length === 0) throw refuseLifetime(places.map(({ upstream }) => upstream.name));
  if (left.length < places.length) for (const place of places) if (!left.includes(place)) drop(place, dropped);
  return left;
}

/**
 * Leaves out what does not keep prompts for an hour where that is asked for and another upstream does. What is left out may
 * still be asked when all others have failed: none of them keeps it then.
 */
export function splitByCache(
  places: readonly Place[],
  { cache_ttl }: Needs,
  dropped: Dropped[],
): { readonly keeping: readonly Place[]; readonly spare: readonly Place[] } {
  const keeps = (place: Place) => place.as(cache_ttl).fate === 'as_asked' && !place.drops_lifetimes;
  const keeping = cache_ttl === '1h' ? places.filter(keeps) : places;
  if (keeping.length === 0 || keeping.length === places.length) return { keeping: places, spare: [] };
  const spare = places.filter((place) => !keeping.includes(place));
  for (const place of spare) drop(place, dropped);
  return { keeping, spare };
}

function drop(place: Place, dropped: Dropped[]): void {
  dropped.push({ place, reason: 'cache' });
}

export interface Ranking {
  /** What the turns of a session have in common; `undefined` for requests that belong to none. */
  readonly key: string | undefined;
  /** The upstream that has the session's prompts, whether it is among those that can serve or not. */
  readonly home: Place | undefined;
  readonly states: Pick<UpstreamStates, 'active' | 'share'>;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

/**
 * Places in the order in which they are to be tried: the session's home, those that share its cache, then by order, and within
 * one by weighted rendezvous hashing, cache pools first. Without a session by chance, the less busy of two first.
 */
export function rankPlaces(places: readonly Place[], ranking: Ranking): Place[] {
  const { key, home, states } = ranking;
  const hash = key === undefined ? undefined : hashOf(key);
  const sorted: Place[] = [];
  const scores: number[] = [];
  // A handful at most, for every request: sorting by insertion makes nothing else.
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
  if (hash === undefined && home === undefined && sorted.length > 1) lessBusyFirst(sorted, states);
  return sorted;
}

function weightOf({ upstream, upstream_model, weight }: Place, { share }: Ranking['states']): number {
  return weight * share(upstream.name, upstream_model);
}

/** No two requests without a session have a key in common. */
function chanceOf(place: Place, { random, states }: Ranking): number {
  return scoreOf((random() * 2 ** 32) >>> 0, place.seed, weightOf(place, states));
}

function poolScore(place: Place, hash: number, states: Ranking['states']): number {
  const { pool } = place;
  return scoreOf(hash, pool.seed, pool.size === 1 ? weightOf(place, states) : pool.weight);
}

/** Whether a place is to be tried before another that has its place already. */
function isBefore(
  place: Place,
  score: number,
  other: Place,
  other_score: number,
  hash: number | undefined,
  { home, states }: Ranking,
): boolean {
  if (home !== undefined) {
    if (place === home || other === home) return place === home;
    const [is_close, other_is_close] = [place.pool.name === home.pool.name, other.pool.name === home.pool.name];
    if (is_close !== other_is_close) return is_close;
  }
  if (place.order !== other.order) return place.order < other.order;
  if (place.weight > 0 !== other.weight > 0) return place.weight > 0;
  if (hash === undefined || place.pool.name !== other.pool.name)
    // Two pools of the same score would be mixed.
    return score !== other_score ? score > other_score : place.pool.name < other.pool.name;
  return scoreOf(hash, place.seed, weightOf(place, states)) > scoreOf(hash, other.seed, weightOf(other, states));
}

/** The power of two choices, by requests under way for each share of the weight. */
function lessBusyFirst(sorted: Place[], { active }: Ranking['states']): void {
  const [first, second] = sorted as [Place, Place];
  if (first.order !== second.order || second.weight === 0) return;
  const load = ({ upstream, weight }: Place) => active(upstream.name) / weight;
  if (load(second) < load(first)) sorted.splice(0, 2, second, first);
}

/** Above it one of the clients gives up at once. */
const RETRY_SECONDS_MAX = 60;
/** Nobody knows for how long an upstream is drained. */
const RETRY_SECONDS_DRAINED = 10;

const ALONE = { caller: 'your requests', request: 'this request' } as const;

/**
 * Whether not even the last upstream is asked. One that is only limited answers at once, and so does one that refuses a credential:
 * with more than is known here.
 */
export function mayNotBeAsked({ because }: Closed, is_alone: boolean): boolean {
  return because === 'drained' || (because === 'open' && is_alone);
}

/**
 * The error where nothing of a route takes requests; its `retry-after` is when the upstream is asked again.
 * @param holds_state whether the request holds what only this upstream can read
 */
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
    `The upstream "${name}" is not asked: ${why}, and ${no_other}. Try again in ${wait} s.`,
    {
      details: { upstream: name, because, ...(last !== undefined && { last }) },
      headers: { 'retry-after': String(wait) },
    },
  );
}
