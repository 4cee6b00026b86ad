import type { Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';

const SECONDS_BETWEEN = 10;
/** Batch size, so that no statement takes long on a busy machine. */
const ROWS_AT_ONCE = 2000;

/** Background aggregation of usage. */
export interface UsageSums {
  /** Aggregates all new ledger rows. Raises store_unavailable. */
  sum(): Promise<void>;
  close(): void;
}

/**
 * Aggregates ledger rows by hour and day, every ten seconds. Processes take turns by a lock. Reports add rows that are not
 * aggregated yet, so they are always complete. Errors are logged and only raised by `sum`.
 */
export function startUsageSums(options: {
  readonly database: Pick<Database, 'query'>;
  readonly log: Log;
  readonly every: Every;
}): UsageSums {
  const { database, log, every } = options;

  async function sum(): Promise<void> {
    for (;;) {
      const text = 'select sum_usage($1) as taken';
      const [row] = await database.query<{ taken: number | null }>('sum_usage', text, [ROWS_AT_ONCE]);
      if ((row!.taken ?? 0) < ROWS_AT_ONCE) return;
    }
  }

  let is_summing = false;
  const close = every(SECONDS_BETWEEN * 1000, async () => {
    if (is_summing) return;
    is_summing = true;
    try {
      await sum();
    } catch (error) {
      log[isUnavailable(error) ? 'debug' : 'warn']({ err: error }, 'could not aggregate usage');
    } finally {
      is_summing = false;
    }
  });
  return { sum, close };
}
