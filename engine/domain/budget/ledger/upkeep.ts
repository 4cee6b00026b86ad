import type { RetentionConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import { databaseTime } from './ledger-statements.ts';

/** Runs `work` at an interval, unless it is still running; logs its errors. @returns a function that stops it */
function startWork(
  { every, log }: { readonly every: Every; readonly log: Log },
  interval_ms: number,
  failure: string,
  work: () => Promise<unknown>,
): () => void {
  let is_running = false;
  return every(interval_ms, async () => {
    if (is_running) return;
    is_running = true;
    try {
      await work();
    } catch (error) {
      log[isUnavailable(error) ? 'debug' : 'warn']({ err: error }, failure);
    } finally {
      is_running = false;
    }
  });
}

/** Months to keep; absent means forever. */
export type RetentionMonths = Partial<RetentionConfig>;

const MINUTE_MS = 60_000;
const MINUTES_BETWEEN = 60;
const COUNTERS_AT_ONCE = 5000;
const MONTHS_MAX = 1200;

/**
 * Drops whole months (partitions) of the ledger and of the audit log that are older than `retention`: a minute after the
 * start, then hourly. Processes take turns by a lock. A month whose table is in use is dropped an hour later. Errors are
 * logged and only raised by `sweep`.
 */
export function startRetention(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Read before each sweep, because a reload can change it. */
  readonly retention: () => RetentionMonths | undefined;
  readonly every: Every;
}) {
  const { database, clock, log, retention } = options;

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
        log.info({ table }, 'an expired month is in use; retrying in an hour');
        break;
      }
      log.info({ table: row.dropped, rows_before: row.rows_before, months_kept: months }, 'dropped an expired month');
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

  let minutes = 0;
  // The first sweep is early: some gateways run for less than an hour.
  const close = startWork(options, MINUTE_MS, 'could not drop expired months', async () => {
    if (minutes++ % MINUTES_BETWEEN === 0) await sweep();
  });
  return {
    /** Drops expired months. @returns their table names. Raises store_unavailable. */
    sweep,
    close,
  };
}

/** The retention of the ledger and the audit log. */
export type Retention = ReturnType<typeof startRetention>;

const SUMS_MS = 10_000;
const ROWS_AT_ONCE = 2000;

/**
 * Aggregates ledger rows by hour and day, every ten seconds. Processes take turns by a lock. Reports add rows that are not
 * aggregated yet, so they are always complete. Errors are logged and only raised by `sum`.
 */
export function startUsageSums(options: {
  readonly database: Pick<Database, 'query'>;
  readonly log: Log;
  readonly every: Every;
}) {
  const { database } = options;

  async function sum(): Promise<void> {
    for (;;) {
      const text = 'select sum_usage($1) as taken';
      const [row] = await database.query<{ taken: number | null }>('sum_usage', text, [ROWS_AT_ONCE]);
      if ((row!.taken ?? 0) < ROWS_AT_ONCE) return;
    }
  }

  const close = startWork(options, SUMS_MS, 'could not aggregate usage', sum);
  return {
    sum,
    close,
  };
}

/** Background aggregation of usage. */
export type UsageSums = ReturnType<typeof startUsageSums>;
