import type { Log } from '../contract/services.ts';
import { type Every, everyInBackground } from './clock.ts';
import { waitAtMost } from './wait-at-most.ts';

const CLOSE_TIMEOUT_MS = 500;
const PENDING_MAX = 10_000;

/** A write-behind cache: values by key, written in batches at an interval, and retried after a failure. */
export interface WriteBehind<Value> {
  note(key: string, value: Value): void;
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a write-behind cache. */
export function openWriteBehind<Value>(options: {
  readonly write: (pending: ReadonlyMap<string, Value>) => Promise<unknown>;
  /** Merges a new value into a pending one; default: replaces it. */
  readonly merge?: (before: Value, now: Value) => Value;
  readonly interval_ms: number;
  readonly max?: number;
  readonly when_late: string;
  readonly log: Log;
  readonly every?: Every | undefined;
}): WriteBehind<Value> {
  const { write, merge = (_, now) => now, interval_ms, max = PENDING_MAX, log, every = everyInBackground } = options;
  let pending = new Map<string, Value>();
  let writing: Promise<void> | undefined;

  async function writePending(): Promise<void> {
    const taken = pending;
    pending = new Map();
    try {
      await write(taken);
    } catch (error) {
      log.debug({ err: error }, options.when_late);
      for (const [key, now] of pending) {
        if (taken.has(key)) taken.set(key, merge(taken.get(key)!, now));
        else if (taken.size < max) taken.set(key, now);
      }
      pending = taken;
    }
  }
  async function flush(): Promise<void> {
    await writing;
    if (pending.size === 0) return;
    writing ??= writePending().finally(() => {
      writing = undefined;
    });
    await writing;
  }
  const stop = every(interval_ms, () => {
    // One write at a time: a slow database must not pile up flushes.
    if (writing === undefined) void flush();
  });

  return {
    note(key, value) {
      if (pending.has(key)) pending.set(key, merge(pending.get(key)!, value));
      else if (pending.size < max) pending.set(key, value);
    },
    flush,
    async close() {
      stop();
      await waitAtMost(CLOSE_TIMEOUT_MS, flush());
    },
  };
}
