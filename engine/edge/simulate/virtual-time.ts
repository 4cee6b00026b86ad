import { setTimeout } from 'node:timers/promises';
import type { FrozenClock } from '../../base/kit/clock.ts';

/** Polling interval of activity, in real time. */
const TICK_MS = 2;
/** Ticks without activity before time advances, if an upstream waits. */
const QUIET_TICKS = 4;
/** The same if no upstream waits: a stage may be computing or reading a file. */
const SILENT_TICKS = 50;
/** Ticks without activity and timers before the request counts as hanging. */
const DEAD_TICKS = 500;
/** Longest virtual time of one request. */
const TIMEOUT_MS = 24 * 3_600_000;

interface Signs {
  activity(): number;
  waits(): boolean;
}

/** Waits for work on a stopped clock: without activity, advances the clock to the next timer. @returns whether the work ended. */
export async function passTime(work: Promise<unknown>, clock: FrozenClock, signs: Signs): Promise<boolean> {
  const done = work.then(
    () => true,
    () => true,
  );
  const end = clock.monotonic() + TIMEOUT_MS;
  let seen = signs.activity();
  let quiet = 0;
  while (!(await Promise.race([done, setTimeout(TICK_MS, false)]))) {
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
