import type { Candidate, Closed, DropReason, Seen, UpstreamStates } from '../../contract/forwarding.ts';
import type { CacheLifetime } from '../../contract/services.ts';
import { refuseLifetime } from '../cache-lifetime.ts';
import { dropRefusing, splitByCache } from './cache.ts';
import { type Ranking, rankPlaces } from './rank.ts';
import type { Place, Route } from './route.ts';
import { homeOf, ownerOf, type Session } from './sessions.ts';
import { type Able, dropUnable } from './unable.ts';
import { mayNotBeAsked, unavailable } from './unavailable.ts';

/** What a request needs of the upstream that serves it. */
export interface Needs extends Session {
  /** How many tokens it likely comes to, its answer included where it is bounded; 0 where nobody can tell. */
  readonly tokens: number;
  readonly cache_ttl: CacheLifetime;
  /** Whose it is. */
  readonly by?: Seen | undefined;
  /** Whether it holds what only the upstream can read that it came from. */
  readonly holds_state: boolean;
  /**
   * Whether an upstream takes the fields that choose models, prices and accounts: the models they name there. Raises the error
   * that it would be refused with. Absent where there are none.
   */
  readonly decide?: ((place: Place) => readonly string[]) | undefined;
}

/** What choosing depends on beside the request. */
export interface Choosing {
  readonly states: UpstreamStates;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly random: () => number;
}

/** Where a request can go. */
export interface Choice {
  /** At least one, in the order to be tried. */
  readonly candidates: readonly Candidate[];
  /** How many of them, the last ones, were dropped, and are asked only when all others have failed. */
  readonly spare: number;
  /** Those of the route that are not asked, each as `name: reason`; `undefined` without any. */
  readonly dropped: readonly string[] | undefined;
}

/** An upstream that is not asked, and why. */
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

/** Raises upstream_unavailable. */
function lastResort(closed: ReadonlyMap<Place, Closed>, now: number, is_bound: boolean): Place {
  const untilOf = ([, { until = Number.POSITIVE_INFINITY }]: readonly [Place, Closed]) => until;
  const soonest = [...closed].toSorted((a, b) => untilOf(a) - untilOf(b));
  const willing = soonest.filter(([, { because }]) => because !== 'drained');
  const [place, found] = willing[0] ?? soonest[0]!;
  if (willing.length === 0 || (willing.length === 1 && mayNotBeAsked(found, true)))
    throw unavailable(place, found, now, is_bound);
  return place;
}
