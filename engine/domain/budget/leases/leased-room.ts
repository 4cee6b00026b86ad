import { LRUCache } from 'lru-cache';
import type { CounterName, LimitDemand, LimitStatus, ReservationRequest } from '../../../base/contract/services.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { counterName } from '../ledger/batch-request.ts';
import { type CountedDemand, type CounterNumbers, isLimit, neededIn, statusesOf } from '../limits/room.ts';

/** An amount on a counter, in its unit: what is likely, the most it can come to, and how many requests it is for. */
export interface Amounts {
  amount: number;
  most: number;
  requests: number;
}

interface Use {
  /** Of the monotonic clock; `now` is what was asked for in it, `before` in the one before it. */
  second: number;
  now: Amounts;
  before: Amounts;
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

/** Room on a counter that this process has taken and not yet placed. */
export interface Lease {
  readonly counter: string;
  readonly id: number;
  readonly free: Amounts;
  /** The largest limit that some of it was taken under; requests under a smaller one do not use it. */
  limit: number;
  /** Milliseconds since the epoch by the database's clock; infinity where it never ends. */
  readonly ends_at: number;
  /** The counter, with what is leased, as far as this process knows. */
  numbers: { -readonly [Name in keyof CounterNumbers]: CounterNumbers[Name] };
  /** Monotonic. */
  used_at: number;
}

/** What a request takes of one counter. */
export interface Part extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  /** The smallest limit that the request comes under there, also in shadow mode; infinity without any. */
  limit: number;
  is_shadowed: boolean;
}

/** A request that was placed in leases. */
export interface Placement {
  readonly request: ReservationRequest;
  readonly parts: readonly Part[];
  /** In the order of the parts. */
  readonly leases: readonly Lease[];
}

/** So much of a lease that is to be given back. */
export interface Return extends Amounts {
  readonly id: number;
}

/** So much that is to be leased. */
export interface Wish extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  readonly limit: number;
}

/** What became of a wish. */
export interface Granted {
  readonly taken: boolean;
  readonly id: number;
  readonly ends_at: number | null;
  readonly numbers: CounterNumbers;
}

/** A request that is over. */
export interface Ending {
  readonly parts: readonly Part[];
  /** In the unit of each part. */
  readonly spent: readonly number[];
  /** Whether what the database tells from now on includes it. */
  sent: boolean;
}

/** A moment by both clocks. */
export interface Moment {
  readonly monotonic: number;
  /** By the database's clock, in milliseconds since the epoch. */
  readonly database: number;
}

/** What a request takes of each of its counters. */
export function partsOf(request: ReservationRequest): Part[] {
  const parts: Part[] = [];
  for (const demand of request.demands) {
    const counter = counterName(demand);
    const limit = demand.limit ?? Number.POSITIVE_INFINITY;
    const { shadow: is_shadowed = false } = demand;
    const known = parts.find((part) => part.counter === counter);
    if (known === undefined) {
      parts.push({ counter, name: demand, limit, is_shadowed, ...neededIn(demand.unit, request), requests: 1 });
      continue;
    }
    known.limit = Math.min(known.limit, limit);
    known.is_shadowed ||= is_shadowed;
  }
  return parts;
}

/** Windows and grants end by the database's clock, which is known to about that. */
const MARGIN_MS = 2000;
const IDLE_MS = 2000;
/** So long nothing is leased where a lease was refused, and where one was asked back. */
const REFUSED_MS = 1000;
const RECALLED_MS = 5000;

/** The room that a process has leased, in memory. */
export class LeasedRoom {
  readonly #use: CounterUse;
  readonly #leases = new Map<string, Lease>();
  readonly #hungry = new Map<string, CounterName>();
  readonly #endings = new Set<Ending>();
  /** Counters whose leases were asked back, with until when nothing is taken there. */
  readonly #recalled = new Map<number, number>();
  #returns: Return[] = [];

  constructor(policy: LeasePolicy = LEASE_POLICY) {
    this.#use = new CounterUse(policy);
  }

  /** Whether there is something to take or to give back. */
  get has_errands(): boolean {
    return this.#hungry.size > 0 || this.#returns.length > 0;
  }

  /** Whether something is leased, or still to be given back. */
  get is_empty(): boolean {
    return this.#leases.size === 0 && this.#returns.length === 0;
  }

  note(parts: readonly Part[], monotonic: number): void {
    let busy = true;
    for (const { counter, amount, most, limit } of parts)
      busy = this.#use.note(counter, amount, most, limit, monotonic) && busy;
    if (!busy) return;
    for (const part of parts) if (this.#isLow(part, monotonic)) this.#hungry.set(part.counter, part.name);
  }

  /** Places a request on all its counters, or nowhere. */
  place(request: ReservationRequest, parts: readonly Part[], at: Moment): Placement | undefined {
    const leases: Lease[] = [];
    for (const part of parts) {
      const lease = this.#leases.get(part.counter);
      if (lease === undefined || !hasRoom(lease, part, at.database)) return undefined;
      leases.push(lease);
    }
    for (let i = 0; i < parts.length; i++) {
      takeOff(leases[i]!.free, parts[i]!);
      leases[i]!.used_at = at.monotonic;
    }
    return { request, parts, leases };
  }

  /** Takes back a placement whose row was never sent. */
  undo({ parts, leases }: Placement): void {
    for (let i = 0; i < parts.length; i++) {
      const [lease, part] = [leases[i]!, parts[i]!];
      if (this.#leases.get(lease.counter) === lease) addTo(lease.free, part);
      else this.#returns.push({ id: lease.id, ...amountsOf(part) });
    }
  }

  /** Every limit in money that applies to a request, with it in the numbers and without what is leased and free. */
  statuses({ request, parts, leases }: Placement): readonly LimitStatus[] {
    const told = leases.map(({ numbers, free }): CounterNumbers => ({ ...numbers, ...less(numbers, free) }));
    const counted: CountedDemand[] = [];
    for (const demand of request.demands) {
      if (demand.unit !== 'nano_usd') continue;
      counted.push([demand, told[indexOf(parts, demand)]!]);
    }
    return statusesOf(counted).filter(isLimit);
  }

  /** Statuses that the database told, which are news about leased counters, without what is leased and free. */
  learn(statuses: readonly LimitStatus[]): readonly LimitStatus[] {
    return statuses.map((status) => {
      const lease = this.#leases.get(counterName(status));
      if (lease === undefined) return status;
      const { spent, reserved, most, in_flight } = status;
      this.#tell(lease, { ...lease.numbers, spent, reserved, most, in_flight });
      return { ...status, spent: lease.numbers.spent, ...less(lease.numbers, lease.free) };
    });
  }

  /**
   * A request is over; it cost so much in the unit of each part. What the database tells does not include that before it is
   * sent, and again what is told here does at once. `ended` when it is written.
   */
  over(parts: readonly Part[], spent: readonly number[]): Ending {
    const ending: Ending = { parts, spent, sent: false };
    this.#endings.add(ending);
    for (let i = 0; i < parts.length; i++) this.#end(ending, i);
    return ending;
  }

  /** What is known of an ending is in all that the database tells. */
  ended(ending: Ending): void {
    this.#endings.delete(ending);
  }

  /** What is to be leased now; it is the caller's to say what became of each. */
  takeWishes(monotonic: number): Wish[] {
    const wishes: Wish[] = [];
    for (const [counter, name] of this.#hungry) {
      if (this.#use.rests(counter, monotonic)) continue;
      const { limit, ...wanted } = this.#use.wanted(counter, monotonic);
      const free = this.#leases.get(counter)?.free;
      if (free !== undefined) takeOff(wanted, free);
      for (const each of ['amount', 'most', 'requests'] as const) wanted[each] = Math.max(0, wanted[each]);
      // What is likely is never more than the most.
      wishes.push({ counter, name, limit, ...wanted, most: Math.max(wanted.most, wanted.amount) });
    }
    this.#hungry.clear();
    return wishes;
  }

  takeReturns(): Return[] {
    const returns = this.#returns;
    this.#returns = [];
    return returns;
  }

  granted(wish: Wish, { taken, id, ends_at, numbers }: Granted, monotonic: number): void {
    const { counter, limit } = wish;
    const known = this.#leases.get(counter);
    if (!taken) {
      this.#use.rest(counter, monotonic, REFUSED_MS);
      if (known?.id === id) this.#tell(known, numbers);
      return;
    }
    // It was asked back while it was on its way.
    if (this.#use.rests(counter, monotonic) || (this.#recalled.get(id) ?? 0) > monotonic) {
      this.#returns.push({ id, ...amountsOf(wish) });
      return;
    }
    if (known?.id === id) {
      addTo(known.free, wish);
      known.limit = Math.max(known.limit, limit);
      this.#tell(known, numbers);
      return;
    }
    if (known !== undefined) this.#close(known);
    const lease: Lease = {
      ...{ counter, id, limit, used_at: monotonic },
      free: amountsOf(wish),
      ends_at: ends_at ?? Number.POSITIVE_INFINITY,
      numbers: { ...numbers },
    };
    this.#leases.set(counter, lease);
    this.#tell(lease, numbers);
  }

  /** Gives back what is leased on some counters, and takes nothing there for a time. */
  recall(ids: readonly number[], monotonic: number): void {
    for (const id of ids) this.#recalled.set(id, monotonic + RECALLED_MS);
    for (const lease of [...this.#leases.values()]) if (ids.includes(lease.id)) this.giveBack(lease.counter, monotonic);
  }

  /** Gives back what is leased on a counter, and takes nothing there for a time. @returns whether anything was. */
  giveBack(counter: string, monotonic: number): boolean {
    this.#use.rest(counter, monotonic, RECALLED_MS);
    const lease = this.#leases.get(counter);
    if (lease !== undefined) this.#close(lease);
    return lease !== undefined;
  }

  giveBackIdle(at: Moment): void {
    for (const [id, until] of this.#recalled) if (until <= at.monotonic) this.#recalled.delete(id);
    for (const lease of [...this.#leases.values()]) {
      const is_idle = at.monotonic - lease.used_at > IDLE_MS;
      if (is_idle || lease.ends_at - MARGIN_MS <= at.database) this.#close(lease);
    }
  }

  giveBackAll(): void {
    for (const lease of [...this.#leases.values()]) this.#close(lease);
    this.#hungry.clear();
  }

  /** Forgets everything: what was leased is given back as a whole. */
  forget(): void {
    this.#leases.clear();
    this.#returns = [];
    this.#hungry.clear();
  }

  /** The database told of a counter: what it could not know yet comes to it. */
  #tell(lease: Lease, numbers: CounterNumbers): void {
    lease.numbers = { ...numbers };
    for (const ending of this.#endings) {
      if (ending.sent) continue;
      const at = ending.parts.findIndex(({ counter }) => counter === lease.counter);
      if (at >= 0) this.#end(ending, at);
    }
  }

  #end({ parts, spent }: Ending, at: number): void {
    const { counter, amount, most, requests } = parts[at]!;
    const numbers = this.#leases.get(counter)?.numbers;
    if (numbers === undefined) return;
    numbers.spent += spent[at]!;
    numbers.reserved = Math.max(0, numbers.reserved - amount);
    numbers.most = Math.max(0, numbers.most - most);
    numbers.in_flight = Math.max(0, numbers.in_flight - requests);
  }

  #close(lease: Lease): void {
    this.#leases.delete(lease.counter);
    // Also where nothing is left: the row of the lease ends with it.
    this.#returns.push({ id: lease.id, ...amountsOf(lease.free) });
  }

  /** Whether less than half is left of what a lease should have room for. */
  #isLow(part: Part, monotonic: number): boolean {
    const lease = this.#leases.get(part.counter);
    if (lease === undefined) return true;
    const wanted = this.#use.wanted(part.counter, monotonic);
    const { free } = lease;
    return free.requests * 2 < wanted.requests || free.amount * 2 < wanted.amount || free.most * 2 < wanted.most;
  }
}

function hasRoom({ free, limit, ends_at, numbers }: Lease, part: Part, now: number): boolean {
  return (
    // What is set and granted is no part of a limit in shadow mode, and a lease is within what is in force.
    (!part.is_shadowed || (numbers.set === null && numbers.granted === 0)) &&
    free.requests >= part.requests &&
    free.amount >= part.amount &&
    free.most >= part.most &&
    limit <= part.limit &&
    now < ends_at - MARGIN_MS
  );
}

function indexOf(parts: readonly Part[], demand: LimitDemand): number {
  if (parts.length === 1) return 0;
  const counter = counterName(demand);
  return parts.findIndex((part) => part.counter === counter);
}

function less(of: Pick<CounterNumbers, 'reserved' | 'most' | 'in_flight'>, free: Amounts) {
  return {
    reserved: Math.max(0, of.reserved - free.amount),
    most: Math.max(0, of.most - free.most),
    in_flight: Math.max(0, of.in_flight - free.requests),
  };
}

function amountsOf({ amount, most, requests }: Amounts): Amounts {
  return { amount, most, requests };
}

function takeOff(from: Amounts, amounts: Amounts): void {
  from.amount -= amounts.amount;
  from.most -= amounts.most;
  from.requests -= amounts.requests;
}

function addTo(to: Amounts, amounts: Amounts): void {
  to.amount += amounts.amount;
  to.most += amounts.most;
  to.requests += amounts.requests;
}
