import type { CounterName, Provenance, ReservationRequest, Settlement } from '../api.ts';
import type { SpooledRequest, SpoolRecord } from './spool-file.ts';

/** Writes one row to the ledger: the settlement, the counters of money it counts on, the time whose windows it counts in. */
export type WriteRow = (settlement: Settlement, counters: readonly CounterName[], at_ms: number) => Promise<unknown>;

/** What a request in the spool comes to. */
export interface Row {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  readonly at_ms: number;
}

const NOTHING = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
const ESTIMATED: Readonly<Record<string, Provenance>> = Object.fromEntries(
  [...Object.keys(NOTHING), 'cost'].map((number) => [number, 'estimate' as const]),
);

/** What of a reservation is needed for its ledger row. Requests and tokens by minute are over before the row is written. */
export function spooledRequest(request: ReservationRequest): SpooledRequest {
  const { claims, amount_nano_usd: _, overshoot_percent: __, tokens: ___, on_store_error: ____, ...rest } = request;
  const counters = new Map<string, CounterName>();
  for (const { scope, key, window, unit } of claims) {
    if (unit === 'nano_usd') counters.set(`${scope} ${window} ${key}`, { scope, key, window, unit });
  }
  return { ...rest, counters: [...counters.values()] };
}

/**
 * The row of a request whose beginning, end, or both are known. Without an end it is an estimate at the most that it can
 * cost. Without a beginning, which only a damaged file brings about, it counts on the counters that are kept for everybody.
 */
export function rowOf(forwarded: SpoolRecord | undefined, settled: SpoolRecord | undefined): Row {
  const begun = forwarded?.what === 'forwarded' ? forwarded : undefined;
  if (settled?.what === 'settled') {
    const { settlement, at_ms } = settled;
    return {
      settlement: { ...settlement, reserved: false },
      counters: begun?.request.counters ?? everybodysCounters(settlement),
      at_ms: begun?.at_ms ?? at_ms,
    };
  }
  if (begun === undefined) throw new Error('neither the beginning nor the end of a spooled request is known');
  const { most_nano_usd, counters, ...identity } = begun.request;
  const settlement: Settlement = {
    ...identity,
    status: null,
    aborted: true,
    tokens: NOTHING,
    cost_nano_usd: most_nano_usd,
    provenance: ESTIMATED,
    reserved: false,
  };
  return { settlement, counters, at_ms: begun.at_ms };
}

function everybodysCounters({ user, team }: Settlement): CounterName[] {
  const own: CounterName = { scope: 'user', key: user, window: 'day', unit: 'nano_usd' };
  return team === null ? [own] : [own, { scope: 'team', key: team, window: 'month', unit: 'nano_usd' }];
}
