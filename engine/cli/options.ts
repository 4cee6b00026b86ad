import { InvalidArgumentError, Option } from 'commander';
import { isTimeZone } from '../kit/net/addresses.ts';
import { parseDate, parseDuration } from '../kit/times.ts';

/** `--config`. */
export const config = () => new Option('--config <file>', 'the gateway.yaml to use').default('gateway.yaml');
/** `--base-url`. */
export const baseUrl = () =>
  new Option(
    '--base-url <url>',
    'address of the gateway; else $APPSCLI_BASE_URL, or the only one you are signed in at',
  );
/** `--json`, with what it prints. */
export const json = (what: string) => new Option('--json', what);

/** The examples at the end of a command's help. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`;
}

/** A moment in the past: a date, a time, or how long ago. */
export function moment(text: string): Date {
  const ago_ms = parseDuration(text);
  const date = ago_ms === undefined ? parseDate(text) : new Date(Date.now() - ago_ms);
  if (date === undefined) throw new InvalidArgumentError('Write 7d, 12h or 90m for a time ago, or a date: 2027-01-31.');
  return date;
}

/** A moment in the past; a date stays one, since where it begins depends on the time zone. */
export function dayOrMoment(text: string): Date | string {
  const found = moment(text);
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? text : found;
}

/** A calendar day (YYYY-MM-DD). */
export function day(text: string): string {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text) || parseDate(text) === undefined) {
    throw new InvalidArgumentError('Write a date: 2027-01-31.');
  }
  return text;
}

/** The name of a time zone. */
export function timeZone(text: string): string {
  if (!isTimeZone(text)) throw new InvalidArgumentError('Write the name of a time zone: UTC or Europe/Berlin.');
  return text;
}

/** A moment to come: a date, a time, or how long from now. */
export function expiry(text: string): Date {
  const ahead_ms = parseDuration(text);
  const date = ahead_ms === undefined ? parseDate(text) : new Date(Date.now() + ahead_ms);
  if (date === undefined) throw new InvalidArgumentError('Write 30d, 12h or 90m from now, or a date: 2027-01-31.');
  if (date.getTime() <= Date.now()) throw new InvalidArgumentError('That is in the past.');
  return date;
}

/** A whole number up to six digits. */
export function count(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('Write a number from 0 to 999999.');
  return Number(text);
}

/** An e-mail address. */
export function email(text: string): string {
  if (!/^[^\s@]+@[^\s@]+$/.test(text)) throw new InvalidArgumentError('Write an e-mail address.');
  return text;
}

/** A text that is not blank. */
export function notEmpty(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('It is empty.');
  return text;
}

/** Texts of an option that may be repeated. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, notEmpty(text)];
}

/** A date or time, as milliseconds since the epoch. */
export function time(text: string): number {
  const date = parseDate(text);
  if (date === undefined) throw new InvalidArgumentError('Write a date or a time: 2027-01-31T22:30:00Z.');
  return date.getTime();
}

/** A number of seconds up to an hour. */
export function seconds(text: string): number {
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : 0;
  if (value <= 0 || value > 3600) throw new InvalidArgumentError('Write a number of seconds above 0, up to 3600.');
  return value;
}
