const MINUTE_MS = 60_000;

/** How far a time zone is ahead of UTC at a moment, in milliseconds. */
function aheadOf(at: number, time_zone: string): number {
  // "sv-SE" writes 2027-01-31 18:00:00.
  const local = new Date(at).toLocaleString('sv-SE', { timeZone: time_zone });
  return Math.round((Date.parse(`${local.replace(' ', 'T')}Z`) - at) / MINUTE_MS) * MINUTE_MS;
}

/**
 * The moment at which a day (2027-01-31) begins in a time zone, some days later where `days` says so, as ISO 8601 in UTC.
 * What is no day stays as it is: a link may name a moment.
 */
export function beginningOf(day: string | undefined, time_zone: string, days = 0): string | undefined {
  if (day === undefined || !/^\d{4}-\d\d-\d\d$/.test(day)) return day;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  if (Number.isNaN(midnight)) return day;
  const wanted = midnight + days * 24 * 60 * MINUTE_MS;
  // Once more, as the clock may be put on or back between the two.
  const near = wanted - aheadOf(wanted, time_zone);
  return new Date(wanted - aheadOf(near, time_zone)).toISOString();
}

// Days and ranges of days as they are written in addresses: YYYY-MM-DD, in the time zone of the gateway.

/** What ranges are called; `custom` has a beginning and perhaps an end of its own. */
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

const DAY_MS = 86_400_000;

/** Whether a text is a day. */
export function isDay(text: string | undefined): text is string {
  return text !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));
}

/** A day so many days later, or earlier where the number is negative. */
export function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

/** Today in a time zone. */
export function today(time_zone: string): string {
  return dayIn(new Date(), time_zone);
}

function dayIn(at: Date, time_zone: string): string {
  return at.toLocaleDateString('en-CA', { timeZone: time_zone });
}

/** Which range an address means: a beginning or an end makes it a custom one. */
export function rangeOf({ range = '', since, until }: RangeSearch): RangeName {
  if (since !== undefined || until !== undefined) return 'custom';
  return Object.hasOwn(RANGE_TITLES, range) ? (range as RangeName) : '7d';
}

/** How many days before today a range begins. */
const DAYS_BACK = { today: 0, '7d': 6, '30d': 29 } as const;

/** The range of an address as the admin API takes it. */
export function periodOf(search: RangeSearch, time_zone: string): Period {
  const { since, until } = search;
  const now = today(time_zone);
  const range = rangeOf(search);
  if (range === 'custom') return { ...(since !== undefined && { since }), ...(until !== undefined && { until }) };
  return { since: range === 'month' ? `${now.slice(0, 7)}-01` : dayAfter(now, -DAYS_BACK[range]) };
}

/** What a bar of a chart stands for. */
export type Step = 'hour' | 'day' | 'week' | 'month';

/** How long bars are, so that a chart of a period has neither few nor too many. */
export function stepOf(since: string | null, until: string): Step {
  const days = since === null ? Number.POSITIVE_INFINITY : (Date.parse(until) - Date.parse(since)) / DAY_MS;
  return days <= 2.1 ? 'hour' : days <= 62 ? 'day' : days <= 400 ? 'week' : 'month';
}

/** The Monday of a day's week. */
export function mondayBefore(day: string): string {
  return dayAfter(day, -weekdayOf(day));
}

/** From 0, a Monday. */
function weekdayOf(day: string): number {
  return (new Date(day).getUTCDay() + 6) % 7;
}

/** Monday of an ISO week such as 2027-W05. */
export function mondayOf(week: string): string {
  const [year, number] = week.split('-W').map(Number) as [number, number];
  const fourth = `${year}-01-04`;
  return dayAfter(mondayBefore(fourth), (number - 1) * 7);
}

function weekOf(day: string): string {
  const thursday = dayAfter(mondayBefore(day), 3);
  const year = thursday.slice(0, 4);
  const number = 1 + Math.floor((Date.parse(thursday) - Date.parse(mondayOf(`${year}-W01`))) / (7 * DAY_MS));
  return `${year}-W${String(number).padStart(2, '0')}`;
}

/** All steps of a period in order, as reports name them, whether anything happened in them or not. */
export function stepsBetween(since: string, until: string, step: Step, time_zone: string): string[] {
  const first = dayIn(new Date(since), time_zone);
  // The end is not included.
  const last = dayIn(new Date(Date.parse(until) - 1), time_zone);
  const days: string[] = [];
  for (let day = first; day <= last && days.length < 4000; day = dayAfter(day, 1)) days.push(day);
  const named = {
    hour: () => days.flatMap((day) => HOURS.map((hour) => `${day}T${hour}:00`)),
    day: () => days,
    week: () => days.map(weekOf),
    month: () => days.map((day) => day.slice(0, 7)),
  };
  return [...new Set(named[step]())];
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

/** The period of one step; `undefined` for an hour, which a day of a report cannot name. */
export function periodOfStep(name: string, step: Step): Required<Period> | undefined {
  if (step === 'day') return { since: name, until: dayAfter(name, 1) };
  if (step === 'week') return { since: mondayOf(name), until: dayAfter(mondayOf(name), 7) };
  if (step === 'month') return { since: `${name}-01`, until: `${dayAfter(`${name}-28`, 4).slice(0, 7)}-01` };
  return undefined;
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

/** What a step is called: short below a bar, and in full. */
export function stepWords(name: string, step: Step): { readonly name: string; readonly title: string } {
  if (step === 'hour') {
    const hour = name.slice(11);
    return { name: hour, title: `${LONG_DAY.format(new Date(name.slice(0, 10)))}, ${hour}` };
  }
  if (step === 'day') return { name: SHORT_DAY.format(new Date(name)), title: LONG_DAY.format(new Date(name)) };
  if (step === 'month') return { name: MONTH.format(new Date(name)), title: MONTH.format(new Date(name)) };
  return {
    name: SHORT_DAY.format(new Date(mondayOf(name))),
    title: `Week of ${LONG_DAY.format(new Date(mondayOf(name)))}`,
  };
}

/** A moment without what goes without saying: midnight is a day, this year has no number, the same day as another no name. */
export function momentWords(at: string, time_zone: string, after?: string): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString('en-GB', { timeZone: time_zone, hour: '2-digit', minute: '2-digit' });
  const year =
    dayIn(date, time_zone).slice(0, 4) === today(time_zone).slice(0, 4) ? {} : ({ year: 'numeric' } as const);
  const day = date.toLocaleDateString('en', { timeZone: time_zone, month: 'short', day: 'numeric', ...year });
  if (after !== undefined && dayIn(new Date(after), time_zone) === dayIn(date, time_zone)) return time;
  return time === '00:00' ? day : `${day}, ${time}`;
}

/** Lines across the chart at round values, the last of them at its top or above the highest bar. */
export function roundSteps(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * unit >= rough)! * unit;
  return Array.from({ length: Math.ceil(highest / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** How many decimal places tell the lines of a chart exactly, given their distance. */
export function placesOf(step: number): number {
  const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const scaled = step * 10 ** places;
  return Math.abs(scaled - Math.round(scaled)) < 1e-6 ? places : places + 1;
}
