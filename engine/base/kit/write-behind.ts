import type { Log } from '../contract/services.ts';
import { type Every, everyInBackground } from './clock.ts';
import { waitAtMost } from './wait-at-most.ts';

const CLOSE_PATIENCE_MS = 500;
/** A new key beyond so many is forgotten. */
const MAX_NOTED = 10_000;

/** Values by key that are written soon, many at once, and later where that fails. Nothing waits for it. */
export interface WriteBehind<Value> {
  note(key: string, value: Value): void;
  flush(): Promise<void>;
  close(): Promise<void>;
}

export function openWriteBehind<Value>(options: {
  readonly write: (noted: ReadonlyMap<string, Value>) => Promise<unknown>;
  /** What a key that has a value gets; the new one where nothing is said. */
  readonly merge?: (before: Value, now: Value) => Value;
  readonly interval_ms: number;
  readonly max?: number;
  readonly when_late: string;
  readonly log: Log;
  readonly every?: Every | undefined;
}): WriteBehind<Value> {
  const { write, merge = (_, now) => now, interval_ms, max = MAX_NOTED, log, every = everyInBackground } = options;
  let noted = new Map<string, Value>();
  let writing: Promise<void> | undefined;

  async function writeNoted(): Promise<void> {
    const taken = noted;
    noted = new Map();
    try {
      await write(taken);
    } catch (error) {
      log.debug({ err: error }, options.when_late);
      for (const [key, now] of noted) {
        if (taken.has(key)) taken.set(key, merge(taken.get(key)!, now));
        else if (taken.size < max) taken.set(key, now);
      }
      noted = taken;
    }
  }
  async function flush(): Promise<void> {
    await writing;
    if (noted.size === 0) return;
    writing ??= writeNoted().finally(() => {
      writing = undefined;
    });
    await writing;
  }
  const stop = every(interval_ms, () => {
    // What a slow database is still at is not waited for twice.
    if (writing === undefined) void flush();
  });

  return {
    note(key, value) {
      if (noted.has(key)) noted.set(key, merge(noted.get(key)!, value));
      else if (noted.size < max) noted.set(key, value);
    },
    flush,
    async close() {
      stop();
      await waitAtMost(CLOSE_PATIENCE_MS, flush());
    },
  };
}
