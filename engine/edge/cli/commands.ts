import { existsSync } from 'node:fs';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import type { Clock } from '../../base/contract/services.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';
import { isTimeZone, parseListenAddress } from '../../base/kit/net/addresses.ts';
import { isEmail } from '../../base/kit/text/email.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import { parseDate, parseDuration } from '../../base/kit/times.ts';
import type { Terminal } from './terminal.ts';

export interface CommandContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  stages(): Promise<readonly StageDefinition[]>;
  readonly clock?: Clock;
}

export { EXIT_CONFIGURATION, EXIT_UNAVAILABLE } from '../../base/contract/start-error.ts';

export const EXIT_OK = 0;
/** The command found problems, or was rejected. */
export const EXIT_FINDINGS = 1;
/** Wrong command line (sysexits EX_USAGE). */
export const EXIT_USAGE = 64;

/** The error of a wrong command line; the message names the remedy. */
export function usageError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_USAGE });
}

/** The error of a missing or unsuitable configuration; the message names the remedy. */
export function configurationError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_CONFIGURATION });
}

const config = () => new Option('--config <file>', 'path of gateway.yaml').default('gateway.yaml');
export const baseUrl = () =>
  new Option('--base-url <url>', 'address of the gateway (default: $APPSCLI_BASE_URL, or your only sign-in)');
const atGateway = () =>
  new Option(
    '--base-url <url>',
    'use this remote gateway, with your sign-in or $APPSCLI_SERVICE_TOKEN (default: $APPSCLI_BASE_URL, or the database of --config)',
  ).conflicts('config');
/** `--json`, with its description. */
export const json = (what: string) => new Option('--json', what);

/** Options of a command whose values are texts, and those that are only set. */
export type Texts<Names extends string> = Readonly<Partial<Record<Names, string>>>;
export type Flags<Names extends string> = Readonly<Partial<Record<Names, true>>>;
/** Options of a command on a configuration. */
export type ConfigOptions = Readonly<Record<'config', string>> & Flags<'json'>;

type Parse = (text: string, before: never) => unknown;

/** An option. Without a parser its value is a text that is not empty. */
export function option(flags: string, about: string, parse: Parse = notEmpty): Option {
  const made = new Option(flags, about);
  return flags.endsWith('>') || parse !== notEmpty ? made.argParser<unknown>(parse as (text: string) => unknown) : made;
}

/** A mandatory option. */
export const required = (...words: Parameters<typeof option>) => option(...words).makeOptionMandatory();

/** An option with a choice of values. */
export const choice = (flags: string, about: string, values: readonly string[]) =>
  new Option(flags, about).choices([...values]);

/** The examples at the end of a command's help. */
export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`;
}

function dateOf(text: string, from_now: 1 | -1, example: string): Date {
  const distance_ms = parseDuration(text);
  const date = distance_ms === undefined ? parseDate(text) : new Date(Date.now() + from_now * distance_ms);
  if (date !== undefined) return date;
  throw new InvalidArgumentError(`Expected a duration such as ${example}, 12h or 90m, or a date such as 2027-01-31.`);
}

/** Parses a past time: a date, a time, or a duration ago. */
export const moment = (text: string) => dateOf(text, -1, '7d');

/** Parses a past time. A date stays a text, because its start depends on the time zone. */
export function dayOrMoment(text: string): Date | string {
  return isDay(text) ? text : moment(text);
}

export const textThat = (isRight: (text: string) => boolean, help: string) => (text: string) => {
  if (isRight(text)) return text;
  throw new InvalidArgumentError(help);
};

export const numberThat =
  (form: RegExp, help: string, isRight: (value: number) => boolean = () => true) =>
  (text: string): number => {
    if (form.test(text) && isRight(Number(text))) return Number(text);
    throw new InvalidArgumentError(help);
  };

const isDay = (text: string) => /^\d{4}-\d{2}-\d{2}$/.test(text) && parseDate(text) !== undefined;
/** Parses a calendar day (YYYY-MM-DD). */
export const day = textThat(isDay, 'Expected a date such as 2027-01-31.');
/** Parses the name of a time zone. */
export const timeZone = textThat(isTimeZone, 'Expected the name of a time zone such as UTC or Europe/Berlin.');
/** Parses an e-mail address. */
export const email = textThat(isEmail, 'Expected an e-mail address.');
export const notEmpty = textThat((text) => text.trim() !== '', 'Expected a text that is not empty.');
export const listenAddress = textThat(
  (text) => parseListenAddress(text) !== undefined,
  'Expected host:port, such as 127.0.0.1:8080, with a port up to 65535.',
);

/** Parses a whole number of up to six digits. */
export const count = numberThat(/^\d{1,6}$/, 'Expected a number from 0 to 999999.');
/** Parses a number of seconds, up to an hour. */
export const seconds = numberThat(
  /^\d+(?:\.\d+)?$/,
  'Expected a number of seconds above 0, up to 3600.',
  (value) => value > 0 && value <= 3600,
);

/** Parses a future time: a date, a time, or a duration from now. */
export function expiry(text: string): Date {
  const date = dateOf(text, 1, '30d');
  if (date.getTime() <= Date.now()) throw new InvalidArgumentError('Expected a time in the future.');
  return date;
}

/** Parses a future time. A date stays a text, because it begins in the gateway's time zone. */
export function expiryThere(text: string): Date | string {
  return isDay(text) ? text : expiry(text);
}

/** Collects the texts of a repeatable option. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, notEmpty(text)];
}

/** Parses a date or time into milliseconds since the epoch. */
export function time(text: string): number {
  const date = parseDate(text);
  if (date === undefined) throw new InvalidArgumentError('Expected a date or time such as 2027-01-31T22:30:00Z.');
  return date.getTime();
}

/** Without an option: APPSCLI_BASE_URL, else the local gateway.yaml, else the only sign-in. Raises StartError. */
export async function chooseLocation(command: Command, { env, terminal }: CommandContext): Promise<void> {
  const { config, baseUrl } = command.opts<{ config?: string; baseUrl?: string }>();
  const has_gateway = command.options.some(({ long }) => long === '--base-url');
  // Only commands with a default --config choose between both.
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
    const remedy = 'name the configuration to use with --config, or a gateway with --base-url or APPSCLI_BASE_URL';
    throw configurationError(`${config} does not exist; ${remedy}`);
  }
  const { chooseBaseUrl } = await import('../client/base-url.ts');
  const chosen = chooseBaseUrl(undefined, preset === '' ? {} : env, signed_in);
  if (is_here) {
    terminal.info(
      printableLines([`Using ${chosen} (APPSCLI_BASE_URL); to use the local database: --config ${config}`]),
    );
  }
  command.setOptionValueWithSource('baseUrl', chosen, 'env');
}

export function assertPeriod({
  since,
  until,
}: {
  readonly since?: Date | string | undefined;
  readonly until?: Date | string | undefined;
}): void {
  if (since === undefined || until === undefined || typeof since !== typeof until || since < until) return;
  throw usageError('--since must be before --until (exclusive)');
}

export function byFieldNames(values: object): Readonly<Record<string, unknown>> {
  const entries = Object.entries(values);
  return Object.fromEntries(
    entries.map(([key, value]) => [key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  );
}

/** Options by the target of a command: a configuration, its database or a remote gateway, a remote gateway only. */
const PLACES = { configuration: [config], either: [config, atGateway], gateway: [baseUrl] } as const;

export interface CommandRow {
  readonly name?: string;
  readonly about?: string;
  readonly summary?: string;
  /** Arguments such as `[id]`, `<file>` or `[paths...]`, with a parser (default: `notEmpty`) or choices; passed to `run` among the options. */
  readonly arguments?: readonly (readonly [name: string, about: string, value?: Parse | readonly string[]])[];
  readonly options?: readonly Option[];
  readonly place?: keyof typeof PLACES;
  readonly json?: string;
  readonly notes?: string;
  readonly examples: readonly string[];
  /** Whether `run` needs `config_named`: that the command line contains `--config`. */
  readonly asks_config_named?: true;
  run(context: CommandContext, options: never): Promise<number>;
}

/** A command or group of commands, with the help of the group. */
export interface Commands {
  readonly commands: readonly CommandRow[];
  readonly notes?: string;
  readonly group_examples?: readonly string[];
}

export function addRows(
  program: Command,
  name: string,
  about: string,
  { commands: rows, notes, group_examples }: Commands,
  run: (row: CommandRow, options: never) => Promise<void>,
): void {
  const group = program.command(name).description(about).helpCommand(false);
  if (group_examples !== undefined) group.addHelpText('after', `\n${notes}\n${examples(...group_examples)}`);
  for (const row of rows) {
    const command = row.name === undefined ? group.summary(about) : group.command(row.name).summary(row.summary ?? '');
    addRow(command.description(row.about ?? about), row, run);
  }
}

function addRow(command: Command, row: CommandRow, run: (row: CommandRow, values: never) => Promise<void>): void {
  const { place, notes } = row;
  for (const [name, about, value] of row.arguments ?? []) {
    const argument = new Argument(name, about);
    if (typeof value === 'object') argument.choices(value);
    else if (value !== undefined || !argument.variadic)
      argument.argParser((value ?? notEmpty) as (text: string) => unknown);
    command.addArgument(argument);
  }
  const of_place = place === undefined ? [] : PLACES[place].map((make) => make());
  const options = [...(row.options ?? []), ...of_place, ...(row.json === undefined ? [] : [json(row.json)])];
  for (const option of options) command.addOption(option);
  command.addHelpText('after', `${notes === undefined ? '' : `\n${notes}\n`}${examples(...row.examples)}`);
  command.action(async () => {
    const named = command.registeredArguments.map((argument, i) => [argument.name(), command.processedArgs[i]]);
    const values = { ...command.opts(), ...Object.fromEntries(named) };
    if (row.asks_config_named) values.config_named = command.getOptionValueSource('config') === 'cli';
    await run(row, values as never);
  });
}
