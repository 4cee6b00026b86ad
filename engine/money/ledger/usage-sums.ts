import type { Clock, Log } from '../../contract/services.ts';
import type { Every } from '../../kit/clock.ts';
import type { Database } from '../../store/database.ts';
import { isUnavailable } from '../../store/store-errors.ts';
import { workForLong } from '../reports/long-report.ts';
import { databaseTime } from './ledger-statements.ts';

const SECONDS_BETWEEN = 10;
/** So few that no statement takes long, even on a busy machine. */
const ROWS_AT_ONCE = 2000;
/** How many lines of an older ledger are wanted at once, and what a step begins with and never passes. */
const LINES_AT_ONCE = 20_000;
const FIRST_MINUTES = 1;
const LEAST_MINUTES = 1 / 60;
const MOST_MINUTES = 60 * 24 * 366;
/** A step that takes less is doubled. */
const QUICK_MS = 250;
/** The rest of the time belongs to requests. */
const BUSY_MS = (SECONDS_BETWEEN * 1000) / 2;

/** Keeps the sums of usage close to the ledger. */
export interface UsageSums {
  /** Adds what waits, and some of a ledger that is older than its sums. Raises store_unavailable. */
  sum(): Promise<void>;
  /** Stops the timer. */
  close(): void;
}

/**
 * Adds lines of the ledger to the sums of their hour and day, every ten seconds; those of a ledger from before there were sums
 * a few at a time. Any number of processes may do this: one at a time does, and a report is right whatever is left to do.
 * Trouble is logged and never raised, except by `sum`.
 */
export function startUsageSums(options: {
  readonly database: Pick<Database, 'query' | 'knex'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
}): UsageSums {
  const { database, clock, log, every } = options;
  let minutes = FIRST_MINUTES;
  let is_complete = false;

  async function sumWaiting(): Promise<void> {
    for (;;) {
      const [row] = await database.query<{ taken: number | null }>('sum_usage', 'select sum_usage($1) as taken', [
        ROWS_AT_ONCE,
      ]);
      if ((row!.taken ?? 0) < ROWS_AT_ONCE) return;
    }
  }

  async function isComplete(): Promise<boolean> {
    const [row] = await database.query<{ is_complete: boolean }>(
      'usage_is_complete',
      "select summed_from = '-infinity' as is_complete from usage_state",
      [],
    );
    return row!.is_complete;
  }

  /** Returns false while another process does it. */
  async function sumOlder(): Promise<boolean> {
    const started = clock.monotonic();
    const [row] = await workForLong(database, (work) =>
      work<{ lines: number | null }>('select sum_older(cast(? as timestamptz), make_interval(secs => ?)) as lines', [
        databaseTime(clock),
        minutes * 60,
      ]),
    );
    const { lines } = row!;
    if (lines === null) return false;
    // Where rows of all times lie side by side all of them are read for a few lines: a smaller step takes as long.
    const is_quick = clock.monotonic() - started < QUICK_MS;
    if (lines > LINES_AT_ONCE * 2) minutes = Math.max(minutes / 2, LEAST_MINUTES);
    else if (lines < (is_quick ? LINES_AT_ONCE : LINES_AT_ONCE / 2)) minutes = Math.min(minutes * 2, MOST_MINUTES);
    return true;
  }

  async function sum(): Promise<void> {
    const until = clock.monotonic() + BUSY_MS;
    await sumWaiting();
    while (!is_complete && clock.monotonic() < until) {
      is_complete = await isComplete();
      if (is_complete || !(await sumOlder())) return;
      await sumWaiting();
    }
  }

  let is_summing = false;
  const close = every(SECONDS_BETWEEN * 1000, async () => {
    if (is_summing) return;
    is_summing = true;
    try {
      await sum();
    } catch (error) {
      // It may have been too much at once.
      minutes = Math.max(minutes / 4, LEAST_MINUTES);
      log[isUnavailable(error) ? 'debug' : 'warn']({ err: error }, 'the sums of usage are behind the ledger');
    } finally {
      is_summing = false;
    }
  });
  return { sum, close };
}
