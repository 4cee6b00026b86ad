import { StageError } from '../../base/contract/errors.ts';
import type { Clock } from '../../base/contract/services.ts';
import { NEXT_ROOM_SECONDS } from '../../base/kit/patience.ts';

const MIB = 1024 * 1024;

/** A size as people read it: whole MiB where it is some, otherwise bytes. */
function describeBytes(bytes: number): string {
  return bytes >= 10 * MIB ? `${Math.round(bytes / MIB)} MiB` : `${bytes} bytes`;
}

/**
 * How many bytes of bodies the process holds, over all requests and by whom, so that neither a crowd nor one caller can
 * fill memory.
 */
export class BodyBudget {
  /** Most bytes held at once; a reload can change it. */
  limit_bytes: number;
  /** Most of them for one caller. Who holds nothing yet may take more: one body is always let in. */
  share_bytes: number;
  #held = 0;
  readonly #by_owner = new Map<string, number>();

  constructor(limit_bytes: number, share_bytes: number) {
    this.limit_bytes = limit_bytes;
    this.share_bytes = share_bytes;
  }

  /** Bytes held now. */
  get held_bytes(): number {
    return this.#held;
  }

  /**
   * Raises rate_limit_exceeded when the caller's share has no room, overloaded when the process has none.
   * @param let_in of what the caller holds, bytes that do not count as something held before
   */
  take(owner: string, bytes: number, let_in = 0): void {
    const own = this.#by_owner.get(owner) ?? 0;
    if (this.#held + bytes > this.limit_bytes) throw full();
    if (own > let_in && own + bytes > this.share_bytes) throw this.#shareFull(own, bytes);
    this.#by_owner.set(owner, own + bytes);
    this.#held += bytes;
  }

  give(owner: string, bytes: number): void {
    if (bytes === 0) return;
    const own = this.#by_owner.get(owner)! - bytes;
    if (own > 0) this.#by_owner.set(owner, own);
    else this.#by_owner.delete(owner);
    this.#held -= bytes;
  }

  #shareFull(held_bytes: number, needed_bytes: number): StageError {
    const limit_bytes = this.share_bytes;
    const message = `Your requests under way hold ${describeBytes(held_bytes)} of the gateway's memory, and those of one caller may hold ${describeBytes(limit_bytes)}; send this one again when some of them are answered.`;
    return new StageError('rate_limit_exceeded', message, {
      headers: { 'retry-after': String(NEXT_ROOM_SECONDS) },
      details: { limit: limit_bytes, unit: 'bytes', reserved: held_bytes, needed: needed_bytes },
    });
  }
}

function full(): StageError {
  return new StageError(
    'overloaded',
    'The gateway holds as many request bytes as it may; send the request again shortly.',
    { headers: { 'retry-after': '1' } },
  );
}

/** What one request holds of a budget. */
export class HeldBytes {
  /** Whose share is used. */
  readonly owner: string;
  readonly #budget: BodyBudget;
  #bytes = 0;
  #released = false;

  constructor(budget: BodyBudget, owner: string) {
    this.#budget = budget;
    this.owner = owner;
  }

  /** Raises rate_limit_exceeded or overloaded, and then holds what it held before. */
  take(bytes: number): void {
    this.#budget.take(this.owner, bytes);
    this.#bytes += bytes;
  }

  /** Like `take`, for one body as it grows: that of a caller who holds nothing else is always let in, compressed or not. */
  takeForBody(bytes: number): void {
    this.#budget.take(this.owner, bytes, this.#bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#budget.give(this.owner, bytes);
    this.#bytes -= bytes;
  }

  /**
   * Holds this many bytes in all.
   * @returns false, and holds what it held before, when there is no room or everything was given back
   */
  hold(bytes: number): boolean {
    if (this.#released) return false;
    const more = bytes - this.#bytes;
    try {
      if (more > 0) this.take(more);
      else this.give(-more);
      return true;
    } catch {
      return false;
    }
  }

  /** Gives back everything for good. */
  release(): void {
    this.#released = true;
    this.give(this.#bytes);
  }
}

/** Something that can be in one bag. */
export interface Bagged {
  /** Owned by the bag. */
  index_in_bag: number;
}

/**
 * An unordered collection with constant-time add and remove.
 * Not a Set: V8 chains a Set's outgrown tables, and under a request load the dead ones in the old generation keep
 * every request reachable until the next full collection (measured: 18 us of scavenging per request).
 */
export class Bag<T extends Bagged> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.index_in_bag = this.#items.push(item) - 1;
  }

  remove(item: T): void {
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.index_in_bag] = last;
    last.index_in_bag = item.index_in_bag;
  }

  /** What is in it now; safe against changes while it is walked. */
  items(): T[] {
    return [...this.#items];
  }
}

/** So long a request waits for answers that nobody waits for, before the oldest of them has to give way. */
const PATIENCE_MS = 1000;

/** A request whose answer is only read on for its bill. */
export interface Lingerer {
  /** Ends it. */
  giveWay(): void;
}

/** A request that waits for a slot. */
interface Waiter {
  /** Whether it was answered or its client has gone, so that a slot would be of no use. */
  readonly is_over: boolean;
  /** Ends the wait; set while it lasts, to be called when the request is over. */
  stopWaiting: (() => void) | undefined;
}

/** How many requests are under way, by name: those of a caller, those that a limit on requests at once counts. */
export class Occupancy {
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  /** By name those that only linger, the oldest first. */
  readonly #lingering = new Map<string, Set<Lingerer>>();
  /** By name whom to tell that somebody left. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one in. @returns false, and counts nothing, when there are `most` already. */
  enter(name: string, most: number): boolean {
    const count = this.#counts.get(name) ?? 0;
    if (count >= most) return false;
    this.#counts.set(name, count + 1);
    return true;
  }

  /**
   * The same, but answers that nobody waits for any more do not keep the next request out: they have a second to end, then
   * the oldest of them gives way.
   */
  async enterInTime(name: string, most: number, waiter: Waiter): Promise<boolean> {
    if (this.enter(name, most)) return true;
    const until = this.#clock.monotonic() + PATIENCE_MS;
    for (let left = PATIENCE_MS; left > 0; left = until - this.#clock.monotonic()) {
      if (!this.#lingering.has(name) || (this.#waiting.get(name)?.size ?? 0) >= most) return false;
      await this.#someoneLeaves(name, left, waiter);
      if (waiter.is_over) return this.#passOn(name);
      if (this.enter(name, most)) return true;
    }
    const [oldest] = this.#lingering.get(name) ?? [];
    if (oldest === undefined) return false;
    this.#forget(name, oldest);
    const someone_left = this.#someoneLeaves(name, PATIENCE_MS, waiter);
    oldest.giveWay();
    await someone_left;
    return waiter.is_over ? this.#passOn(name) : this.enter(name, most);
  }

  /** Notes that one of those counted only lingers. */
  linger(name: string, lingerer: Lingerer): void {
    const lingering = this.#lingering.get(name);
    if (lingering === undefined) this.#lingering.set(name, new Set([lingerer]));
    else lingering.add(lingerer);
  }

  /** Counts one out. */
  leave(name: string, lingerer: Lingerer): void {
    const count = this.#counts.get(name)! - 1;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
    this.#forget(name, lingerer);
    this.#wakeNext(name);
  }

  count(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  #forget(name: string, lingerer: Lingerer): void {
    const lingering = this.#lingering.get(name);
    if (lingering?.delete(lingerer) && lingering.size === 0) this.#lingering.delete(name);
  }

  #wakeNext(name: string): void {
    const [first] = this.#waiting.get(name) ?? [];
    first?.();
  }

  /** It may have been woken just before it was over: the slot is for the next one. */
  #passOn(name: string): false {
    this.#wakeNext(name);
    return false;
  }

  #someoneLeaves(name: string, ms: number, waiter: Waiter): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(name) ?? new Set();
      this.#waiting.set(name, waiting);
      const go = () => {
        timer.close();
        waiter.stopWaiting = undefined;
        if (waiting.delete(go) && waiting.size === 0) this.#waiting.delete(name);
        resolve();
      };
      const timer = this.#clock.after(ms, go);
      waiting.add(go);
      waiter.stopWaiting = go;
    });
  }
}

/** The refusal of a caller who has that many requests under way. */
export function tooMany(limit: number): StageError {
  const message = `You have ${limit} requests under way at this gateway, the most that one caller may have; send this one again when one of them is answered.`;
  return new StageError('rate_limit_exceeded', message, {
    headers: { 'retry-after': String(NEXT_ROOM_SECONDS) },
    details: { limit, unit: 'requests', in_flight: limit },
  });
}

/** What a request has of its process while it is under way, beside its body: slots by name, and room for bytes. */
export class Holdings {
  readonly #under_way: Occupancy;
  #slots: string[] | undefined;
  #rooms: HeldBytes[] | undefined;

  constructor(under_way: Occupancy) {
    this.#under_way = under_way;
  }

  /** Takes a slot under a name; false when there are `most`. */
  occupy(name: string, most: number): boolean {
    return this.#under_way.enter(name, most) && this.#keepSlot(name);
  }

  /** The same, once there is one; false as soon as the request is over. */
  async occupyInTime(name: string, most: number, request: Waiter & Lingerer): Promise<boolean> {
    if (!(await this.#under_way.enterInTime(name, most, request))) return false;
    if (!request.is_over) return this.#keepSlot(name);
    this.#under_way.leave(name, request);
    return false;
  }

  #keepSlot(name: string): true {
    this.#slots = [...(this.#slots ?? []), name];
    return true;
  }

  addRoom(room: HeldBytes): HeldBytes {
    this.#rooms = [...(this.#rooms ?? []), room];
    return room;
  }

  /** The answer is only read on, as nobody waits for it. */
  linger(request: Lingerer): void {
    for (const name of this.#slots ?? []) this.#under_way.linger(name, request);
  }

  /** Gives everything back; more calls do nothing. */
  leave(request: Lingerer): void {
    for (const name of this.#slots ?? []) this.#under_way.leave(name, request);
    for (const room of this.#rooms ?? []) room.release();
    this.#slots = undefined;
    this.#rooms = undefined;
  }
}
