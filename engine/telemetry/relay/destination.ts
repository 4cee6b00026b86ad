import type { Clock, Log, Timer } from '../../contract/services.ts';
import type { Metrics } from '../metrics.ts';
import type { NotTaken, Sent } from '../sent.ts';
import type { Deliver } from './delivery.ts';
import type { Signal } from './otlp/messages.ts';
import type { OutgoingPiece } from './outgoing.ts';

/** Most that waits for a destination. */
const QUEUE_BYTES_MAX = 16 * 1024 * 1024;
const QUEUE_PIECES_MAX = 4096;
/** Most that is sent at once. */
const BATCH_BYTES_MAX = 1024 * 1024;
/** How often a batch is sent, and after how many failures in a row a destination is left alone for a while. */
const FAILURES_MAX = 5;
const PAUSE_MS = 30_000;
const FIRST_RETRY_MS = 1000;
/** Longest that a destination may ask to be left alone. */
const RETRY_AFTER_MAX_MS = 300_000;

interface Waiting extends OutgoingPiece {
  readonly signal: Signal;
}

/** What a destination works with. */
export interface DestinationOptions {
  /** Its host, in logs and metrics. */
  readonly name: string;
  readonly deliver: Deliver;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Why something did not reach a destination. */
type Reason = 'queue_full' | 'refused' | 'failed' | 'closing';

/** One place that telemetry of clients goes to: what waits for it, and how it fares. */
export class Destination {
  readonly name: string;
  readonly #deliver: Deliver;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #waiting: Waiting[] = [];
  #bytes = 0;
  /** Failures since something was last taken. */
  #failures = 0;
  /** How often the batch at the front was sent. */
  #tries = 0;
  /** How many pieces at the front are sent one by one, because they were refused together. */
  #alone = 0;
  #told = false;
  #dropped = 0;
  #running: Promise<void> | undefined;
  #pause: { readonly timer: Timer; readonly end: () => void } | undefined;
  #closing = false;

  constructor({ name, deliver, clock, log, metrics }: DestinationOptions) {
    this.name = name;
    this.#deliver = deliver;
    this.#clock = clock;
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Bytes that wait. */
  get queued_bytes(): number {
    return this.#bytes;
  }

  /** Whether there is room for more; asked before work is put into what would be dropped. */
  get has_room(): boolean {
    return !this.#closing && this.#bytes < QUEUE_BYTES_MAX && this.#waiting.length < QUEUE_PIECES_MAX;
  }

  /** Takes a piece, or drops and counts it. Never waits. */
  take(signal: Signal, piece: OutgoingPiece): void {
    if (!this.has_room) {
      this.drop(signal, piece.items, this.#closing ? 'closing' : 'queue_full');
      return;
    }
    this.#waiting.push({ ...piece, signal });
    this.#bytes += piece.bytes.length;
    this.#running ??= this.#run();
  }

  /** Counts what did not reach it. */
  drop(signal: Signal, items: number, reason: Reason): void {
    this.#dropped += items;
    this.#metrics.add(
      'gateway.telemetry.dropped',
      {
        'gateway.telemetry.signal': signal,
        'gateway.telemetry.destination': this.name,
        'gateway.telemetry.reason': reason,
      },
      items,
    );
  }

  /** Sends what waits, once, and drops the rest when `patience` is over. */
  async close(patience: Promise<void>): Promise<void> {
    this.#closing = true;
    this.#pause?.end();
    await Promise.race([this.#running, patience]);
    for (const { signal, items } of this.#waiting.splice(0)) this.drop(signal, items, 'closing');
    this.#bytes = 0;
  }

  async #run(): Promise<void> {
    // What arrives in the same turn of the event loop goes with it.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const batch = this.#next();
      const { signal } = batch[0]!;
      const is_last_time = this.#closing;
      const delivered = await this.#deliver(signal, Buffer.concat(batch.map(({ bytes }) => bytes)));
      // Whoever closed it has given up on what waited.
      if (this.#waiting[0] !== batch[0]) break;
      await this.#conclude(batch, delivered);
      if (is_last_time && delivered.outcome === 'failed') break;
    }
    this.#running = undefined;
  }

  /** The pieces at the front that are of one signal, and not too much at once. */
  #next(): readonly Waiting[] {
    const { signal } = this.#waiting[0]!;
    const pieces_max = this.#alone > 0 ? 1 : Infinity;
    let bytes = 0;
    let count = 0;
    for (const piece of this.#waiting) {
      bytes += piece.bytes.length;
      if (piece.signal !== signal || count === pieces_max || (count > 0 && bytes > BATCH_BYTES_MAX)) break;
      count++;
    }
    return this.#waiting.slice(0, count);
  }

  async #conclude(batch: readonly Waiting[], delivered: Sent): Promise<void> {
    const { signal } = batch[0]!;
    const items = batch.reduce((sum, piece) => sum + piece.items, 0);
    if (delivered.outcome === 'taken') {
      const rejected = Math.min(Math.max(0, delivered.rejected), items);
      if (rejected > 0) this.drop(signal, rejected, 'refused');
      this.#noteSent(signal, items - rejected);
      this.#remove(batch);
      this.#failures = 0;
      this.#tellRecovery();
      return;
    }
    this.#failures++;
    if (delivered.outcome === 'refused') {
      // It may be the fault of one piece: then the others are taken.
      if (batch.length > 1) this.#alone = batch.length;
      else {
        this.drop(signal, items, 'refused');
        this.#remove(batch);
      }
    } else if (++this.#tries >= FAILURES_MAX) {
      this.drop(signal, items, 'failed');
      this.#remove(batch);
    }
    await this.#rest(delivered);
  }

  #remove(batch: readonly Waiting[]): void {
    this.#waiting.splice(0, batch.length);
    for (const { bytes } of batch) this.#bytes -= bytes.length;
    this.#tries = 0;
    this.#alone = Math.max(0, this.#alone - batch.length);
  }

  /** Waits as long as it should be left alone. */
  async #rest(delivered: NotTaken): Promise<void> {
    const asked = delivered.outcome === 'failed' ? delivered.retry_after_ms : undefined;
    const is_paused = this.#failures % FAILURES_MAX === 0;
    const own = delivered.outcome === 'failed' ? FIRST_RETRY_MS * 2 ** ((this.#failures % FAILURES_MAX) - 1) : 0;
    const wait = Math.min(Math.max(is_paused ? PAUSE_MS : own, asked ?? 0), RETRY_AFTER_MAX_MS);
    if (is_paused) this.#tellTrouble(delivered.why);
    if (wait === 0 || this.#closing) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        timer.close();
        this.#pause = undefined;
        resolve();
      };
      const timer = this.#clock.after(wait, end);
      timer.unref();
      this.#pause = { timer, end };
    });
  }

  #noteSent(signal: Signal, items: number): void {
    const labels = { 'gateway.telemetry.signal': signal, 'gateway.telemetry.destination': this.name };
    this.#metrics.add('gateway.client_telemetry.sent', labels, items);
  }

  #tellTrouble(reason: string): void {
    if (this.#told) return;
    this.#told = true;
    this.#log.warn(
      { destination: this.name, reason, pause_seconds: PAUSE_MS / 1000 },
      'telemetry of clients does not reach a destination of telemetry.forward_to; what there is no room for is dropped',
    );
  }

  #tellRecovery(): void {
    if (!this.#told) return;
    this.#told = false;
    this.#log.info(
      { destination: this.name, dropped: this.#dropped },
      'telemetry of clients reaches its destination again',
    );
    this.#dropped = 0;
  }
}
