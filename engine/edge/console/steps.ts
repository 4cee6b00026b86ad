import { type ReportTime, type SpendWindow, WINDOWS } from '../../base/contract/windows.ts';
import { DAY_MS, dayAfter, dayIn, firstDay, mondayBefore, type Period } from './ranges.ts';

/** Time step for a readable number of bars. */
export function stepOf(since: string | null, until: string): ReportTime {
  const days = since === null ? Number.POSITIVE_INFINITY : (Date.parse(until) - Date.parse(since)) / DAY_MS;
  return days <= 2.1 ? 'hour' : days <= 62 ? 'day' : days <= 400 ? 'week' : 'month';
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

const DAY = { month: 'short', day: 'numeric', timeZone: 'UTC' } as const;
const SHORT_DAY = new Intl.DateTimeFormat('en', DAY);
const LONG_DAY = new Intl.DateTimeFormat('en', { ...DAY, weekday: 'short', year: 'numeric' });
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
