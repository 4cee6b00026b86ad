import { beginningOfWindow, type SpendWindow } from '../../base/contract/windows.ts';

const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;

/** UTC offset of a time zone at a moment, in milliseconds. */
function aheadOf(at: number, time_zone: string): number {
  // "sv-SE" writes 2027-01-31 18:00:00.
  const local = new Date(at).toLocaleString('sv-SE', { timeZone: time_zone });
  return Math.round((Date.parse(`${local.replace(' ', 'T')}Z`) - at) / MINUTE_MS) * MINUTE_MS;
}

/**
 * Beginning of a day (2027-01-31) in a time zone, as ISO 8601 in UTC. Other texts are returned unchanged: a link may contain a time.
 */
export function beginningOf(day: string | undefined, time_zone: string): string | undefined {
  if (!isDay(day)) return day;
  const midnight = Date.parse(day);
  // The offset is looked up twice, as the clock may change between the two moments.
  const near = midnight - aheadOf(midnight, time_zone);
  return new Date(midnight - aheadOf(near, time_zone)).toISOString();
}

// In URLs, days are YYYY-MM-DD in the gateway's time zone; `until` is exclusive.

/** Titles of ranges; `custom` has its own beginning and optional end. */
export const RANGE_TITLES = {
  today: 'Today',
  '7d': '7 days',
  '30d': '30 days',
  month: 'This month',
  custom: 'Custom',
} as const;
type RangeName = keyof typeof RANGE_TITLES;

/** A period of days, or of times. */
export interface Period {
  readonly since?: string;
  readonly until?: string;
}

type RangeSearch = Period & { readonly range?: string };

/** Whether a text is a day. */
export function isDay(text: string | undefined): text is string {
  return text !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));
}

/** A day shifted by a number of days, which may be negative. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Today in a time zone. */
export function today(time_zone: string): string {
  return dayIn(new Date(), time_zone);
}

/** Day of a moment in a time zone. */
export function dayIn(at: Date, time_zone: string): string {
  return at.toLocaleDateString('en-CA', { timeZone: time_zone });
}

/** Range of a URL; `since` or `until` make it a custom one. */
export function rangeOf({ range = '', since, until }: RangeSearch): RangeName {
  if (since !== undefined || until !== undefined) return 'custom';
  return Object.hasOwn(RANGE_TITLES, range) ? (range as RangeName) : '7d';
}

const DAYS_BACK = { today: 0, '7d': 6, '30d': 29 } as const;

/** Range of a URL as parameters of the admin API. */
export function periodOf(search: RangeSearch, time_zone: string): Period {
  const { since, until } = search;
  const now = today(time_zone);
  const range = rangeOf(search);
  if (range === 'custom') return { ...(since !== undefined && { since }), ...(until !== undefined && { until }) };
  return { since: range === 'month' ? `${now.slice(0, 7)}-01` : dayAfter(now, -DAYS_BACK[range]) };
}

/** The calendar window of today as an address of the page of usage. */
export function rangeOfWindow(window: SpendWindow, time_zone: string): RangeSearch {
  if (window === 'day') return { range: 'today' };
  if (window === 'month') return { range: 'month' };
  return { since: firstDay(window, today(time_zone)) };
}

/** When the calendar window of today ends, as ISO 8601 in UTC. */
export function endOfWindow(window: SpendWindow, time_zone: string): string {
  return beginningOf(firstDay(window, today(time_zone), 1), time_zone)!;
}

/** The first day of the calendar window of a day, or of the one so many windows later. */
export function firstDay(window: SpendWindow, day: string, later = 0): string {
  return new Date(beginningOfWindow(window, Date.parse(day), later)).toISOString().slice(0, 10);
}

/** The Monday of a day's week. */
export function mondayBefore(day: string): string {
  return firstDay('week', day);
}

/** A short date and time: omits midnight, the current year, and a day equal to that of `after`. */
export function momentWords(at: string, time_zone: string, after?: string): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString('en-GB', { timeZone: time_zone, hour: '2-digit', minute: '2-digit' });
  const year =
    dayIn(date, time_zone).slice(0, 4) === today(time_zone).slice(0, 4) ? {} : ({ year: 'numeric' } as const);
  const day = date.toLocaleDateString('en', { timeZone: time_zone, month: 'short', day: 'numeric', ...year });
  if (after !== undefined && dayIn(new Date(after), time_zone) === dayIn(date, time_zone)) return time;
  return time === '00:00' ? day : `${day}, ${time}`;
}
