import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isTimeZone, parseListenAddress } from '../../base/kit/net/addresses.ts';
import { isEmail } from '../../base/kit/text/email.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import { parseDate, parseDuration } from '../../base/kit/times.ts';
import type { CommandContext } from './context.ts';
import { configurationError, usageError } from './exit-codes.ts';

/** `--config`. */
export const config = () => new Option('--config <file>', 'the gateway.yaml to use').default('gateway.yaml');
/** `--base-url`. */
export const baseUrl = () =>
  new Option(
    '--base-url <url>',
    'address of the gateway; else $APPSCLI_BASE_URL, or the only one you are signed in at',
  );
/** `--base-url` of a command that otherwise works on the database of `--config`. */
export const atGateway = () =>
  new Option(
    '--base-url <url>',
    'work at this running gateway, as who you signed in as; else $APPSCLI_BASE_URL, or the database of --config',
  ).conflicts('config');
/** `--json`, with what it prints. */
export const json = (what: string) => new Option('--json', what);

/** Makes a value of a text; `before` is the value so far, of what may be repeated. */
export type Parse = (text: string, before: never) => unknown;

/** An option. */
export function option(flags: string, about: string, parse?: Parse): Option {
  const made = new Option(flags, about);
  return parse === undefined ? made : made.argParser<unknown>(parse as (text: string) => unknown);
}

/** An option that must be given. */
export const required = (...words: Parameters<typeof option>) => option(...words).makeOptionMandatory();

/** An option with a choice of values. */
export const choice = (flags: string, about: string, values: readonly string[]) =>
  new Option(flags, about).choices([...values]);

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
  return isDay(text) ? text : moment(text);
}

/** Takes a text as it is, where it is right. */
export const textThat = (isRight: (text: string) => boolean, help: string) => (text: string) => {
  if (isRight(text)) return text;
  throw new InvalidArgumentError(help);
};

/** Takes a number that is written so, where it is right. */
export const numberThat =
  (form: RegExp, help: string, isRight: (value: number) => boolean = () => true) =>
  (text: string): number => {
    if (form.test(text) && isRight(Number(text))) return Number(text);
    throw new InvalidArgumentError(help);
  };

const isDay = (text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && parseDate(text) !== undefined;
/** A calendar day (YYYY-MM-DD). */
export const day = textThat(isDay, 'Write a date: 2027-01-31.');
/** The name of a time zone. */
export const timeZone = textThat(isTimeZone, 'Write the name of a time zone: UTC or Europe/Berlin.');
/** An e-mail address. */
export const email = textThat(isEmail, 'Write an e-mail address.');
/** A text that is not blank. */
export const notEmpty = textThat((text) => text.trim() !== '', 'It is empty.');
/** Where to listen, in the form of `server.listen`. */
export const listenAddress = textThat(
  (text) => parseListenAddress(text) !== undefined,
  'Write host:port, such as 127.0.0.1:8080, with a port up to 65535.',
);

/** A whole number up to six digits. */
export const count = numberThat(/^\d{1,6}$/, 'Write a number from 0 to 999999.');
/** A number of seconds up to an hour. */
export const seconds = numberThat(
  /^\d+(?:\.\d+)?$/,
  'Write a number of seconds above 0, up to 3600.',
  (value) => value > 0 && value <= 3600,
);

/** A moment to come: a date, a time, or how long from now. */
export function expiry(text: string): Date {
  const ahead_ms = parseDuration(text);
  const date = ahead_ms === undefined ? parseDate(text) : new Date(Date.now() + ahead_ms);
  if (date === undefined) throw new InvalidArgumentError('Write 30d, 12h or 90m from now, or a date: 2027-01-31.');
  if (date.getTime() <= Date.now()) throw new InvalidArgumentError('That is in the past.');
  return date;
}

/** A moment to come, or a date, which begins where the gateway is. */
export function expiryThere(text: string): Date | string {
  return isDay(text) ? text : expiry(text);
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

/**
 * Decides where a command works that has both `--config` and `--base-url` and was given neither: at the gateway of
 * APPSCLI_BASE_URL, else on the database of the gateway.yaml here, else at the only gateway signed in at. Raises StartError.
 */
export async function chooseLocation(command: Command, { env, terminal }: CommandContext): Promise<void> {
  const { config, baseUrl } = command.opts<{ config?: string; baseUrl?: string }>();
  const has_gateway = command.options.some(({ long }) => long === '--base-url');
  // Where nothing is used without being named, a gateway is not in its place.
  const has_default = command.options.some(
    ({ long, defaultValue }) => long === '--config' && defaultValue !== undefined,
  );
  if (!has_gateway || !has_default || baseUrl !== undefined || config === undefined) return;
  const is_named = command.getOptionValueSource('config') !== 'default';
  const preset = is_named ? '' : (env.APPSCLI_BASE_URL ?? '');
  const is_here = existsSync(config);
  if (preset === '' && is_here) return;
  const { openCredentials } = await import('../client/credentials.ts');
  const signed_in = preset === '' && !is_named ? [...openCredentials(env).read().keys()] : [];
  if (preset === '' && signed_in.length !== 1) {
    const remedy =
      'name the configuration to use with --config, or the gateway you signed in at with --base-url or APPSCLI_BASE_URL';
    throw configurationError(`${config} does not exist; ${remedy}`);
  }
  const { chooseBaseUrl } = await import('../client/base-url.ts');
  const chosen = chooseBaseUrl(undefined, preset === '' ? {} : env, signed_in);
  if (is_here) {
    terminal.info(printableLines([`At ${chosen}, as APPSCLI_BASE_URL says; --config ${config} uses its database.`]));
  }
  command.setOptionValueWithSource('baseUrl', chosen, 'env');
}

/** Raises StartError when a period is over before it begins; a day (YYYY-MM-DD) may begin at any hour of UTC. */
export function demandPeriod({
  since,
  until,
}: {
  readonly since?: Date | string | undefined;
  readonly until?: Date | string | undefined;
}): void {
  if (since === undefined || until === undefined || typeof since !== typeof until || since < until) return;
  throw usageError('--since must be before --until, which is not included');
}

/** Values by the names that fields have, of those that options have: `token_group` of `tokenGroup`. */
export function byFieldNames(given: object): Readonly<Record<string, unknown>> {
  const entries = Object.entries(given);
  return Object.fromEntries(
    entries.map(([key, value]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}
