import { StageError } from '../contract/errors.ts';
import type { Clock } from '../contract/services.ts';
import { NEXT_ROOM_SECONDS } from '../kit/patience.ts';

/** So long a request waits for answers that nobody waits for, before the oldest of them has to give way. */
const PATIENCE_MS = 1000;

/** A request whose answer is only read on for its bill. */
export interface Lingerer {
  /** Ends it. */
  giveWay(): void;
}

/** A request that waits for a slot. */
export interface Waiter {
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
