import type { Log } from '../../base/contract/services.ts';
import type { Every } from '../../base/kit/clock.ts';
import type { Database } from '../../base/store/database.ts';
import { newestRecordId, type RequestRecord, recordsAfter } from './request-records.ts';

/** A subscriber to new audit records. */
export interface Listener {
  /** Caller whose quota of listeners it uses. */
  readonly caller: string;
  /** Row to begin after; absent: the newest. */
  readonly after?: number | undefined;
  take(records: readonly RequestRecord[]): void;
  end(): void;
}

const POLL_MS = 1000;
const BATCH = 500;
const BATCHES_MAX = 4;
/** A listener that is further behind skips the records in between. */
const CATCH_UP_MAX = 2000;
const LISTENERS_MAX = 100;
const LISTENERS_PER_CALLER = 5;

/** Opens the feed of new records. It polls the database once a second for all listeners, and only while there are any. */
export function openLiveRecords(options: {
  readonly database: Pick<Database, 'query'>;
  readonly log: Log;
  readonly every: Every;
  readonly stopping: () => boolean;
}) {
  const { database, log, every, stopping } = options;
  const positions = new Map<Listener, number>();
  const joining = new Set<Listener>();
  let polling = false;
  let failed = false;

  async function poll(): Promise<void> {
    if (stopping()) return endAll();
    if (positions.size === 0 || polling) return;
    polling = true;
    try {
      for (let batch = 0; batch < BATCHES_MAX; batch++) {
        const rows = await recordsAfter(database, Math.min(...positions.values()), BATCH);
        deliver(rows);
        if (rows.length < BATCH || positions.size === 0) break;
      }
      failed = false;
    } catch (error) {
      if (!failed) log.debug({ err: error }, 'the live feed of requests pauses: the database is unavailable');
      failed = true;
    } finally {
      polling = false;
    }
  }

  function deliver(rows: readonly RequestRecord[]): void {
    const last = rows.at(-1)?.id;
    if (last === undefined) return;
    for (const [listener, position] of positions) {
      const fresh = rows.filter(({ id }) => id > position);
      if (fresh.length === 0) continue;
      positions.set(listener, last);
      listener.take(fresh);
    }
  }

  function endAll(): void {
    const listeners = [...positions.keys()];
    positions.clear();
    for (const listener of listeners) listener.end();
  }

  const stop = every(POLL_MS, poll);
  return {
    /** @returns the function that unsubscribes; `undefined` when there are too many listeners. Raises store_unavailable. */
    async listen(listener: Listener): Promise<(() => void) | undefined> {
      const all = [...positions.keys(), ...joining];
      const own = all.filter(({ caller }) => caller === listener.caller).length;
      if (stopping() || all.length >= LISTENERS_MAX || own >= LISTENERS_PER_CALLER) return undefined;
      joining.add(listener);
      try {
        const newest = await newestRecordId(database);
        if (stopping()) return undefined;
        positions.set(listener, Math.max(Math.min(listener.after ?? newest, newest), newest - CATCH_UP_MAX));
      } finally {
        joining.delete(listener);
      }
      return () => void positions.delete(listener);
    },
    close(): void {
      stop();
      endAll();
    },
  };
}

/** Feed of new audit records of all gateways on the database. */
export type LiveRecords = ReturnType<typeof openLiveRecords>;
