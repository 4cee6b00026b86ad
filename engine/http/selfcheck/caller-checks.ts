import { LRUCache } from 'lru-cache';
import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import { atMost } from '../../kit/memory.ts';

/** What a caller may ask at once, and what comes back each second. A MiB of body counts as much as a request. */
const BURST = 120;
const PER_SECOND = 1;
const UNIT_BYTES = 1024 * 1024;
/** Requests under way: of one caller, and of all. */
const AT_ONCE_PER_CALLER = 4;
const AT_ONCE = 256;
/** Callers that are remembered; whoever is forgotten begins anew. */
const CALLERS_MAX = 20_000;

interface Known {
  left: number;
  at: number;
  under_way: number;
}

/** Bounds on how often callers ask how their requests arrive. */
export class CallerChecks {
  readonly #clock: Clock;
  readonly #callers = new LRUCache<string, Known>(atMost(CALLERS_MAX));
  #under_way = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request; `end` is called once it is over. Raises rate_limit_exceeded, or overloaded where the process has enough of them. */
  begin(caller: string): { count(bytes: number): void; end(): void } {
    const known = this.#refilled(caller);
    if (known.left < 1) throw tooMany('You asked too often how your requests arrive', Math.ceil(1 - known.left));
    if (known.under_way >= AT_ONCE_PER_CALLER) {
      throw tooMany(`You may ask ${AT_ONCE_PER_CALLER} times at once how your requests arrive`, 2);
    }
    if (this.#under_way >= AT_ONCE) {
      throw new StageError('overloaded', 'The gateway answers as many self-checks as it may; ask again shortly.', {
        headers: { 'retry-after': '2' },
      });
    }
    known.left -= 1;
    known.under_way++;
    this.#under_way++;
    return {
      count: (bytes) => {
        known.left -= bytes / UNIT_BYTES;
      },
      end: () => {
        known.under_way--;
        this.#under_way--;
      },
    };
  }

  #refilled(caller: string): Known {
    const now = this.#clock.monotonic();
    let known = this.#callers.get(caller);
    if (known === undefined) {
      known = { left: BURST, at: now, under_way: 0 };
      this.#callers.set(caller, known);
    }
    known.left = Math.min(BURST, known.left + ((now - known.at) / 1000) * PER_SECOND);
    known.at = now;
    return known;
  }
}

function tooMany(what: string, seconds: number): StageError {
  return new StageError('rate_limit_exceeded', `${what}; ask again in ${seconds} seconds.`, {
    headers: { 'retry-after': String(seconds) },
  });
}
