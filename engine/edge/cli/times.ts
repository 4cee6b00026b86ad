import { isTimeZone } from '../../base/kit/net/addresses.ts';
import { formatInZone } from '../../base/kit/zoned-time.ts';

/**
 * The time zone of the person at this machine, by its name: what TZ says, else what the system is set to. Node.js takes a
 * TZ that it doesn't know for UTC.
 */
function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const two = (number: number) => String(number).padStart(2, '0');

/** Formats a moment, which somebody else may have written down (ISO 8601): what is no moment stays as it is. */
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

/** A moment to the minute with a time zone, the local one where none is told, as 2027-01-31 14:05 Europe/Berlin. */
export function formatMoment(moment: Date | string, time_zone = localZone()): string {
  return format(moment, (date) => formatInZone(date.getTime(), isTimeZone(time_zone) ? time_zone : 'UTC'));
}

/** A moment to the millisecond in one word (ISO 8601): the local time with its distance from UTC. */
export function formatTimestamp(moment: Date | string): string {
  return format(moment, (date) => {
    const minutes = -date.getTimezoneOffset();
    const local = new Date(date.getTime() + minutes * 60_000).toISOString();
    if (minutes === 0) return local;
    const distance = Math.abs(minutes);
    return local.replace('Z', `${minutes < 0 ? '-' : '+'}${two(Math.floor(distance / 60))}:${two(distance % 60)}`);
  });
}

/** A title of a column of days, with a short name of the time zone they are in: there is no room for a long one. */
export function titleInZone(title: string): string {
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts();
  return `${title} (${parts.find(({ type }) => type === 'timeZoneName')?.value ?? localZone()})`;
}
