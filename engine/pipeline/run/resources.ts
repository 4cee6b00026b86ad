/** What requests in flight use of this process: memory for bodies, concurrency slots, and drains. @module */
import { StageError } from '../../base/contract/errors.ts';
import type { Clock, Timer } from '../../base/contract/services.ts';
import type { ReadToEndLimits, Relay } from '../../base/contract/stage.ts';
import { CONCURRENCY_RETRY_SECONDS } from '../../base/kit/retry-hints.ts';

const MIB = 1024 * 1024;

/** Whole MiB from 10 MiB on, bytes below. */
function describeBytes(bytes: number): string {
  return bytes >= 10 * MIB ? `${Math.round(bytes / MIB)} MiB` : `${bytes} bytes`;
}

/** Memory budget for bodies, in bytes: in total and by caller, so that neither load nor one caller exhausts memory. */
export class MemoryBudget {
  /** Maximum bytes in use; a reload can change it. */
  limit_bytes: number;
  /** Maximum bytes in use by one caller. A caller's only body may exceed it. */
  share_bytes: number;
  #in_use = 0;
  readonly #by_owner = new Map<string, number>();

  constructor(limit_bytes: number, share_bytes: number) {
    this.limit_bytes = limit_bytes;
    this.share_bytes = share_bytes;
  }

  get used_bytes(): number {
    return this.#in_use;
  }

  /** Raises rate_limit_exceeded, overloaded. @param same_body bytes that this very body has taken already */
  take(owner: string, bytes: number, same_body = 0): void {
    const own = this.#by_owner.get(owner) ?? 0;
    if (this.#in_use + bytes > this.limit_bytes) throw overloadedError();
    if (own > same_body && own + bytes > this.share_bytes) throw this.#shareFull(own, bytes);
    this.#by_owner.set(owner, own + bytes);
    this.#in_use += bytes;
  }

  give(owner: string, bytes: number): void {
    if (bytes === 0) return;
    const own = this.#by_owner.get(owner)! - bytes;
    if (own > 0) this.#by_owner.set(owner, own);
    else this.#by_owner.delete(owner);
    this.#in_use -= bytes;
  }

  #shareFull(used: number, needed: number): StageError {
    const limit = this.share_bytes;
    const message = `Your requests in flight use ${describeBytes(used)} of the gateway's memory; one caller may use ${describeBytes(limit)}. Retry when some of them have completed.`;
    return new StageError('rate_limit_exceeded', message, {
      headers: { 'retry-after': String(CONCURRENCY_RETRY_SECONDS) },
      details: { limit, unit: 'bytes', reserved: used, needed },
    });
  }
}

function overloadedError(): StageError {
  return new StageError('overloaded', 'The gateway has reached its memory limit for request bodies; retry shortly.', {
    headers: { 'retry-after': '1' },
  });
}

/** One buffer's part of a memory budget, counted in the share of its caller. */
export class BufferQuota {
  readonly owner: string;
  readonly #budget: MemoryBudget;
  #bytes = 0;
  #released = false;

  constructor(budget: MemoryBudget, owner: string) {
    this.#budget = budget;
    this.owner = owner;
  }

  /** Raises rate_limit_exceeded or overloaded, and then changes nothing. */
  take(bytes: number): void {
    this.#budget.take(this.owner, bytes);
    this.#bytes += bytes;
  }

  /** Like `take`, for a growing body: a caller's only body may exceed the share. */
  takeForBody(bytes: number): void {
    this.#budget.take(this.owner, bytes, this.#bytes);
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#budget.give(this.owner, bytes);
    this.#bytes -= bytes;
  }

  /** Takes or gives back until so many bytes are in use. @returns false above the quota, or after `release` */
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

  /** Gives everything back; nothing can be taken afterwards. */
  release(): void {
    this.#released = true;
    this.give(this.#bytes);
  }
}

/** A member of one unordered set. */
export interface SetMember {
  /** The set writes it. */
  set_index: number;
}

/**
 * An unordered collection with constant-time add and remove.
 * Not a Set: V8 chains a Set's outgrown tables, and under a request load the dead ones in the old generation keep
 * every request reachable until the next full collection (measured: 18 us of scavenging per request).
 */
export class UnorderedSet<T extends SetMember> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.set_index = this.#items.push(item) - 1;
  }

  remove(item: T): void {
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.set_index] = last;
    last.set_index = item.set_index;
  }

  /** A copy of the members, safe to iterate while the set changes. */
  items(): T[] {
    return [...this.#items];
  }
}

/** How long a request waits for a draining one to free its slot before it preempts the oldest. */
const PREEMPT_AFTER_MS = 1000;

/** A request whose client has disconnected and whose response is only drained, for its usage. */
export interface DrainingRequest {
  /** Cancels the response to free the slot. */
  preempt(): void;
}

/** A request that waits for a slot. */
interface Waiter {
  /** Whether the request no longer needs a slot: it has a response, or its client has disconnected. */
  readonly is_over: boolean;
  /** Ends the wait; set while it lasts. */
  stopWaiting: (() => void) | undefined;
}

/** Counts requests in flight per key. Draining requests count, and give up their slot to a new request after a second. */
export class ConcurrencyLimiter {
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  /** Draining requests by key, the oldest first. */
  readonly #draining = new Map<string, Set<DrainingRequest>>();
  /** Callbacks of the waiting requests by key, the oldest first. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes a slot. @returns false when `max` are taken */
  enter(key: string, max: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= max) return false;
    this.#counts.set(key, count + 1);
    return true;
  }

  /** Takes a slot. If draining requests occupy all of them, waits a second, then preempts the oldest. */
  async waitToEnter(key: string, max: number, waiter: Waiter): Promise<boolean> {
    if (this.enter(key, max)) return true;
    const until = this.#clock.monotonic() + PREEMPT_AFTER_MS;
    for (let left = PREEMPT_AFTER_MS; left > 0; left = until - this.#clock.monotonic()) {
      if (!this.#draining.has(key) || (this.#waiting.get(key)?.size ?? 0) >= max) return false;
      await this.#slotFreed(key, left, waiter);
      if (waiter.is_over) return this.#passOn(key);
      if (this.enter(key, max)) return true;
    }
    const [oldest] = this.#draining.get(key) ?? [];
    if (oldest === undefined) return false;
    this.#forget(key, oldest);
    const slot_freed = this.#slotFreed(key, PREEMPT_AFTER_MS, waiter);
    oldest.preempt();
    await slot_freed;
    return waiter.is_over ? this.#passOn(key) : this.enter(key, max);
  }

  /** Marks a counted request as preemptible, because its client has disconnected. */
  detach(key: string, request: DrainingRequest): void {
    const draining = this.#draining.get(key);
    if (draining === undefined) this.#draining.set(key, new Set([request]));
    else draining.add(request);
  }

  leave(key: string, request: DrainingRequest): void {
    const count = this.#counts.get(key)! - 1;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
    this.#forget(key, request);
    this.#wakeNext(key);
  }

  count(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  #forget(key: string, request: DrainingRequest): void {
    const draining = this.#draining.get(key);
    if (draining?.delete(request) && draining.size === 0) this.#draining.delete(key);
  }

  #wakeNext(key: string): void {
    const [first] = this.#waiting.get(key) ?? [];
    first?.();
  }

  /** A waiter may be woken just before its request is over; its slot then goes to the next one. */
  #passOn(key: string): false {
    this.#wakeNext(key);
    return false;
  }

  /** Resolves when a slot may be free, after `ms`, or when the waiter stops waiting. */
  #slotFreed(key: string, ms: number, waiter: Waiter): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(key) ?? new Set();
      this.#waiting.set(key, waiting);
      const go = () => {
        timer.close();
        waiter.stopWaiting = undefined;
        if (waiting.delete(go) && waiting.size === 0) this.#waiting.delete(key);
        resolve();
      };
      const timer = this.#clock.after(ms, go);
      waiting.add(go);
      waiter.stopWaiting = go;
    });
  }
}

/** The error for a caller at the limit of concurrent requests. */
export function tooManyRequests(limit: number): StageError {
  const message = `You have ${limit} requests in flight, the limit for one caller. Retry when one of them has completed.`;
  return new StageError('rate_limit_exceeded', message, {
    headers: { 'retry-after': String(CONCURRENCY_RETRY_SECONDS) },
    details: { limit, unit: 'requests', in_flight: limit },
  });
}

/** The concurrency slots and memory quotas of one request, beside the quota of its body. */
export class RequestResources {
  readonly #under_way: ConcurrencyLimiter;
  readonly #request: Waiter & DrainingRequest;
  #slots: string[] | undefined;
  #quotas: BufferQuota[] | undefined;

  constructor(under_way: ConcurrencyLimiter, request: Waiter & DrainingRequest) {
    this.#under_way = under_way;
    this.#request = request;
  }

  /** Takes a slot. @returns false when `max` are taken, or the request is over */
  claimSlot(key: string, max: number): boolean {
    return !this.#request.is_over && this.#under_way.enter(key, max) && this.#keepSlot(key);
  }

  /** Takes a slot, waiting for a draining request where one has it. @returns false also when the request is over */
  async waitForSlot(key: string, max: number): Promise<boolean> {
    const request = this.#request;
    if (request.is_over || !(await this.#under_way.waitToEnter(key, max, request))) return false;
    if (!request.is_over) return this.#keepSlot(key);
    this.#under_way.leave(key, request);
    return false;
  }

  #keepSlot(key: string): true {
    this.#slots = [...(this.#slots ?? []), key];
    return true;
  }

  addQuota(quota: BufferQuota): BufferQuota {
    this.#quotas = [...(this.#quotas ?? []), quota];
    return quota;
  }

  /** Makes the slots preemptible. */
  detach(): void {
    for (const key of this.#slots ?? []) this.#under_way.detach(key, this.#request);
  }

  /** Frees everything. Idempotent. */
  leave(): void {
    for (const key of this.#slots ?? []) this.#under_way.leave(key, this.#request);
    for (const quota of this.#quotas ?? []) quota.release();
    this.#slots = undefined;
    this.#quotas = undefined;
  }
}

/** A response that may still arrive after its request has failed. */
export interface LateResponse {
  readonly relay: Promise<Relay>;
  readonly cancel: (reason: StageError) => void;
}

/** One caller's largest share of `ReadToEndLimits.requests`: clients that abort on purpose cannot use up the limit. */
const DRAIN_SHARE = 1 / 4;

/** `on_client_abort: drain`: reads a response to its end, within limits, for its usage: providers charge for it either way. */
export class ResponseDrain {
  late: LateResponse | undefined;
  /** Whether an upstream has the request. */
  is_forwarded = false;
  #limits: ReadToEndLimits | undefined;
  /** Set once the client has gone: the limits that count this drain, and the caller they count it for. */
  #reading: { readonly limits: ReadToEndLimits; readonly caller: string; readonly timer: Timer } | undefined;
  #bytes = 0;

  get has_begun(): boolean {
    return this.#reading !== undefined;
  }

  /** See `StageContext.readToEndWithin`. */
  within(limits: ReadToEndLimits | undefined): void {
    this.is_forwarded = true;
    this.#limits = limits;
  }

  /** @returns false where draining is off, or too many drains run, in all or for this caller */
  begin(
    clock: Clock,
    options: { readonly caller: string; readonly seconds: number; readonly onTimeUp: () => void },
  ): boolean {
    const limits = this.#limits;
    if (limits === undefined || this.has_begun) return limits !== undefined;
    const { caller, seconds, onTimeUp } = options;
    const own = limits.running_of.get(caller) ?? 0;
    if (limits.running >= limits.requests || own >= Math.ceil(limits.requests * DRAIN_SHARE)) return false;
    limits.running++;
    limits.running_of.set(caller, own + 1);
    const timer = clock.after(Math.min(seconds, limits.seconds) * 1000, onTimeUp);
    this.#reading = { limits, caller, timer };
    return true;
  }

  /** Counts bytes. @returns whether the limit allows more */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#reading!.limits.bytes;
  }

  end(): void {
    this.is_forwarded = false;
    if (this.#reading === undefined) return;
    const { limits, caller, timer } = this.#reading;
    timer.close();
    limits.running--;
    const own = limits.running_of.get(caller)! - 1;
    if (own > 0) limits.running_of.set(caller, own);
    else limits.running_of.delete(caller);
  }
}
