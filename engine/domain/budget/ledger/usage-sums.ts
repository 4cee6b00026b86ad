import type { Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { Database } from '../../../base/store/database.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';

const SECONDS_BETWEEN = 10;
/** So few that no statement takes long, even on a busy machine. */
const ROWS_AT_ONCE = 2000;

/** Keeps the sums of usage close to the ledger. */
export interface UsageSums {
  /** Adds what waits. Raises store_unavailable. */
  sum(): Promise<void>;
  close(): void;
}

/**
 * Adds lines of the ledger to the sums of their hour and day, every ten seconds. Any number of processes may do this: one at a
 * time does, and a report is right whatever is left to do. Trouble is logged and never raised, except by `sum`.
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
      log[isUnavailable(error) ? 'debug' : 'warn']({ err: error }, 'the sums of usage are behind the ledger');
    } finally {
      is_summing = false;
    }
  });
  return { sum, close };
}
