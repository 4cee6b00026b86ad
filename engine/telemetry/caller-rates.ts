import { LRUCache } from 'lru-cache';
import { StageError } from '../contract/errors.ts';
import type { Clock } from '../contract/services.ts';
import { atMost } from '../kit/memory.ts';

/** What a caller may send at once, and what it may send again for each second, in bytes after decompression. */
const BURST_BYTES = 32 * 1024 * 1024;
const BYTES_PER_SECOND = 512 * 1024;
/** What a request counts beside its bytes: thirty-two empty ones a second are as many as anybody may send. */
const REQUEST_BYTES = 16 * 1024;
/** Callers that are remembered; whoever is forgotten may send as much as one who sent nothing. */
const CALLERS_MAX = 20_000;

/** How much telemetry each caller has sent lately. */
export class CallerRates {
  readonly #clock: Clock;
  readonly #callers = new LRUCache<string, { left: number; at: number }>(atMost(CALLERS_MAX));

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request. Raises rate_limit_exceeded when the caller has sent too much. */
  begin(caller: string): void {
    const known = this.#refilled(caller);
    if (known.left <= 0) {
      const seconds = Math.max(1, Math.ceil((REQUEST_BYTES - known.left) / BYTES_PER_SECOND));
      throw new StageError(
        'rate_limit_exceeded',
        `You have sent more telemetry than ${BYTES_PER_SECOND} bytes a second; send the next in ${seconds} seconds.`,
        { headers: { 'retry-after': String(seconds) } },
      );
    }
    known.left -= REQUEST_BYTES;
  }

  /** Counts what a request that was begun has brought. */
  count(caller: string, bytes: number): void {
    this.#refilled(caller).left -= bytes;
  }

  #refilled(caller: string): { left: number } {
    const now = this.#clock.monotonic();
    let known = this.#callers.get(caller);
    if (known === undefined) {
      known = { left: BURST_BYTES, at: now };
      this.#callers.set(caller, known);
    }
    known.left = Math.min(BURST_BYTES, known.left + ((now - known.at) / 1000) * BYTES_PER_SECOND);
    known.at = now;
    return known;
  }
}
