import type { ChargedAttempt, CounterName, ReservationRequest } from '../../contract/services.ts';
import { neededIn } from '../../money/limits/room.ts';
import type { Counter } from './memory-counters.ts';

/** An earlier attempt, and the counters of money it counts on where it costs something. */
interface HeldAttempt {
  readonly n: number;
  readonly cost_nano_usd: number;
  readonly counters: readonly Counter[];
}

/** A reservation, or a request that went out without one. */
export interface OpenRequest {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
  amount_nano_usd: number;
  /** Earlier attempts, where they count. */
  readonly held: readonly HeldAttempt[];
  /** Whether it went out with nothing reserved, because the ledger was away. */
  readonly unreserved: boolean;
}

/** Puts what is reserved for a request on its counters, or takes it off again. */
export function put(open: OpenRequest, sign: 1 | -1): void {
  const { request, counters, amount_nano_usd } = open;
  for (const counter of counters) {
    const { amount, most } = neededIn(counter.name.unit, { ...request, amount_nano_usd });
    counter.reserved += sign * amount;
    counter.most += sign * most;
    counter.in_flight += sign;
  }
  putHeld(open, sign);
}

/** The same for what is held for earlier attempts. */
export function putHeld({ held }: OpenRequest, sign: 1 | -1): void {
  for (const { cost_nano_usd, counters } of held) {
    for (const counter of counters) {
      counter.reserved += sign * cost_nano_usd;
      counter.most += sign * cost_nano_usd;
    }
  }
}

/** What a reservation has on a counter, now and at most. */
function partOf({ request, counters, amount_nano_usd, held }: OpenRequest, counter: Counter) {
  const own = neededIn(counter.name.unit, { ...request, amount_nano_usd });
  const [amount, most] = counters.includes(counter) ? [own.amount, own.most] : [0, 0];
  const there = held.filter((each) => each.counters.includes(counter));
  const kept = there.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0);
  return { on_it: counters.includes(counter) || there.length > 0, amount: amount + kept, most: most + kept };
}

/** Whether a reservation needs more of a counter than another one has on it. */
export function needsMore(moved: OpenRequest, open: OpenRequest, counter: Counter): boolean {
  const [needed, before] = [partOf(moved, counter), partOf(open, counter)];
  return !before.on_it || needed.amount > before.amount || needed.most > before.most;
}

/** The counter on which a reservation is already, in the window it began in. */
export function sharedCounter(
  { counters }: OpenRequest,
  { scope, key, window, unit }: CounterName,
): Counter | undefined {
  return counters.find(
    ({ name }) => name.scope === scope && name.key === key && name.window === window && name.unit === unit,
  );
}

/** Counts a request that was sent to an upstream which it leaves in the minute of that upstream. */
export function countRequest(open: OpenRequest, moved: OpenRequest): void {
  for (const counter of open.counters) {
    const { unit, window } = counter.name;
    if (unit === 'requests' && window !== 'open' && !moved.counters.includes(counter)) counter.spent++;
  }
}

/** An earlier attempt as it is held: where it was before, or on the counters of the reservation as it is. */
export function hold({ held, counters }: OpenRequest, { n, cost_nano_usd }: ChargedAttempt): HeldAttempt {
  const before = held.find((each) => each.n === n);
  const counts = cost_nano_usd > 0;
  return before ?? { n, cost_nano_usd, counters: counters.filter(({ name }) => counts && name.unit === 'nano_usd') };
}
