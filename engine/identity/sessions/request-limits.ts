import { LRUCache } from 'lru-cache';
import type { Clock } from '../../contract/services.ts';
import { atMost } from '../../kit/memory.ts';

/** One request too many, and when to try again. */
export interface Wait {
  readonly retry_after_seconds: number;
}

/** Who sends from more addresses at once is held up by something else. */
const MAX_KEYS = 20_000;

interface Bucket {
  left: number;
  /** When `left` was true, by the monotonic clock. */
  at: number;
}

/** Counts requests by a key in this process alone: so many at once, and so many in each span of time. */
export type RequestLimit = ReturnType<typeof createRequestLimit>;

/** Creates a limit. The keys that were used last are kept, so that memory stays bounded. */
export function createRequestLimit({
  clock,
  most,
  window_seconds,
}: {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly most: number;
  readonly window_seconds: number;
}) {
  const buckets = new LRUCache<string, Bucket>(atMost(MAX_KEYS));
  const per_ms = most / (window_seconds * 1000);
  return {
    /** Counts one request, unless it is one too many: then nothing is counted, and it says how long to wait. */
    take(key: string): Wait | undefined {
      const now = clock.monotonic();
      const bucket = buckets.get(key) ?? { left: most, at: now };
      bucket.left = Math.min(most, bucket.left + (now - bucket.at) * per_ms);
      bucket.at = now;
      buckets.set(key, bucket);
      if (bucket.left < 1) return { retry_after_seconds: Math.max(1, Math.ceil((1 - bucket.left) / per_ms / 1000)) };
      bucket.left -= 1;
      return undefined;
    },
    /** Takes one counted request back. */
    giveBack(key: string): void {
      const bucket = buckets.get(key);
      if (bucket !== undefined) bucket.left = Math.min(most, bucket.left + 1);
    },
  };
}
