import type { Clock } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';

/** A clock with its own start, which runs like the machine's and can be advanced. */
export interface MovableClock extends Clock {
  moveOn(milliseconds: number): void;
  /** Advances to a moment in milliseconds since the epoch; never back. */
  moveTo(moment: number): void;
}

/** All rows of this process have the time of this clock. */
export function movableClock(start: number): MovableClock {
  const began = systemClock.monotonic();
  let moved = 0;
  const passed = () => systemClock.monotonic() - began + moved;
  const now = () => Math.floor(start + passed());
  return {
    now,
    monotonic: passed,
    after: systemClock.after,
    // The database then uses this clock in place of its own.
    frozen: true,
    moveOn(milliseconds) {
      moved += milliseconds;
    },
    moveTo(moment) {
      moved += Math.max(0, moment - now());
    },
  };
}
