import type { Clock, Timer } from '../../engine/contract/services.ts';

/** The machine's time, which a test can move on: what waits for its time then begins at once. */
export interface MovableClock extends Clock {
  advance(milliseconds: number): void;
}

/** Creates one that shows the time of the tests. */
export function movableClock(): MovableClock {
  let moved_ms = 0;
  const waiting = new Set<WaitingTask>();
  const monotonic = () => performance.now() + moved_ms;
  return {
    now: () => Date.now() + moved_ms,
    monotonic,
    after: (milliseconds, task) => new WaitingTask(milliseconds, task, { monotonic, waiting }),
    frozen: false,
    advance(milliseconds) {
      moved_ms += milliseconds;
      for (const task of [...waiting].sort((a, b) => a.due_ms - b.due_ms)) task.arm();
    },
  };
}

class WaitingTask implements Timer {
  readonly #delay_ms: number;
  readonly #task: () => void;
  readonly #among: { monotonic(): number; readonly waiting: Set<WaitingTask> };
  due_ms = 0;
  #timer: NodeJS.Timeout | undefined;
  #keeps_alive = true;

  constructor(delay_ms: number, task: () => void, among: { monotonic(): number; readonly waiting: Set<WaitingTask> }) {
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

  /** Waits for what is left of its time. */
  arm(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.#among.waiting.delete(this);
        this.#task();
      },
      Math.max(0, this.due_ms - this.#among.monotonic()),
    );
    if (!this.#keeps_alive) this.#timer.unref();
  }
}
