import { refuseLifetime } from '../cache-lifetime.ts';
import type { Dropped, Needs } from './choose.ts';
import type { Place } from './route.ts';

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
