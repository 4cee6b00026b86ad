import { beginningOfWindow, type ReportTime, type SpendWindow, WINDOWS } from '../../base/contract/windows.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

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

interface Period {
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

/** Days before today at which a range begins. */
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
function firstDay(window: SpendWindow, day: string, later = 0): string {
  return new Date(beginningOfWindow(window, Date.parse(day), later)).toISOString().slice(0, 10);
}

/** Time step for a readable number of bars. */
export function stepOf(since: string | null, until: string): ReportTime {
  const days = since === null ? Number.POSITIVE_INFINITY : (Date.parse(until) - Date.parse(since)) / DAY_MS;
  return days <= 2.1 ? 'hour' : days <= 62 ? 'day' : days <= 400 ? 'week' : 'month';
}

/** The Monday of a day's week. */
export function mondayBefore(day: string): string {
  return firstDay('week', day);
}

/** The name that reports give to the time of a day: 2027-W05. */
function nameOf(step: SpendWindow, day: string): string {
  const thursday = dayAfter(mondayBefore(day), 3);
  const fields: Readonly<Record<string, string>> = {
    YYYY: day.slice(0, 4),
    MM: day.slice(5, 7),
    DD: day.slice(8),
    Q: String(Math.ceil(Number(day.slice(5, 7)) / 3)),
    IYYY: thursday.slice(0, 4),
    IW: String(Math.ceil((dayOfYear(thursday) + 1) / 7)).padStart(2, '0'),
  };
  return WINDOWS[step].format.replaceAll(/"(.*?)"|IYYY|YYYY|IW|MM|DD|Q/g, (field, text) => text ?? fields[field]);
}

function dayOfYear(day: string): number {
  return (Date.parse(day) - Date.parse(`${day.slice(0, 4)}-01-01`)) / DAY_MS;
}

/** The first day of a time that `nameOf` names. */
function dayOfName(step: SpendWindow, name: string): string {
  const [, year, number = '1'] = /^(\d{4})(?:-[A-Z]?(\d+)$)?/.exec(name)!;
  if (step === 'day') return name;
  // A week of the fourth of January is the first of its year.
  return firstDay(step, `${year}-01-04`, Number(number) - 1);
}

/** All steps of a period in order, by their names in reports, including empty ones. */
export function stepsBetween(since: string, until: string, step: ReportTime, time_zone: string): string[] {
  const first = dayIn(new Date(since), time_zone);
  // The end is exclusive.
  const last = dayIn(new Date(Date.parse(until) - 1), time_zone);
  const days: string[] = [];
  for (let day = first; day <= last && days.length < 4000; day = dayAfter(day, 1)) days.push(day);
  if (step === 'hour') return days.flatMap((day) => HOURS.map((hour) => `${day}T${hour}:00`));
  return [...new Set(days.map((day) => nameOf(step, day)))];
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

/** The period of one step; `undefined` for an hour, which a day of a report cannot name. */
export function periodOfStep(name: string, step: ReportTime): Required<Period> | undefined {
  if (step === 'hour') return undefined;
  const since = dayOfName(step, name);
  return { since, until: firstDay(step, since, 1) };
}

const SHORT_DAY = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' });
const LONG_DAY = new Intl.DateTimeFormat('en', {
  weekday: 'short',
  month: 'short',
  day: 'numeric',
  year: 'numeric',
  timeZone: 'UTC',
});
const MONTH = new Intl.DateTimeFormat('en', { month: 'short', year: 'numeric', timeZone: 'UTC' });

/** Names of a step: short for the axis, and in full. */
export function stepWords(name: string, step: ReportTime): { readonly name: string; readonly title: string } {
  if (step === 'hour') {
    const hour = name.slice(11);
    return { name: hour, title: `${LONG_DAY.format(new Date(name.slice(0, 10)))}, ${hour}` };
  }
  if (step === 'day') return { name: SHORT_DAY.format(new Date(name)), title: LONG_DAY.format(new Date(name)) };
  if (step === 'month') return { name: MONTH.format(new Date(name)), title: MONTH.format(new Date(name)) };
  if (step !== 'week') return { name, title: name };
  const monday = new Date(dayOfName(step, name));
  return { name: SHORT_DAY.format(monday), title: `Week of ${LONG_DAY.format(monday)}` };
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

/** Grid lines at round values, the last at or above the highest bar. */
export function roundSteps(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * unit >= rough)! * unit;
  return Array.from({ length: Math.ceil(highest / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** Decimal places that label grid lines exactly, given their distance. */
export function placesOf(step: number): number {
  const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const scaled = step * 10 ** places;
  return Math.abs(scaled - Math.round(scaled)) < 1e-6 ? places : places + 1;
}
