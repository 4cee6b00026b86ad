import { setTimeout as delay } from 'node:timers/promises';
import type { Clock, CounterName } from '../../contract/services.ts';
import type { Database } from '../../store/database.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';

/** What is leased is given back within milliseconds, unless a process is in trouble. */
const PATIENCE_MS = 1000;
const STEP_MS = 5;

/**
 * Resolves when nobody has leases on a counter that were taken under a limit that has just been changed: the change has asked for
 * them. What a process has that does not answer within a second stays its own for as long as it may use it.
 */
export async function leasesBack(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now' | 'frozen'> },
  { scope, key, window, unit }: CounterName,
): Promise<void> {
  const patience_ends = performance.now() + PATIENCE_MS;
  do {
    const [row] = await database.query<{ is_leased: boolean }>(
      'leases_back',
      `select exists (
         select from spend_counters s
         join reservation_leases l on l.counter_id = s.id
         join processes p on p.id = l.process_id
         where s.scope = $1 and s.key = $2 and s.window_kind = $3 and s.unit = $4
           and p.heartbeat_at > coalesce($5::timestamptz, now()) - interval '15 seconds') as is_leased`,
      [scope, key, window, unit, databaseTime(clock)],
    );
    if (!row!.is_leased) return;
    await delay(STEP_MS);
  } while (performance.now() < patience_ends);
}
