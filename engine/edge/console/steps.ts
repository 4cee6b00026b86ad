import type { ReportTime } from '../../base/contract/windows.ts';
import { DAY_MS, dayIn, firstDay, type Period } from './ranges.ts';

/** Time step for a readable number of bars. */
export function stepOf(since: string | null, until: string): ReportTime {
  const days = since === null ? Number.POSITIVE_INFINITY : (Date.parse(until) - Date.parse(since)) / DAY_MS;
  return days <= 2.1 ? 'hour' : days <= 62 ? 'day' : days <= 400 ? 'week' : 'month';
}

/** The day on which a step begins, by its name in reports: 2027-W05. An hour keeps its name. */
export function beginningOfStep(name: string, step: ReportTime): string {
  if (step === 'hour' || step === 'day') return name;
  const [, year, number = '1'] = /^(\d{4})(?:-[A-Z]?(\d+)$)?/.exec(name)!;
  // A week of the fourth of January is the first of its year.
  return firstDay(step, `${year}-01-04`, Number(number) - 1);
}

/** The beginnings of all steps of a period in order. */
export function stepsBetween(since: string, until: string, step: ReportTime, time_zone: string): string[] {
  const window = step === 'hour' ? 'day' : step;
  const first = firstDay(window, dayIn(new Date(since), time_zone));
  // The end is exclusive.
  const last = dayIn(new Date(Date.parse(until) - 1), time_zone);
  const days: string[] = [];
  for (let day = first; day <= last && days.length < 4000; day = firstDay(window, day, 1)) days.push(day);
  return step === 'hour' ? days.flatMap((day) => HOURS.map((hour) => `${day}T${hour}:00`)) : days;
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

/** The period of the step that begins on a day; `undefined` for an hour, which a day of a report cannot name. */
export function periodOfStep(beginning: string, step: ReportTime): Required<Period> | undefined {
  return step === 'hour' ? undefined : { since: beginning, until: firstDay(step, beginning, 1) };
}

const DAY = { month: 'short', day: 'numeric', timeZone: 'UTC' } as const;
const SHORT_DAY = new Intl.DateTimeFormat('en', DAY);
const LONG_DAY = new Intl.DateTimeFormat('en', { ...DAY, weekday: 'short', year: 'numeric' });
const MONTH = new Intl.DateTimeFormat('en', { month: 'short', year: 'numeric', timeZone: 'UTC' });

/** Names of the step with a beginning: short for the axis, and in full. */
export function stepWords(beginning: string, step: ReportTime): { readonly name: string; readonly title: string } {
  const day = new Date(beginning.slice(0, 10));
  if (step === 'hour') {
    const hour = beginning.slice(11);
    return { name: hour, title: `${LONG_DAY.format(day)}, ${hour}` };
  }
  if (step === 'month') return { name: MONTH.format(day), title: MONTH.format(day) };
  return { name: SHORT_DAY.format(day), title: `${step === 'week' ? 'Week of ' : ''}${LONG_DAY.format(day)}` };
}

/** Grid lines at round values, the last at or above the highest bar. */
export function roundSteps(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * unit >= rough)! * unit;
  return Array.from({ length: Math.ceil(highest / step - 1e-9) + 1 }, (_, i) => i * step);
}
