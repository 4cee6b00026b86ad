import { StageError } from '../../contract/errors.ts';
import type { DropReason } from '../../contract/forwarding.ts';
import type { Dropped, Needs } from './choose.ts';
import type { Place } from './route.ts';

/** Upstreams that can serve a request. */
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
