import type { Clock, Timer } from '../../../base/contract/services.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Sent } from './collector.ts';

export type LossReason = 'queue_full' | 'refused' | 'failed' | 'closing';

export interface QueueEvents {
  dropped(items: number, reason: LossReason): void;
  sent(items: number, answer: Sent): void;
}

export interface QueueOptions<Item> {
  /** Most that is kept, waiting or on its way: in items, or by their weight. */
  readonly room: number;
  readonly weigh?: (item: Item) => number;
  readonly batch_items: number;
  /** Longest an item waits for others to be sent with. */
  readonly delay_ms: number;
  /** Sends one batch; never rejects. */
  readonly send: (items: readonly Item[]) => Promise<Sent>;
  readonly events: QueueEvents;
  readonly clock: Clock;
}

/** Requests to a collector that may run at once; one while it fails. */
const SENDS_MAX = 4;
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 30_000;
/** Longest a collector's own `Retry-After` is heeded. */
const RETRY_AFTER_MAX_MS = 300_000;
/** A batch that was refused this often for a time is given up, so that one that is the cause itself does not stay in the way. */
const SENDS_OF_BATCH_MAX = 10;

/** Items that wait for a collector, bounded. What there is no room for is dropped and counted. */
export class ExportQueue<Item> {
  readonly #options: QueueOptions<Item>;
  readonly #weigh: (item: Item) => number;
  #waiting: Item[] = [];
  #away = 0;
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
    const { room, batch_items, events } = this.#options;
    const weight = this.#weigh(item);
    if (this.#is_closed || this.#taken + weight > room) {
      events.dropped(1, this.#is_closed ? 'closing' : 'queue_full');
      return;
    }
    this.#waiting.push(item);
    this.#taken += weight;
    if (this.#is_paused) return;
    if (this.#waiting.length >= batch_items) this.#flow();
    else this.#wakeIn(this.#options.delay_ms);
  }

  /** Lets go of what waits, for another queue; what is on its way stays. */
  release(): readonly Item[] {
    return this.#leave(this.#waiting.splice(0));
  }

  #leave(items: readonly Item[]): readonly Item[] {
    for (const item of items) this.#taken -= this.#weigh(item);
    return items;
  }

  /** Sends what waits, for at most this long, and takes nothing any more. What is left is dropped and counted. */
  async close(patience_ms: number): Promise<void> {
    this.#is_closing = true;
    this.#clearTimer();
    this.#is_paused = false;
    this.#flow();
    await waitAtMost(patience_ms, this.#drained());
    this.#is_closed = true;
    this.#clearTimer();
    const left = this.#waiting.splice(0).length + this.#away;
    if (left > 0) this.#options.events.dropped(left, 'closing');
  }

  async #drained(): Promise<void> {
    while (this.#sends.size > 0) await Promise.all(this.#sends);
  }

  /** Sends batches until enough are on their way. While closing, what is no batch yet is sent as well. */
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
    this.#away += items.length;
    const answer = await send(items);
    this.#away -= items.length;
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
