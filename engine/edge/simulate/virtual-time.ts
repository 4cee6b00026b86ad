import type { FrozenClock } from '../../base/kit/clock.ts';

/** How often, in real time, is looked whether anything happened. */
const TICK_MS = 2;
/** So many ticks without anything happening, once the upstream says that it waits for time to pass. */
const QUIET_TICKS = 4;
/** So many ticks without anything happening when nobody says so: a stage may be computing, or wait for a file. */
const SILENT_TICKS = 50;
/** So many ticks without anything happening and without anything that waits for time: nothing will happen any more. */
const DEAD_TICKS = 500;
/** Longest time that passes for one request. */
const PATIENCE_MS = 24 * 3_600_000;

/** What tells whether time should pass. */
export interface Signs {
  /** Grows with everything that happens. */
  activity(): number;
  /** Whether nothing will happen before time passes. */
  waits(): boolean;
}

function within<T>(work: Promise<T>, milliseconds: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), milliseconds);
    const done = () => {
      clearTimeout(timer);
      resolve(true);
    };
    work.then(done, done);
  });
}

/**
 * Waits for work that runs on a stopped clock: whenever nothing happens but waiting, the clock is moved to the next task
 * that waits for its time.
 * @returns whether the work came to an end.
 */
export async function passTime(work: Promise<unknown>, clock: FrozenClock, signs: Signs): Promise<boolean> {
  const end = clock.monotonic() + PATIENCE_MS;
  let seen = signs.activity();
  let quiet = 0;
  while (!(await within(work, TICK_MS))) {
    if (signs.activity() !== seen) {
      seen = signs.activity();
      quiet = 0;
      continue;
    }
    quiet++;
    const next = clock.next();
    if (next === undefined || clock.monotonic() + next > end) {
      if (quiet >= DEAD_TICKS) return false;
    } else if (quiet >= (signs.waits() ? QUIET_TICKS : SILENT_TICKS)) {
      clock.advance(next);
      quiet = 0;
    }
  }
  return true;
}
