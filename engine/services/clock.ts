import type { Clock } from '../api.ts';

/** The machine's own time. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  frozen: false,
};

/** A clock that only moves when told to. */
export interface FrozenClock extends Clock {
  advance(milliseconds: number): void;
}

/** Creates a stopped clock for tests. `start` is milliseconds since the epoch or a date that `Date` understands. */
export function frozenClock(start: number | string): FrozenClock {
  let now = new Date(start).getTime();
  let monotonic = 0;
  return {
    now: () => now,
    monotonic: () => monotonic,
    frozen: true,
    advance(milliseconds) {
      now += milliseconds;
      monotonic += milliseconds;
    },
  };
}

/** Runs a task again and again until the returned function is called. */
export type Every = (interval_ms: number, task: () => void) => () => void;

/** `Every` on a real timer that does not keep the process alive. */
export const everyInBackground: Every = (interval_ms, task) => {
  const timer = setInterval(task, interval_ms);
  timer.unref();
  return () => clearInterval(timer);
};
