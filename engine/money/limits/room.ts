import type { LimitStatus, LimitUnit, ReservationRequest } from '../../contract/services.ts';

/** What decides whether a request has room, of what is reserved for it. */
export type Hold = Pick<ReservationRequest, 'amount_nano_usd' | 'most_nano_usd' | 'overshoot_percent' | 'tokens'>;

const PPM_PER_PERCENT = 10_000;
const PPM = 1_000_000;

/** Percent as whole millionths, rounded down so that nothing passes what was promised. */
export function percentToPpm(percent: number): number {
  // 0.07 % is 700 millionths, although 0.07 * 10,000 is a little more and 0.29 * 10,000 a little less.
  return Math.floor(percent * PPM_PER_PERCENT + 1e-6);
}

/** By how much of its unit a limit may be passed by what is in flight, rounded down. Exact for limits below 2^53. */
export function overshootOf(limit: number, overshoot_percent: number): number {
  const ppm = percentToPpm(overshoot_percent);
  return Math.floor(limit / PPM) * ppm + Math.floor(((limit % PPM) * ppm) / PPM);
}

/** What a reservation comes to in the unit of a counter, now and at most. */
export function reservedIn(unit: LimitUnit, hold: Hold): { readonly amount: number; readonly most: number } {
  if (unit === 'nano_usd') return { amount: hold.amount_nano_usd, most: hold.most_nano_usd };
  const amount = unit === 'tokens' ? hold.tokens : 1;
  return { amount, most: amount };
}

/**
 * Whether a request has no room under a limit. What is spent and reserved and its own reservation must fit; so must the most that it
 * and everything in flight can cost, which for a typical request may pass the limit by its share, or by anything when
 * nothing else is in flight. The same rule is `lacks_room` in the database, which decides.
 */
export function lacksRoom(
  {
    unit,
    limit,
    spent,
    reserved,
    most,
    in_flight,
  }: Pick<LimitStatus, 'unit' | 'limit' | 'spent' | 'reserved' | 'most' | 'in_flight'>,
  hold: Hold,
): boolean {
  const mine = reservedIn(unit, hold);
  if (spent + reserved + mine.amount > limit) return true;
  const { overshoot_percent: percent } = hold;
  if (percent === undefined) return spent + most + mine.most > limit;
  return in_flight > 0 && spent + most + mine.most > limit + overshootOf(limit, percent);
}

/** Order in which exceeded limits are reported: the one that resets last first, of those that reset together the smallest. */
export function byLatestReset(a: LimitStatus, b: LimitStatus): number {
  return (b.resets_at ?? 0) - (a.resets_at ?? 0) || a.limit - b.limit;
}
