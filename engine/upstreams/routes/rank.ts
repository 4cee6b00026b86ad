import type { UpstreamStates } from '../../contract/forwarding.ts';
import { hashOf, scoreOf } from './rendezvous.ts';
import type { Place } from './route.ts';

/** What ranking depends on beside the places themselves. */
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
