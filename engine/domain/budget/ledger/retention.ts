import type { RetentionConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import { databaseTime } from './ledger-statements.ts';

/** How many months are kept; what is absent is kept forever as well. */
export type RetentionMonths = Partial<RetentionConfig>;

const MINUTE_MS = 60_000;
const MINUTES_BETWEEN = 60;
/** Old counters are deleted so many at a time, so that no statement takes long. */
const COUNTERS_AT_ONCE = 5000;
/** More months than anybody keeps; a loop that goes on longer has gone wrong. */
const MONTHS_MAX = 1200;

/**
 * Drops whole months of the ledger and of the audit log once they are older than `retention` says: a minute after the
 * start, and every hour. Any number of processes may do this: one at a time does. Nothing waits for a report that reads the
 * tables: the month is dropped an hour later. Trouble is logged and never raised, except by `sweep`.
 */
export function startRetention(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Asked before each sweep, so that a reload changes it. */
  readonly retention: () => RetentionMonths | undefined;
  readonly every: Every;
}) {
  const { database, clock, log, retention, every } = options;

  async function dropMonths(table: 'ledger' | 'audit_log', months: number | 'forever' = 'forever'): Promise<string[]> {
    const dropped: string[] = [];
    while (months !== 'forever' && dropped.length < MONTHS_MAX) {
      const [row] = await database.query<{ dropped: string | null; rows_before: Date | null }>(
        'drop_oldest_partition',
        'select dropped, rows_before from drop_oldest_month($1, $2, $3)',
        [table, months, databaseTime(clock)],
      );
      if (row === undefined) break;
      if (row.dropped === null) {
        log.info({ table }, 'a month that is too old stays another hour, because its table is in use');
        break;
      }
      log.info(
        { table: row.dropped, rows_before: row.rows_before, months_kept: months },
        'dropped a month that is too old',
      );
      dropped.push(row.dropped);
    }
    return dropped;
  }

  async function deleteCounters(): Promise<void> {
    for (;;) {
      const [row] = await database.query<{ deleted: number }>(
        'delete_old_counters',
        'select delete_old_counters($1) as deleted',
        [COUNTERS_AT_ONCE],
      );
      if (row!.deleted < COUNTERS_AT_ONCE) return;
    }
  }

  async function sweep(): Promise<string[]> {
    const kept = retention();
    if (kept === undefined) return [];
    const dropped = await dropMonths('ledger', kept.ledger_months);
    dropped.push(...(await dropMonths('audit_log', kept.audit_months)));
    if ((kept.ledger_months ?? 'forever') !== 'forever') await deleteCounters();
    return dropped;
  }

  let sweeping = false;
  let minutes = 0;
  // A minute after the start already: some gateways never live for an hour.
  const stop = every(MINUTE_MS, async () => {
    if (minutes++ % MINUTES_BETWEEN !== 0 || sweeping) return;
    sweeping = true;
    try {
      await sweep();
    } catch (error) {
      log[isUnavailable(error) ? 'debug' : 'warn']({ err: error }, 'months that are too old could not be dropped');
    } finally {
      sweeping = false;
    }
  });
  return {
    /** Drops every month that is too old, and says which. Raises store_unavailable. */
    sweep,
    stop,
  };
}

/** Keeps the ledger and the audit log as long as the operator wants. */
export type Retention = ReturnType<typeof startRetention>;
