import { createElement, Fragment, type ReactNode } from 'react';
import { useSession } from '../api.ts';
import { dayIn, today } from '../ranges.ts';

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const CENTS = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const TINY = new Intl.NumberFormat('en', { maximumSignificantDigits: 2, maximumFractionDigits: 9 });
const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

/** A rounded amount in USD, with the exact one as title. */
export const usd = (amount: string | number) => (
  <span className="number" title={`${amount} USD`}>
    {shortUsd(amount)}
  </span>
);

/** An amount in USD with two decimals, below a cent with two significant digits. */
export function shortUsd(amount: string | number): string {
  const value = Number(amount);
  const small = value !== 0 && Math.abs(value) < 0.01;
  const digits = small ? TINY.format(value) : CENTS.format(value);
  return value < 0 ? `-$${digits.slice(1)}` : `$${digits}`;
}

/** A number with what is counted: `1 token`, `3 tokens`, `1,200 requests`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(count)} ${count === 1 ? one : many}`;
}

/** A whole number with thousands separators. */
export const num = (of: number) => <span className="number">{WHOLE.format(of)}</span>;
/** A share between 0 and 1. */
export const share = (of: number) => <span className="number">{PERCENT.format(of)}</span>;
/** A number in compact notation, with the whole one as title. */
export const short = (of: number) => (
  <span className="number" title={WHOLE.format(of)}>
    {SHORT.format(of)}
  </span>
);

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, seconds: number])[] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

const FORMS = { short: shortTime, long: longTime, relative: relativeTime } as const;

/** A time in the gateway's time zone; the title has it with its zone and in UTC. */
export function TimeText({ at, form = 'short' }: { at: string; form?: keyof typeof FORMS }) {
  const { time_zone } = useSession();
  const date = new Date(at);
  return (
    <time dateTime={at} title={`${longTime(date, time_zone)} (${date.toISOString()})`} className="time">
      {FORMS[form](date, time_zone)}
    </time>
  );
}

/** Template tag for a sentence with elements, such as times or links. */
export function say(words: TemplateStringsArray, ...parts: readonly ReactNode[]): ReactNode {
  return createElement(Fragment, null, ...words.flatMap((text, i) => [text, parts[i]]));
}

/** Parts of a sentence of `say`: times and texts. */
export const timeAt = (moment: string) => <TimeText at={moment} />;
/** Relative time, for `say`. */
export const ago = (moment: string) => <TimeText at={moment} form="relative" />;
export const longAt = (moment: string) => <TimeText at={moment} form="long" />;
export const mono = (text: ReactNode) => <code>{text}</code>;
/** Muted text. */
export const soft = (text: ReactNode) => <span className="soft">{text}</span>;
/** Bold text. */
export const strong = (text: ReactNode) => <strong>{text}</strong>;
/** Small muted text. */
export const small = (text: ReactNode) => <span className="soft small">{text}</span>;
/** Small muted text on its own line. */
export const below = (text: ReactNode) => <span className="line soft small">{text}</span>;
/** A relative time, or a text for `null`. */
export function When({ at, otherwise = 'never' }: { at: string | null; otherwise?: string }) {
  return at === null ? <span className="soft">{otherwise}</span> : <TimeText at={at} form="relative" />;
}

/** Time of day for today, else date and time. */
export function shortTime(date: Date, time_zone: string): string {
  const time = date.toLocaleTimeString('en-GB', { timeZone: time_zone });
  const day = dayIn(date, time_zone);
  return day === today(time_zone) ? time : `${day} ${time.slice(0, 5)}`;
}

/** Date, time and zone. */
export function longTime(date: Date, time_zone: string): string {
  return `${dayIn(date, time_zone)} ${date.toLocaleTimeString('en-GB', { timeZone: time_zone, timeZoneName: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })}`;
}

function relativeTime(date: Date): string {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, size] = STEPS.find(([, each]) => Math.abs(seconds) >= each) ?? ['second', 1];
  return RELATIVE.format(Math.round(seconds / size), unit);
}

/** A duration: `0.4 ms`, `840 ms` or `2.4 s`; a dash for `null`. */
export function took(ms: number | null): string {
  if (ms === null) return '–';
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
}

/** Relative change to an earlier value; empty if that is unknown. */
export function Trend({ now, before, than = 'before' }: { now: number; before: number | undefined; than?: string }) {
  if (before === undefined) return null;
  if (before === 0) return `none ${than}`;
  return <span className="number">{`${trendWords(now, before)} vs. ${than}`}</span>;
}

/** A relative change in words: `+12%`, `−3.4%`, `+15×`. */
export function trendWords(now: number, before: number): string {
  const share = (now - before) / Math.abs(before);
  const sign = share > 0 ? '+' : share < 0 ? '−' : '±';
  const size = Math.abs(share);
  return `${sign}${size >= 10 ? `${Math.round(size)}×` : `${(size * 100).toFixed(size < 0.1 ? 1 : 0)}%`}`;
}
