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

/** A request in the spool as it goes to another upstream; what earlier attempts cost stays where it counted. */
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
 * The row of a request whose beginning, end, or both are known. Without an end it is an estimate at the most that it can
 * cost. Without a beginning, which only a damaged file brings about, it counts on the counters that are kept for everybody.
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
  if (begun === undefined) throw new Error('neither the beginning nor the end of a spooled request is known');
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

/** The attempt that was under way when its process ended. */
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
