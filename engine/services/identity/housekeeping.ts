import type { Clock, Log } from '../../api.ts';
import { type Every, everyInBackground } from '../clock.ts';
import type { Database } from '../database.ts';
import { waitAtMost } from '../wait-at-most.ts';

/** The removal of what sign-in has no more use for. */
export interface Housekeeping {
  /** Removes what is due. A timer calls it; so may a test. Never rejects. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

const INTERVAL_MS = 600_000;
const CLOSE_PATIENCE_MS = 500;
const BATCH = 1000;
/** What is left then waits for the next sweep. */
const MAX_BATCHES = 100;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Tables, the column that tells their age, and how long after it a row is kept. */
const DUE = [
  // A device that asks late hears that its code has expired, not that there never was one.
  { table: 'device_grants', column: 'expires_at', kept_ms: HOUR_MS },
  // The longest span attempts are counted over.
  { table: 'attempts', column: 'window_start', kept_ms: DAY_MS },
  // Administrators look back at what was.
  { table: 'sessions', column: 'expires_at', kept_ms: 30 * DAY_MS },
  // Of people who always have another session.
  { table: 'ended_grants', column: 'ended_at', kept_ms: 30 * DAY_MS },
  // Long enough to be asked about.
  { table: 'refused_sign_ins', column: 'at', kept_ms: 14 * DAY_MS },
] as const;

/** Starts removing expired sign-ins, attempts and sessions, every ten minutes and a few at a time. */
export function startHousekeeping(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}): Housekeeping {
  const { database, clock, log, every = everyInBackground } = options;
  let sweeping: Promise<void> | undefined;
  let closed = false;

  const removeFrom = async ({ table, column, kept_ms }: (typeof DUE)[number]) => {
    for (let batch = 0; batch < MAX_BATCHES && !closed; batch++) {
      const removed = await database.query(
        `sweep_${table}`,
        // Another replica may be at the same rows.
        `delete from ${table} where ctid in (
           select ctid from ${table} where ${column} < $1 limit ${BATCH} for update skip locked
         ) returning 1`,
        [new Date(clock.now() - kept_ms)],
      );
      if (removed.length < BATCH) return;
    }
  };
  const sweepAll = async () => {
    try {
      for (const due of DUE) await removeFrom(due);
    } catch (error) {
      log.debug({ err: error }, 'expired sign-ins and sessions were not removed');
    }
  };
  const sweep = () => {
    sweeping ??= sweepAll().finally(() => {
      sweeping = undefined;
    });
    return sweeping;
  };
  const stop = every(INTERVAL_MS, sweep);

  return {
    sweep,
    async close() {
      stop();
      closed = true;
      if (sweeping !== undefined) await waitAtMost(CLOSE_PATIENCE_MS, sweeping);
    },
  };
}
