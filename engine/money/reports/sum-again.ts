import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../../store/database.ts';
import { workForLong } from './long-report.ts';

const ROWS_AT_ONCE = 20_000;
const RETRY_MS = 100;

/**
 * Computes the sums of some days of UTC (YYYY-MM-DD, by default all) anew from the ledger. A report is right meanwhile. Returns
 * how many lines the ledger has there. Errors are pg's own.
 */
export async function sumAgain(
  database: Pick<Database, 'knex'>,
  { since, until }: { readonly since?: string | undefined; readonly until?: string | undefined },
): Promise<number> {
  const days = [since === undefined ? '-infinity' : `${since}Z`, until === undefined ? 'infinity' : `${until}Z`];
  const lines = await whenFree(() =>
    workForLong(database, (work) => work<{ done: number | null }>('select sum_again(?, ?) as done', days)),
  );
  for (;;) {
    const taken = await whenFree(() =>
      workForLong(database, (work) => work<{ done: number | null }>('select sum_usage(?) as done', [ROWS_AT_ONCE])),
    );
    if (taken < ROWS_AT_ONCE) return lines;
  }
}

/** Another process may be at work on the sums, which never takes long. */
async function whenFree(work: () => Promise<{ readonly done: number | null }[]>): Promise<number> {
  for (;;) {
    const [row] = await work();
    if (row!.done !== null) return row!.done;
    await delay(RETRY_MS);
  }
}
