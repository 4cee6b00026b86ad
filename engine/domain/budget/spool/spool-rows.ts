import type {
  ChargedAttempt,
  CounterName,
  Provenance,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import type { SpooledRequest, SpoolRecord } from '../../../base/store/spool/spool-file.ts';
import { ledgerIdentity } from '../ledger/reservation.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { NO_TOKENS } from '../prices/prices.ts';

/**
 * Writes a row to the ledger: the settlement, its counters of money, the time of its windows, and the id of the database it belongs
 * to.
 */
export type WriteRow = (
  settlement: Settlement,
  counters: readonly CounterName[],
  at_ms: number,
  database_id: string,
) => Promise<unknown>;

/** The settlement of a spooled request. */
export interface Row {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  readonly at_ms: number;
}

const ESTIMATED: Readonly<Record<string, Provenance>> = Object.fromEntries(
  [...Object.keys(NO_TOKENS), 'cost'].map((number) => [number, 'estimate' as const]),
);

/** The parts of a reservation that its ledger row needs. Rate windows are over before the row is written. */
export function spooledRequest(request: ReservationRequest): SpooledRequest {
  const counters = new Map<string, CounterName>();
  for (const { scope, key, window, unit } of request.demands) {
    if (unit === 'nano_usd') counters.set(`${scope} ${window} ${key}`, { scope, key, window, unit });
  }
  const { most_nano_usd } = request;
  return { ...ledgerIdentity(request), most_nano_usd, counters: [...counters.values()] };
}

/** A spooled request that moves to another upstream; earlier attempts keep their counters. */
export function movedRequest(
  before: SpooledRequest,
  request: ReservationRequest,
  held: readonly ChargedAttempt[],
): SpooledRequest {
  const moved = spooledRequest(request);
  if (held.length === 0) return moved;
  const known = (n: number) => before.held?.find((attempt) => attempt.n === n);
  const place = (attempt: ChargedAttempt) =>
    attempt.cost_nano_usd === 0 ? attempt : { ...attempt, counters: before.counters };
  return { ...moved, held: held.map((attempt) => known(attempt.n) ?? place(attempt)) };
}

/**
 * The row of a request with a known beginning, end, or both. Without an end its cost is estimated at the maximum. Without a beginning
 * (only in a damaged file) it counts on the counters that always count.
 */
export function rowOf(forwarded: SpoolRecord | undefined, settled: SpoolRecord | undefined): Row {
  const begun = forwarded?.what === 'forwarded' ? forwarded : undefined;
  if (settled?.what === 'settled') {
    const { settlement, at_ms } = settled;
    const { held } = begun?.request ?? {};
    const attempts =
      held && settlement.attempts?.map((attempt) => ({ ...attempt, counters: countersIn(held, attempt) }));
    return {
      settlement: { ...settlement, ...(attempts && { attempts }), reserved: false },
      counters: begun?.request.counters ?? alwaysCounted(settlement),
      at_ms: begun?.at_ms ?? at_ms,
    };
  }
  if (begun === undefined) throw new Error('a spooled request has neither beginning nor end');
  const { most_nano_usd, counters, held = [], ...identity } = begun.request;
  const possible = held.reduce((sum, { possibly_billed_nano_usd = 0 }) => sum + possibly_billed_nano_usd, 0);
  const settlement: Settlement = {
    ...identity,
    status: null,
    aborted: true,
    tokens: NO_TOKENS,
    cost_nano_usd: held.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, most_nano_usd),
    provenance: ESTIMATED,
    ...(possible > 0 && { possibly_billed_nano_usd: possible }),
    ...(held.length > 0 && { attempts: [...held, unheardOf(begun.request, held.at(-1)!.n + 1)] }),
    reserved: false,
  };
  return { settlement, counters, at_ms: begun.at_ms };
}

function countersIn(
  held: NonNullable<SpooledRequest['held']>,
  { n }: ChargedAttempt,
): readonly CounterName[] | undefined {
  return held.find((attempt) => attempt.n === n)?.counters;
}

/** The attempt in flight when its process ended. */
function unheardOf({ upstream, upstream_model, most_nano_usd }: SpooledRequest, n: number): ChargedAttempt {
  const what = {
    certainty: 'possibly_accepted',
    status: null,
    outcome: 'unanswered',
    reason: 'gone',
    sends: 1,
  } as const;
  return { n, upstream, upstream_model, ...what, ms: 0, cost_nano_usd: most_nano_usd, provenance: 'estimate' };
}
