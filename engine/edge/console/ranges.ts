import { beginningOfWindow, type SpendWindow } from '../../base/contract/windows.ts';

export const DAY_MS = 86_400_000;

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

/** The first day of the calendar window of a day, or of the one so many windows later. */
export function firstDay(window: SpendWindow, day: string, later = 0): string {
  return new Date(beginningOfWindow(window, Date.parse(day), later)).toISOString().slice(0, 10);
}
