/** Calendar windows without a database, the same as its `window_start` and `window_end` give. */

import type { Window } from '../contract/config.ts';
import type { LimitWindow } from '../contract/services.ts';
import { momentOf, wallClock } from '../kit/zoned-time.ts';

const MINUTE_MS = 60_000;

function startOnWall(kind: Window, wall_ms: number): Date {
  const date = new Date(wall_ms);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (kind === 'month') return new Date(Date.UTC(year, month));
  const after_monday = kind === 'week' ? (date.getUTCDay() + 6) % 7 : 0;
  return new Date(Date.UTC(year, month, day - after_monday));
}

/**
 * When the window that a moment lies in began and ends, in milliseconds since the epoch; what is counted only while it is
 * under way began always, and its end is `null`.
 */
export function windowAt(kind: LimitWindow, at_ms: number, time_zone: string): { start: number; end: number | null } {
  if (kind === 'open') return { start: Number.NEGATIVE_INFINITY, end: null };
  if (kind === 'minute') {
    const start = at_ms - (((at_ms % MINUTE_MS) + MINUTE_MS) % MINUTE_MS);
    return { start, end: start + MINUTE_MS };
  }
  const start = momentOf(startOnWall(kind, wallClock(at_ms, time_zone)).getTime(), time_zone);
  // Where a day has no midnight the clock shows one o'clock at the start, and the day ends at midnight all the same.
  const next = new Date(wallClock(start, time_zone));
  if (kind === 'month') next.setUTCMonth(next.getUTCMonth() + 1);
  else next.setUTCDate(next.getUTCDate() + (kind === 'day' ? 1 : 7));
  return { start, end: momentOf(startOnWall(kind, next.getTime()).getTime(), time_zone) };
}
