import type { Clock } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';

/** A clock that begins at some moment, runs on with the machine's, and can be moved forward. */
export interface MovableClock extends Clock {
  moveOn(milliseconds: number): void;
  /** Moves it to a moment in milliseconds since the epoch; never back. */
  moveTo(moment: number): void;
}

/** Everything that is done by such a clock is written down with its time. */
export function movableClock(start: number): MovableClock {
  const began = systemClock.monotonic();
  let moved = 0;
  const passed = () => systemClock.monotonic() - began + moved;
  const now = () => Math.floor(start + passed());
  return {
    now,
    monotonic: passed,
    after: systemClock.after,
    // The database does not go by its own clock then.
    frozen: true,
    moveOn(milliseconds) {
      moved += milliseconds;
    },
    moveTo(moment) {
      moved += Math.max(0, moment - now());
    },
  };
}
