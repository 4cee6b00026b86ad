import type { Clock, Timer } from '../../../base/contract/services.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Sent } from './collector.ts';

export type LossReason = 'queue_full' | 'refused' | 'failed' | 'closing';

export interface QueueEvents {
  dropped(items: number, reason: LossReason): void;
  sent(items: number, answer: Sent): void;
}

interface QueueOptions<Item> {
  /** Capacity, including items in flight: in items, or by weight. */
  readonly capacity: number;
  readonly weigh?: (item: Item) => number;
  readonly batch_items: number;
  /** Longest wait of an item for a full batch. */
  readonly delay_ms: number;
  /** Sends one batch; never rejects. */
  readonly send: (items: readonly Item[]) => Promise<Sent>;
  readonly closed: () => void;
  readonly events: QueueEvents;
  readonly clock: Clock;
}

/** Most concurrent requests to a collector; one while it fails. */
const SENDS_MAX = 4;
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 30_000;
const RETRY_AFTER_MAX_MS = 300_000;
/** Most attempts of a batch, so that a bad batch does not block the queue. */
const SENDS_OF_BATCH_MAX = 10;

/** A bounded queue of items for a collector, with batches and backoff. It drops and counts items beyond its capacity. */
export class ExportQueue<Item> {
  readonly #options: QueueOptions<Item>;
  readonly #weigh: (item: Item) => number;
  #waiting: Item[] = [];
  #in_flight = 0;
  #taken = 0;
  readonly #sends = new Set<Promise<void>>();
  #failures = 0;
  #timer: Timer | undefined;
  #is_paused = false;
  #is_closing = false;
  #is_closed = false;

  constructor(options: QueueOptions<Item>) {
    this.#options = options;
    this.#weigh = options.weigh ?? (() => 1);
  }

  get taken(): number {
    return this.#taken;
  }

  push(item: Item): void {
    const { capacity, batch_items, events } = this.#options;
    const weight = this.#weigh(item);
    if (this.#is_closed || this.#taken + weight > capacity) {
      events.dropped(1, this.#is_closed ? 'closing' : 'queue_full');
      return;
    }
    this.#waiting.push(item);
    this.#taken += weight;
    if (this.#is_paused) return;
    if (this.#waiting.length >= batch_items) this.#flow();
    else this.#wakeIn(this.#options.delay_ms);
  }

  #leave(items: readonly Item[]): readonly Item[] {
    for (const item of items) this.#taken -= this.#weigh(item);
    return items;
  }

  /** Flushes the queue within a timeout and closes it. Remaining items are dropped and counted. */
  async close(timeout_ms: number): Promise<void> {
    this.#is_closing = true;
    this.#clearTimer();
    this.#is_paused = false;
    this.#flow();
    await waitAtMost(timeout_ms, this.#flushed());
    this.#is_closed = true;
    this.#clearTimer();
    const left = this.#waiting.splice(0).length + this.#in_flight;
    if (left > 0) this.#options.events.dropped(left, 'closing');
    this.#options.closed();
  }

  async #flushed(): Promise<void> {
    while (this.#sends.size > 0) await Promise.all(this.#sends);
  }

  #flow(): void {
    this.#clearTimer();
    const { batch_items } = this.#options;
    while (this.#waiting.length > 0 && this.#sends.size < (this.#failures > 0 ? 1 : SENDS_MAX)) {
      const send = this.#send(this.#waiting.splice(0, batch_items));
      this.#sends.add(send);
      void send.then(() => {
        this.#sends.delete(send);
        this.#goOn();
      });
      if (this.#waiting.length < batch_items && !this.#is_closing) break;
    }
    if (this.#waiting.length > 0 && !this.#is_closing && this.#sends.size === 0) this.#wakeIn(this.#options.delay_ms);
  }

  #goOn(): void {
    if (this.#is_closed || this.#is_paused || this.#waiting.length === 0) return;
    if (this.#is_closing || this.#waiting.length >= this.#options.batch_items) this.#flow();
    else this.#wakeIn(this.#options.delay_ms);
  }

  async #send(items: readonly Item[]): Promise<void> {
    const { send, events } = this.#options;
    this.#in_flight += items.length;
    const answer = await send(items);
    this.#in_flight -= items.length;
    // Already counted as dropped.
    if (this.#is_closed) return;
    if (answer.outcome === 'failed') this.#failed(items, answer.retry_after_ms);
    else {
      this.#failures = 0;
      this.#leave(items);
      const lost = answer.outcome === 'refused' ? items.length : Math.min(answer.rejected, items.length);
      if (lost > 0) events.dropped(lost, 'refused');
    }
    events.sent(items.length, answer);
  }

  #failed(items: readonly Item[], retry_after_ms: number | undefined): void {
    this.#failures++;
    if (this.#is_closing || this.#failures % SENDS_OF_BATCH_MAX === 0) {
      this.#options.events.dropped(this.#leave(items).length, 'failed');
    } else {
      this.#waiting = [...items, ...this.#waiting];
    }
    if (this.#is_closing) return;
    const backoff = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), LAST_PAUSE_MS);
    const pause = Math.min(Math.max(backoff, retry_after_ms ?? 0), RETRY_AFTER_MAX_MS);
    this.#is_paused = true;
    this.#clearTimer();
    // Gateways that lost the same collector do not all come back at once.
    this.#wakeIn(pause * (1 + Math.random() / 5));
  }

  #wakeIn(milliseconds: number): void {
    if (this.#timer !== undefined) return;
    this.#timer = this.#options.clock.after(milliseconds, () => {
      this.#timer = undefined;
      this.#is_paused = false;
      this.#flow();
    });
    this.#timer.unref();
  }

  #clearTimer(): void {
    this.#timer?.close();
    this.#timer = undefined;
  }
}
