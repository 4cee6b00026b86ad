import type { CounterName, LimitDemand, LimitStatus, ReservationRequest } from '../../contract/services.ts';
import { type CountedDemand, type CounterNumbers, isLimit, statusesOf } from '../limits/room.ts';
import { type Amounts, CounterUse, LEASE_POLICY, type LeasePolicy } from './counter-use.ts';
import {
  counterName,
  type Ending,
  type Granted,
  type Lease,
  type Moment,
  type Part,
  type Placement,
  type Return,
  type Wish,
} from './lease-parts.ts';

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

  /** Takes note of a request that may soon be placed in leases. */
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

  /** What is to be given back now. */
  takeReturns(): Return[] {
    const returns = this.#returns;
    this.#returns = [];
    return returns;
  }

  /** What became of a wish. */
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

  /** Gives back what nobody uses, and what ends. */
  giveBackIdle(at: Moment): void {
    for (const [id, until] of this.#recalled) if (until <= at.monotonic) this.#recalled.delete(id);
    for (const lease of [...this.#leases.values()]) {
      const is_idle = at.monotonic - lease.used_at > IDLE_MS;
      if (is_idle || lease.ends_at - MARGIN_MS <= at.database) this.#close(lease);
    }
  }

  /** Gives back everything. */
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
