import type { CounterName, Provenance, ReservationRequest, Settlement } from '../../contract/services.ts';
import type { SpooledRequest, SpoolRecord } from '../../store/spool/spool-file.ts';
import { ledgerIdentity } from '../ledger/reservation.ts';
import { alwaysCounted } from '../limits/limit-demands.ts';
import { NO_TOKENS } from '../prices/prices.ts';

/**
 * Writes one row to the ledger: the settlement, the counters of money it counts on, the time whose windows it counts in, and
 * the only database it may be written to.
 */
export type WriteRow = (
  settlement: Settlement,
  counters: readonly CounterName[],
  at_ms: number,
  database_id: string,
) => Promise<unknown>;

/** What a request in the spool comes to. */
export interface Row {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  readonly at_ms: number;
}

const ESTIMATED: Readonly<Record<string, Provenance>> = Object.fromEntries(
  [...Object.keys(NO_TOKENS), 'cost'].map((number) => [number, 'estimate' as const]),
);

/** What of a reservation is needed for its ledger row. Requests and tokens by minute are over before the row is written. */
export function spooledRequest(request: ReservationRequest): SpooledRequest {
  const counters = new Map<string, CounterName>();
  for (const { scope, key, window, unit } of request.demands) {
    if (unit === 'nano_usd') counters.set(`${scope} ${window} ${key}`, { scope, key, window, unit });
  }
  const { most_nano_usd } = request;
  return { ...ledgerIdentity(request), most_nano_usd, counters: [...counters.values()] };
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
      counters: begun?.request.counters ?? alwaysCounted(settlement),
      at_ms: begun?.at_ms ?? at_ms,
    };
  }
  if (begun === undefined) throw new Error('neither the beginning nor the end of a spooled request is known');
  const { most_nano_usd, counters, ...identity } = begun.request;
  const settlement: Settlement = {
    ...identity,
    status: null,
    aborted: true,
    tokens: NO_TOKENS,
    cost_nano_usd: most_nano_usd,
    provenance: ESTIMATED,
    reserved: false,
  };
  return { settlement, counters, at_ms: begun.at_ms };
}
