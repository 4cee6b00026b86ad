/** Ledgers with budget leases, and limits for them. */
import assert from 'node:assert/strict';
import type { LimitDemand, ReservationDecision, ReservationRequest } from '../../../engine/api.ts';
import type { Clock } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { LEASE_POLICY, type LeasePolicy } from '../../../engine/domain/budget/leases/leases.ts';
import { DatabaseLedger, type LedgerOptions } from '../../../engine/domain/budget/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { assertGranted, quietLog, reservation, settlement } from '../../support/store.ts';
import { until } from '../../support/until.ts';

/** Leases all remaining headroom, from the first request on. */
export const GREEDY: LeasePolicy = { busy_per_second: 1, seconds: 2, requests: 10, headroom_factor: 1 };

/** The system clock with a monotonic time that the test sets: it decides the measured demand on counters. */
export function stoppedClock(): Clock & { passed_ms: number } {
  const clock = {
    ...systemClock,
    passed_ms: 0,
    now: () => systemClock.now() + clock.passed_ms,
    monotonic: () => clock.passed_ms,
  };
  return clock;
}

/** A ledger with leases, from the first request on; `close` it. */
export class LeasingLedger extends DatabaseLedger {
  readonly #database: Database;

  constructor(
    database: Database,
    more: Partial<LedgerOptions> & { readonly policy?: LeasePolicy; readonly is_on?: () => boolean } = {},
  ) {
    const { policy = { ...LEASE_POLICY, busy_per_second: 1 }, is_on = () => true, ...options } = more;
    const leases = { lanes: database.lanes, listen: database.listen, is_on, policy };
    super({ database, clock: systemClock, log: quietLog, leases, ...options });
    this.#database = database;
  }

  /** Leases need an open pipelined connection. */
  async laneOpened(): Promise<void> {
    await until('a lane is open', () => this.#database.lanes().free() !== undefined);
  }
}

/** The monthly limit of a team. */
export function teamLimit(team: string, limit: number): LimitDemand {
  return { scope: 'team', key: team, window: 'month', unit: 'nano_usd', limit, rule: 'team' };
}

/** Reserves. */
export async function ask(
  ledger: DatabaseLedger,
  demands: readonly LimitDemand[],
  more: Partial<ReservationRequest> = {},
): Promise<{ readonly request: ReservationRequest; readonly decision: ReservationDecision }> {
  const request = reservation({ demands, ...more });
  return { request, decision: await ledger.reserve(request) };
}

/** Reserves and settles until requests are placed in leases. @returns the settled amount, in nano-USD. */
export async function warmUp(
  ledger: LeasingLedger,
  demands: readonly LimitDemand[],
  more: () => Partial<ReservationRequest> = () => ({}),
): Promise<number> {
  const before = ledger.lease_counts!.leased;
  let spent = 0;
  await ledger.laneOpened();
  await until('requests are placed in leases', async () => {
    const { request, decision } = await ask(ledger, demands, more());
    assertGranted(decision);
    await ledger.settle(settlement(request));
    spent += settlement(request).cost_nano_usd;
    // Its timer may be off, and a ledger that is not heard of for long leases nothing.
    await ledger.sayAlive();
    return ledger.lease_counts!.leased > before;
  });
  return spent;
}

/** Fails unless counters, reservations, leases and ledger agree. */
export async function assertAddsUp(database: Database, clock: Clock = systemClock): Promise<void> {
  const { differences, repeated, uncounted, attempts } = await verifyLedger({ database, clock });
  for (const found of [differences, repeated, uncounted, attempts]) assert.deepEqual(found, { total: 0, first: [] });
}

/** For how many requests there are leases on the counters of a key. */
export async function leasedRequests(database: Database, key: string): Promise<number> {
  const [row] = await database.query<{ requests: number }>(
    'test_leased',
    `select coalesce(sum(l.requests), 0)::bigint as requests
     from reservation_leases l join spend_counters s on s.id = l.counter_id where s.key = $1`,
    [key],
  );
  return row!.requests;
}
