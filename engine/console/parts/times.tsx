import { useSession } from '../frame/session-context.ts';

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, seconds: number])[] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** A moment in the gateway's time zone; the title says it with its zone and in UTC. */
export function TimeText({ at, form = 'short' }: { at: string; form?: 'short' | 'long' | 'relative' }) {
  const { time_zone } = useSession();
  const date = new Date(at);
  return (
    <time dateTime={at} title={`${longTime(date, time_zone)} (${date.toISOString()})`} className="time">
      {form === 'relative'
        ? relativeTime(date)
        : form === 'long'
          ? longTime(date, time_zone)
          : shortTime(date, time_zone)}
    </time>
  );
}

/** A moment within today as a time, another as a date with a time. */
export function shortTime(date: Date, time_zone: string): string {
  const day = (of: Date) => of.toLocaleDateString('en-CA', { timeZone: time_zone });
  const time = date.toLocaleTimeString('en-GB', { timeZone: time_zone });
  if (day(date) === day(new Date())) return time;
  return `${day(date)} ${time.slice(0, 5)}`;
}

/** A moment with its date, time and zone. */
export function longTime(date: Date, time_zone: string): string {
  const day = date.toLocaleDateString('en-CA', { timeZone: time_zone });
  return `${day} ${date.toLocaleTimeString('en-GB', { timeZone: time_zone, timeZoneName: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })}`;
}

/** How long ago a moment was, or how long until it comes. */
export function relativeTime(date: Date): string {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, size] = STEPS.find(([, each]) => Math.abs(seconds) >= each) ?? ['second', 1];
  return RELATIVE.format(Math.round(seconds / size), unit);
}

/** How long something took: `0.4 ms`, `840 ms` or `2.4 s`; a dash where that is not known. */
export function took(ms: number | null): string {
  if (ms === null) return '–';
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
}
