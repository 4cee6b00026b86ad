/** Conversion between instants and local time in a time zone. @module */
import { parseDate } from './times.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(time_zone: string): Intl.DateTimeFormat {
  const known = formats.get(time_zone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: time_zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  formats.set(time_zone, format);
  return format;
}

/** Local time of an instant, as the milliseconds since the epoch of the same time in UTC. */
export function wallClock(at_ms: number, time_zone: string): number {
  const parts = Object.fromEntries(
    formatOf(time_zone)
      .formatToParts(at_ms)
      .map(({ type, value }) => [type, Number(value)]),
  );
  return Date.UTC(parts.year!, parts.month! - 1, parts.day, parts.hour, parts.minute, parts.second);
}

/** The instant of a local time. */
export function momentOf(wall_ms: number, time_zone: string): number {
  const offsetAt = (at_ms: number) => wallClock(at_ms, time_zone) - at_ms;
  const before = wall_ms - offsetAt(wall_ms - DAY_MS);
  const after = wall_ms - offsetAt(wall_ms + DAY_MS);
  if (before === after) return before;
  const exists = (at_ms: number) => wallClock(at_ms, time_zone) === wall_ms;
  // Of two instants the first counts. For a skipped time, PostgreSQL uses the offset before the change.
  return exists(before) || !exists(after) ? before : after;
}

/** The start of a day such as `2027-01-31`; `undefined` for an invalid date. */
export function startOfDate(day: string, time_zone: string): Date | undefined {
  const midnight = /^\d{4}-\d{2}-\d{2}$/.test(day) ? parseDate(day) : undefined;
  return midnight && new Date(momentOf(midnight.getTime(), time_zone));
}

/** An instant in local time, to the minute: `2027-01-31 14:05 Europe/Berlin`. */
export function formatInZone(at_ms: number, time_zone: string): string {
  return `${new Date(wallClock(at_ms, time_zone)).toISOString().slice(0, 16).replace('T', ' ')} ${time_zone}`;
}

/** Like `formatInZone`, rounded up to the next minute. */
export function formatMinuteFrom(at_ms: number, time_zone: string): string {
  return formatInZone(Math.ceil(at_ms / MINUTE_MS) * MINUTE_MS, time_zone);
}
