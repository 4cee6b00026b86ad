import { AsyncResource } from 'node:async_hooks';
import type { Clock, Timer } from '../contract/services.ts';

/** The system clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (milliseconds, task) => setTimeout(task, milliseconds),
  frozen: false,
};

export interface FrozenClock extends Clock {
  /** Advances time and runs the tasks that become due, in order. */
  advance(milliseconds: number): void;
  /** Milliseconds until the next task; `undefined` without one. */
  next(): number | undefined;
}

interface Waiting {
  readonly delay_ms: number;
  readonly task: () => void;
  due_ms: number;
}

/** Creates a clock for tests that only `advance` moves. `start`: milliseconds since the epoch, or a date string. */
export function frozenClock(start: number | string): FrozenClock {
  const started = new Date(start).getTime();
  const waiting = new Set<Waiting>();
  let passed = 0;

  function after(milliseconds: number, task: () => void): Timer {
    // In the asynchronous context of the caller, like the system's timers.
    const entry: Waiting = { delay_ms: milliseconds, task: AsyncResource.bind(task), due_ms: passed + milliseconds };
    waiting.add(entry);
    return {
      refresh() {
        entry.due_ms = passed + entry.delay_ms;
        waiting.add(entry);
      },
      close: () => waiting.delete(entry),
      unref() {},
    };
  }

  function first(): Waiting | undefined {
    let earliest: Waiting | undefined;
    for (const entry of waiting) if (earliest === undefined || entry.due_ms < earliest.due_ms) earliest = entry;
    return earliest;
  }

  return {
    now: () => started + passed,
    monotonic: () => passed,
    after,
    frozen: true,
    advance(milliseconds) {
      const end = passed + milliseconds;
      for (let entry = first(); entry !== undefined && entry.due_ms <= end; entry = first()) {
        waiting.delete(entry);
        passed = Math.max(passed, entry.due_ms);
        entry.task();
      }
      passed = end;
    },
    next() {
      const entry = first();
      return entry === undefined ? undefined : entry.due_ms - passed;
    },
  };
}

/** Runs a task at an interval, until the returned function is called. */
export type Every = (interval_ms: number, task: () => void) => () => void;

/** `Every` on a real timer that does not keep the process alive. */
export const everyInBackground: Every = (interval_ms, task) => {
  const timer = setInterval(task, interval_ms);
  timer.unref();
  return () => clearInterval(timer);
};
