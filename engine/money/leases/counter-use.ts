import { LRUCache } from 'lru-cache';
import { atMost } from '../../kit/memory.ts';

/** An amount on a counter, in its unit: what is likely, the most it can come to, and how many requests it is for. */
export interface Amounts {
  amount: number;
  most: number;
  requests: number;
}

/** How a counter was used lately. */
interface Use {
  /** Of the monotonic clock; `now` is what was asked for in it, `before` in the one before it. */
  second: number;
  now: Amounts;
  before: Amounts;
  /** The largest single request. */
  largest: Amounts;
  /** The smallest limit that was asked for, in this second and the one before. */
  limit: number;
  limit_before: number;
  /** Nothing is leased before this moment of the monotonic clock. */
  rests_until: number;
}

const SECOND_MS = 1000;
/** The counters that are remembered, those that were used last. */
const MAX_COUNTERS = 20_000;

/** When a counter gets a lease, and how large it is. */
export interface LeasePolicy {
  /** A counter that is used less often in a second than this is not worth a lease. */
  readonly busy: number;
  /** A lease is for as much as so many seconds of use, */
  readonly seconds: number;
  /** and for so many requests of the largest kind at least. */
  readonly requests: number;
  /** It is taken only where so many times as much is left of the limit. */
  readonly share: number;
}

/** What gateways go by. */
export const LEASE_POLICY: LeasePolicy = { busy: 4, seconds: 2, requests: 4, share: 16 };

const nothing = (): Amounts => ({ amount: 0, most: 0, requests: 0 });

/** What is asked of counters in one process, by which leases are measured. */
export class CounterUse {
  readonly #policy: LeasePolicy;
  readonly #uses = new LRUCache<string, Use>(atMost(MAX_COUNTERS));

  constructor(policy: LeasePolicy) {
    this.#policy = policy;
  }

  /** Takes note of a request. @returns whether the counter is busy enough for a lease, and not to be left alone. */
  note(counter: string, amount: number, most: number, limit: number, monotonic: number): boolean {
    const use = this.#at(counter, monotonic);
    use.now.amount += amount;
    use.now.most += most;
    use.now.requests++;
    use.largest.amount = Math.max(use.largest.amount, amount);
    use.largest.most = Math.max(use.largest.most, most);
    use.limit = Math.min(use.limit, limit);
    return Math.max(use.now.requests, use.before.requests) >= this.#policy.busy && use.rests_until <= monotonic;
  }

  /** What a lease should have room for, and the limit that it is to be within. */
  wanted(counter: string, monotonic: number): Amounts & { readonly limit: number } {
    const { now, before, largest, limit, limit_before } = this.#at(counter, monotonic);
    const { seconds, requests } = this.#policy;
    const want = (of: (amounts: Amounts) => number) =>
      Math.min(Number.MAX_SAFE_INTEGER, Math.max(Math.max(of(now), of(before)) * seconds, of(largest) * requests));
    return {
      amount: want(({ amount }) => amount),
      most: want(({ most }) => most),
      requests: Math.max(
        requests,
        want((amounts) => amounts.requests),
      ),
      limit: Math.min(limit, limit_before),
    };
  }

  /** Leaves a counter alone for a time. */
  rest(counter: string, monotonic: number, milliseconds: number): void {
    const use = this.#at(counter, monotonic);
    use.rests_until = Math.max(use.rests_until, monotonic + milliseconds);
  }

  /** Whether a counter is to be left alone. */
  rests(counter: string, monotonic: number): boolean {
    return (this.#uses.get(counter)?.rests_until ?? 0) > monotonic;
  }

  #at(counter: string, monotonic: number): Use {
    const second = Math.floor(monotonic / SECOND_MS);
    let use = this.#uses.get(counter);
    if (use === undefined) {
      const none = Number.POSITIVE_INFINITY;
      use = {
        second,
        now: nothing(),
        before: nothing(),
        largest: nothing(),
        limit: none,
        limit_before: none,
        rests_until: 0,
      };
      this.#uses.set(counter, use);
    }
    if (use.second !== second) {
      const is_next = use.second + 1 === second;
      use.before = is_next ? use.now : nothing();
      use.limit_before = is_next ? use.limit : Number.POSITIVE_INFINITY;
      if (!is_next) use.largest = nothing();
      use.now = nothing();
      use.limit = Number.POSITIVE_INFINITY;
      use.second = second;
    }
    return use;
  }
}

/**
 * A process that makes more reservations in a second than this makes them in batches that are full: it waits for them less than
 * it would pay for leases.
 */
const CROWD = 2500;

/** Knows whether so many reservations are asked for that they need no leases. */
export class Crowd {
  #second = 0;
  #now = 0;
  #before = 0;

  /** @param more that are asked for now. */
  isThere(monotonic: number, more = 0): boolean {
    const second = Math.floor(monotonic / SECOND_MS);
    if (this.#second !== second) {
      this.#before = this.#second + 1 === second ? this.#now : 0;
      this.#now = 0;
      this.#second = second;
    }
    this.#now += more;
    return Math.max(this.#now, this.#before) > CROWD;
  }
}
