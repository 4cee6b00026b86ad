/**
 * Windows of limits and reports. Schemas, admin API, SQL (`schema/windows.sql`), commands and console derive from this table:
 * `npm run generate` after a change. @module
 */

/** What a limit counts: money in a calendar window, requests or tokens in a minute, requests in flight. */
export type LimitUnit = 'nano_usd' | 'requests' | 'tokens';

interface WindowSpec {
  /** What a limit of this window can count; none: only reports have it. */
  readonly units: readonly LimitUnit[];
  /** The current one, in sentences: `today`. */
  readonly now: string;
  /** Length of a window within a day. */
  readonly minutes?: number;
  /** Length of a calendar window of days; a week begins on Monday. */
  readonly days?: number;
  /** Length of a calendar window of months. */
  readonly months?: number;
  /** How reports name one, as PostgreSQL's `to_char` takes it; absent: no report is grouped by it. */
  readonly format?: string;
  /** Of a limit in money, in sentences and in keys of `spend_limits.defaults`: `daily`. */
  readonly adjective?: string;
  /** How many windows before the current one a forecast looks at. */
  readonly past?: number;
}

/** Every window, in the order of lists and messages. Its name is a field that PostgreSQL's `date_trunc` knows; `open` alone never ends. */
export const WINDOWS = {
  hour: { units: [], now: 'this hour', minutes: 60, format: 'YYYY-MM-DD"T"HH24:00' },
  day: { units: ['nano_usd'], now: 'today', days: 1, format: 'YYYY-MM-DD', adjective: 'daily', past: 7 },
  week: { units: ['nano_usd'], now: 'this week', days: 7, format: 'IYYY-"W"IW', adjective: 'weekly', past: 4 },
  month: { units: ['nano_usd'], now: 'this month', months: 1, format: 'YYYY-MM', adjective: 'monthly', past: 3 },
  minute: { units: ['requests', 'tokens'], now: 'this minute', minutes: 1 },
  open: { units: ['requests'], now: 'now' },
} as const satisfies Readonly<Record<string, WindowSpec>>;

type WindowName = keyof typeof WINDOWS;

type Counting<Unit extends LimitUnit> = {
  [Name in WindowName]: [Extract<(typeof WINDOWS)[Name]['units'][number], Unit>] extends [never] ? never : Name;
}[WindowName];

/** Calendar window of a limit in money, in `spend_limits.time_zone`. */
export type SpendWindow = Counting<'nano_usd'>;

/** Window of a limit: a calendar window, a minute, or `open` for requests in flight. */
export type LimitWindow = Counting<LimitUnit>;

/** What a report can be grouped by, of time. */
export type ReportTime = {
  [Name in WindowName]: (typeof WINDOWS)[Name] extends { readonly format: string } ? Name : never;
}[WindowName];

const specs: Readonly<Record<WindowName, WindowSpec>> = WINDOWS;
const NAMES = Object.keys(WINDOWS) as readonly WindowName[];

/** Windows of limits, in the order of lists and messages. */
export const LIMIT_WINDOWS = NAMES.filter((name): name is LimitWindow => specs[name].units.length > 0);

/** Calendar windows of limits in money. */
export const SPEND_WINDOWS = LIMIT_WINDOWS.filter(isSpendWindow);

/** Windows that reports group by, the shortest first. */
export const REPORT_TIMES = NAMES.filter((name): name is ReportTime => specs[name].format !== undefined);

/** Whether limits of a window are in money, so that it is a calendar window. */
export function isSpendWindow(window: LimitWindow): window is SpendWindow {
  return specs[window].units.includes('nano_usd');
}

/** `per day`, or `at once` for requests in flight. */
export function perWindow(window: LimitWindow): string {
  return window === 'open' ? 'at once' : `per ${window}`;
}

const DAY_MS = 86_400_000;
const A_MONDAY = Date.UTC(1970, 0, 5);

/** When the calendar window of a moment begins, or one so many windows later. Wall-clock times in ms, written as UTC. */
export function beginningOfWindow(window: SpendWindow, wall_ms: number, later = 0): number {
  const { months, days = 1 } = specs[window];
  if (months !== undefined) {
    const date = new Date(wall_ms);
    const month = date.getUTCMonth();
    return Date.UTC(date.getUTCFullYear(), month - (month % months) + later * months);
  }
  const day = Math.floor((wall_ms - A_MONDAY) / DAY_MS);
  return A_MONDAY + (day - (day % days) + later * days) * DAY_MS;
}

/** Average length of a calendar window, in milliseconds. */
export function lengthOfWindow(window: SpendWindow): number {
  const { months, days = 1 } = specs[window];
  return (months === undefined ? days : months * 30.44) * DAY_MS;
}
