import { isTimeZone } from '../../base/kit/net/addresses.ts';
import { formatInZone } from '../../base/kit/zoned-time.ts';

/**
 * The local time zone by name: TZ, else the system's. Node.js treats an unknown TZ as UTC.
 */
function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const two = (number: number) => String(number).padStart(2, '0');

/** Formats a moment, possibly from an untrusted text (ISO 8601); invalid texts stay unchanged. */
function format(moment: Date | string, as: (date: Date) => string): string {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? String(moment) : as(date);
}

/** A calendar day in the local time zone, as 2027-01-31. */
export function formatDay(moment: Date | string): string {
  return format(moment, (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`);
}

/** A moment to the minute in the local time zone, without its name. */
export function formatMinute(moment: Date | string): string {
  return format(moment, (date) => `${formatDay(date)} ${two(date.getHours())}:${two(date.getMinutes())}`);
}

/** A moment to the minute with its time zone (default: local), as 2027-01-31 14:05 Europe/Berlin. */
export function formatMoment(moment: Date | string, time_zone = localZone()): string {
  return format(moment, (date) => formatInZone(date.getTime(), isTimeZone(time_zone) ? time_zone : 'UTC'));
}

/** A moment to the millisecond as one word (ISO 8601): local time with its UTC offset. */
export function formatTimestamp(moment: Date | string): string {
  return format(moment, (date) => {
    const minutes = -date.getTimezoneOffset();
    const local = new Date(date.getTime() + minutes * 60_000).toISOString();
    if (minutes === 0) return local;
    const distance = Math.abs(minutes);
    return local.replace('Z', `${minutes < 0 ? '-' : '+'}${two(Math.floor(distance / 60))}:${two(distance % 60)}`);
  });
}

/** The title of a column of dates, with the short name of the local time zone. */
export function titleInZone(title: string): string {
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts();
  return `${title} (${parts.find(({ type }) => type === 'timeZoneName')?.value ?? localZone()})`;
}
