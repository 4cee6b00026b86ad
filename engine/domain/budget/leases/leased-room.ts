import { LRUCache } from 'lru-cache';
import type { CounterName, LimitStatus, ReservationRequest } from '../../../base/contract/services.ts';
import { atMost } from '../../../base/kit/memory.ts';
import {
  type Amounts,
  type BatchCounterState,
  type CounterShare,
  counterName,
  type Lot,
  moneyStatuses,
} from '../ledger/batch-rows.ts';
import type { CounterNumbers } from '../limits/headroom.ts';

/** When a process takes a lease on a counter, and how large the lot is. */
export interface LeasePolicy {
  /** Least requests per second on a counter for a lease. */
  readonly busy: number;
  /** A lot covers this many seconds of the recent rate, */
  readonly seconds: number;
  /** and at least this many requests of the largest recent size. */
  readonly requests: number;
  /** A lot is taken only if the remaining headroom is at least this many times as large. */
  readonly share: number;
}

/** The policy of a gateway. */
export const LEASE_POLICY: LeasePolicy = { busy: 4, seconds: 2, requests: 4, share: 16 };

/**
 * A budget lease: headroom on a counter that this process took in advance. `free` is the part that no request has taken yet.
 */
interface Lease {
  readonly counter: string;
  readonly id: number;
  readonly free: Amounts;
  /** The largest limit that any lot was taken under; requests with a smaller limit do not use the lease. */
  limit: number;
  /** Milliseconds since the epoch by the database's clock; infinity if the lease does not expire. */
  readonly ends_at: number;
  /** The last known state of the counter, including the lease. */
  numbers: { -readonly [Name in keyof CounterNumbers]: CounterNumbers[Name] };
  /** Time of the last use, by the monotonic clock in milliseconds. */
  used_at: number;
}

/** A request whose amounts were taken from leases; `leases` has the order of `shares`. */
export interface Placement {
  readonly request: ReservationRequest;
  readonly shares: readonly CounterShare[];
  readonly leases: readonly Lease[];
}

/** A part of the lease on a counter. */
export interface LeasePart extends Amounts {
  readonly id: number;
}

/** A finished request, and what it spent per share, in the unit of the counter. */
export interface Ending {
  readonly shares: readonly CounterShare[];
  readonly spent: readonly number[];
  /** Whether the settlement was sent, so that counters read from now on include it. */
  sent: boolean;
}

/** The same moment by both clocks, in milliseconds. */
export interface Moment {
  readonly monotonic: number;
  /** By the database's clock, since the epoch. */
  readonly database: number;
}

const SECOND_MS = 1000;
/** Size of the LRU cache of counters. */
const MAX_COUNTERS = 20_000;

/** The demand on a counter within one second. */
interface Second extends Amounts {
  largest: number;
  largest_most: number;
  limit: number;
}

interface Use {
  /** By the monotonic clock. */
  second: number;
  now: Second;
  before: Second;
  /** Monotonic time before which no lot is taken (backoff). */
  backoff_until: number;
}

const nothing = (): Second => {
  return { amount: 0, most: 0, requests: 0, largest: 0, largest_most: 0, limit: Number.POSITIVE_INFINITY };
};

/** The recent demand per counter in this process, which decides the size of lots. */
class CounterUse {
  readonly #policy: LeasePolicy;
  readonly #uses = new LRUCache<string, Use>(atMost(MAX_COUNTERS));

  constructor(policy: LeasePolicy) {
    this.#policy = policy;
  }

  /** Records the demand of a request. @returns whether the counter is busy enough for a lease, and not in backoff. */
  record(share: CounterShare, monotonic: number): boolean {
    const { counter, amount, most } = share;
    const { now, before, backoff_until } = this.#at(counter, monotonic);
    now.amount += amount;
    now.most += most;
    now.requests++;
    now.largest = Math.max(now.largest, before.largest, amount);
    now.largest_most = Math.max(now.largest_most, before.largest_most, most);
    now.limit = Math.min(now.limit, smallestLimit(share));
    return Math.max(now.requests, before.requests) >= this.#policy.busy && backoff_until <= monotonic;
  }

  /** The target size of the lease, and the limit it must fit. */
  wanted(counter: string, monotonic: number): Amounts & { readonly limit: number } {
    const { now, before } = this.#at(counter, monotonic);
    const { seconds, requests } = this.#policy;
    const want = (of: keyof Amounts, largest: number) =>
      Math.min(Number.MAX_SAFE_INTEGER, Math.max(Math.max(now[of], before[of]) * seconds, largest * requests));
    return {
      amount: want('amount', Math.max(now.largest, before.largest)),
      most: want('most', Math.max(now.largest_most, before.largest_most)),
      requests: want('requests', 1),
      limit: Math.min(now.limit, before.limit),
    };
  }

  backOff(counter: string, monotonic: number, milliseconds: number): void {
    const use = this.#at(counter, monotonic);
    use.backoff_until = Math.max(use.backoff_until, monotonic + milliseconds);
  }

  isBackingOff(counter: string, monotonic: number): boolean {
    return (this.#uses.get(counter)?.backoff_until ?? 0) > monotonic;
  }

  #at(counter: string, monotonic: number): Use {
    const second = Math.floor(monotonic / SECOND_MS);
    let use = this.#uses.get(counter);
    if (use === undefined) {
      use = { second, now: nothing(), before: nothing(), backoff_until: 0 };
      this.#uses.set(counter, use);
    }
    if (use.second !== second) {
      use.before = use.second + 1 === second ? use.now : nothing();
      use.now = nothing();
      use.second = second;
    }
    return use;
  }
}

/** Safety margin before a window or a grant ends: the database's clock is known to about this much. */
const MARGIN_MS = 2000;
const IDLE_MS = 2000;
/** Backoff after a refused lot, and after a recall by another process. */
const REFUSED_MS = 1000;
const RECALLED_MS = 5000;

/** The leases of a process, in memory: like local token buckets that are refilled in lots from the shared counters. */
export class LeasedRoom {
  readonly #use: CounterUse;
  readonly #leases = new Map<string, Lease>();
  /** Counters whose lease needs a refill. */
  readonly #low = new Map<string, CounterName>();
  readonly #endings = new Set<Ending>();
  /** Recalled counters by id, with the monotonic end of their backoff. */
  readonly #recalled = new Map<number, number>();
  #returns: LeasePart[] = [];

  constructor(policy: LeasePolicy = LEASE_POLICY) {
    this.#use = new CounterUse(policy);
  }

  /** Whether there are lots to take or leases to return. */
  get has_changes(): boolean {
    return this.#low.size > 0 || this.#returns.length > 0;
  }

  /**
   * Records the demand of a request, whether a lease had headroom or not. If all its counters are busy, queues refills for
   * those that run low.
   */
  record(shares: readonly CounterShare[], monotonic: number): void {
    let is_busy = true;
    for (const share of shares) is_busy = this.#use.record(share, monotonic) && is_busy;
    if (!is_busy) return;
    for (const share of shares) if (this.#isLow(share, monotonic)) this.#low.set(share.counter, share.name);
  }

  /** Takes the amounts of a request from leases: on all its counters or none. */
  place(request: ReservationRequest, shares: readonly CounterShare[], at: Moment): Placement | undefined {
    const leases: Lease[] = [];
    for (const share of shares) {
      const lease = this.#leases.get(share.counter);
      if (lease === undefined || !hasRoom(lease, share, at.database)) return undefined;
      leases.push(lease);
    }
    for (let i = 0; i < shares.length; i++) {
      add(leases[i]!.free, shares[i]!, -1);
      leases[i]!.used_at = at.monotonic;
    }
    return { request, shares, leases };
  }

  /** Reverts a placement whose row was never sent. */
  undo({ shares, leases }: Placement): void {
    for (let i = 0; i < shares.length; i++) {
      const [lease, share] = [leases[i]!, shares[i]!];
      if (this.#leases.get(lease.counter) === lease) add(lease.free, share, 1);
      else this.#returns.push({ id: lease.id, ...amountsOf(share) });
    }
  }

  /** The status of every money limit of a request, including the request, excluding the free part of leases. */
  statuses({ shares, leases }: Placement): readonly LimitStatus[] {
    return moneyStatuses(shares, (share) => withoutFree(leases[share]!));
  }

  /** Updates the known state of a counter. @returns the state without the free part of this process's lease. */
  learn(counter: string, numbers: CounterNumbers): CounterNumbers {
    const lease = this.#leases.get(counter);
    if (lease === undefined) return numbers;
    this.#update(lease, numbers);
    return withoutFree(lease);
  }

  /**
   * Applies a finished request to the known counters at once, and to every state read from the database until the settlement
   * is `sent`.
   */
  over(shares: readonly CounterShare[], spent: readonly number[]): Ending {
    const ending: Ending = { shares, spent, sent: false };
    this.#endings.add(ending);
    for (let i = 0; i < shares.length; i++) this.#end(ending, i);
    return ending;
  }

  /** The settlement was written, or failed for good. */
  ended(ending: Ending): void {
    this.#endings.delete(ending);
  }

  /** Takes the queued refills. The caller must report the result of each with `granted`. */
  takeLots(monotonic: number): Lot[] {
    const lots: Lot[] = [];
    for (const [counter, name] of this.#low) {
      if (this.#use.isBackingOff(counter, monotonic)) continue;
      const { limit, ...wanted } = this.#use.wanted(counter, monotonic);
      const free = this.#leases.get(counter)?.free;
      if (free !== undefined) add(wanted, free, -1);
      const amount = Math.max(0, wanted.amount);
      // The reserved amount never exceeds the worst case.
      lots.push({ name, limit, amount, most: Math.max(amount, wanted.most), requests: Math.max(1, wanted.requests) });
    }
    this.#low.clear();
    return lots;
  }

  takeReturns(): readonly LeasePart[] {
    const returns = this.#returns;
    this.#returns = [];
    return returns;
  }

  granted(lot: Lot, { is_leased, id, ends_at, numbers }: BatchCounterState, monotonic: number): void {
    const counter = counterName(lot.name);
    const known = this.#leases.get(counter);
    if (!is_leased) {
      this.#use.backOff(counter, monotonic, REFUSED_MS);
      return;
    }
    // The lease was recalled while the statement was in flight.
    if (this.#use.isBackingOff(counter, monotonic) || (this.#recalled.get(id) ?? 0) > monotonic) {
      this.#returns.push({ id, ...amountsOf(lot) });
      return;
    }
    if (known?.id === id) {
      add(known.free, lot, 1);
      known.limit = Math.max(known.limit, lot.limit);
      return;
    }
    if (known !== undefined) this.#close(known);
    const lease: Lease = {
      ...{ counter, id, limit: lot.limit, used_at: monotonic, ends_at },
      ...{ free: amountsOf(lot), numbers },
    };
    this.#leases.set(counter, lease);
    this.#update(lease, numbers);
  }

  /** Returns the leases on these counters, and starts their backoff. */
  recall(ids: readonly number[], monotonic: number): void {
    for (const id of ids) this.#recalled.set(id, monotonic + RECALLED_MS);
    for (const lease of [...this.#leases.values()])
      if (ids.includes(lease.id)) this.returnLease(lease.counter, monotonic);
  }

  /** Returns the lease on a counter, and starts its backoff. @returns whether there was a lease. */
  returnLease(counter: string, monotonic: number): boolean {
    this.#use.backOff(counter, monotonic, RECALLED_MS);
    const lease = this.#leases.get(counter);
    if (lease !== undefined) this.#close(lease);
    return lease !== undefined;
  }

  returnIdle(at: Moment): void {
    for (const [id, until] of this.#recalled) if (until <= at.monotonic) this.#recalled.delete(id);
    for (const lease of [...this.#leases.values()]) {
      const is_idle = at.monotonic - lease.used_at > IDLE_MS;
      if (is_idle || lease.ends_at - MARGIN_MS <= at.database) this.#close(lease);
    }
  }

  returnAll(): void {
    for (const lease of [...this.#leases.values()]) this.#close(lease);
    this.#low.clear();
  }

  /** Drops all state; the caller returns the leases as a whole in the database. */
  forget(): void {
    this.#leases.clear();
    this.#returns = [];
    this.#low.clear();
  }

  /** Stores a state from the database, and applies the finished requests it does not include yet. */
  #update(lease: Lease, numbers: CounterNumbers): void {
    lease.numbers = { ...numbers };
    for (const ending of this.#endings) {
      if (ending.sent) continue;
      const at = ending.shares.findIndex(({ counter }) => counter === lease.counter);
      if (at >= 0) this.#end(ending, at);
    }
  }

  #end({ shares, spent }: Ending, at: number): void {
    const { counter, amount, most, requests } = shares[at]!;
    const numbers = this.#leases.get(counter)?.numbers;
    if (numbers === undefined) return;
    numbers.spent += spent[at]!;
    numbers.reserved = Math.max(0, numbers.reserved - amount);
    numbers.most = Math.max(0, numbers.most - most);
    numbers.in_flight = Math.max(0, numbers.in_flight - requests);
  }

  #close(lease: Lease): void {
    this.#leases.delete(lease.counter);
    // An empty lease is returned as well, because that deletes its row.
    this.#returns.push({ id: lease.id, ...amountsOf(lease.free) });
  }

  /** Whether less than half of the target size is free. */
  #isLow({ counter }: CounterShare, monotonic: number): boolean {
    const free = this.#leases.get(counter)?.free;
    if (free === undefined) return true;
    const wanted = this.#use.wanted(counter, monotonic);
    return free.requests * 2 < wanted.requests || free.amount * 2 < wanted.amount || free.most * 2 < wanted.most;
  }
}

function hasRoom({ free, limit, ends_at, numbers }: Lease, share: CounterShare, now: number): boolean {
  return (
    // A lease is within the limit in force, but run-time limits and grants do not change a limit in shadow mode.
    (share.shadow === null || (numbers.set === null && numbers.granted === 0)) &&
    free.requests >= share.requests &&
    free.amount >= share.amount &&
    free.most >= share.most &&
    limit <= smallestLimit(share) &&
    now < ends_at - MARGIN_MS
  );
}

/** The smallest limit of a request on a counter, shadow mode included; infinity without a limit. */
function smallestLimit({ limit, shadow }: CounterShare): number {
  return Math.min(limit ?? Number.POSITIVE_INFINITY, shadow ?? Number.POSITIVE_INFINITY);
}

function withoutFree({ numbers, free }: Pick<Lease, 'numbers' | 'free'>): CounterNumbers {
  return {
    ...numbers,
    reserved: Math.max(0, numbers.reserved - free.amount),
    most: Math.max(0, numbers.most - free.most),
    in_flight: Math.max(0, numbers.in_flight - free.requests),
  };
}

function amountsOf({ amount, most, requests }: Amounts): Amounts {
  return { amount, most, requests };
}

function add(to: Amounts, { amount, most, requests }: Amounts, times: 1 | -1): void {
  to.amount += times * amount;
  to.most += times * most;
  to.requests += times * requests;
}
