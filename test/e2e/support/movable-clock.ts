import type { Clock, Timer } from '../../../engine/base/contract/services.ts';

/** A clock that a test can advance: pending timeouts then fire at once. */
export interface MovableClock extends Clock {
  advance(milliseconds: number): void;
  /** How many tasks have started a wait of this length so far: as often as the operation with that time limit. */
  begun(milliseconds: number): number;
}

/** Creates a clock that runs like the machine's, or stands still until it is moved. */
export function movableClock({ stands = false } = {}): MovableClock {
  const start = Date.now();
  let moved_ms = 0;
  const waiting = new Set<WaitingTask>();
  const begun = new Map<number, number>();
  const monotonic = () => (stands ? 0 : performance.now()) + moved_ms;
  return {
    now: () => (stands ? start : Date.now()) + moved_ms,
    monotonic,
    after(milliseconds, task) {
      begun.set(milliseconds, (begun.get(milliseconds) ?? 0) + 1);
      return new WaitingTask(milliseconds, task, { monotonic, stands, waiting });
    },
    frozen: stands,
    advance(milliseconds) {
      moved_ms += milliseconds;
      for (const task of [...waiting].sort((a, b) => a.due_ms - b.due_ms)) task.arm();
    },
    begun: (milliseconds) => begun.get(milliseconds) ?? 0,
  };
}

/** The shared properties of the waiting tasks of a clock. */
interface Waiting {
  monotonic(): number;
  readonly stands: boolean;
  readonly waiting: Set<WaitingTask>;
}

class WaitingTask implements Timer {
  readonly #delay_ms: number;
  readonly #task: () => void;
  readonly #among: Waiting;
  due_ms = 0;
  #timer: NodeJS.Timeout | undefined;
  #keeps_alive = true;

  constructor(delay_ms: number, task: () => void, among: Waiting) {
    this.#delay_ms = delay_ms;
    this.#task = task;
    this.#among = among;
    this.refresh();
  }

  refresh(): void {
    this.due_ms = this.#among.monotonic() + this.#delay_ms;
    this.#among.waiting.add(this);
    this.arm();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#among.waiting.delete(this);
  }

  unref(): void {
    this.#keeps_alive = false;
    this.#timer?.unref();
  }

  /** Waits for the rest of its time. */
  arm(): void {
    clearTimeout(this.#timer);
    const left_ms = Math.max(0, this.due_ms - this.#among.monotonic());
    if (this.#among.stands && left_ms > 0) return;
    this.#timer = setTimeout(() => {
      this.#among.waiting.delete(this);
      this.#task();
    }, left_ms);
    if (!this.#keeps_alive) this.#timer.unref();
  }
}
