import { InvalidArgumentError, Option } from 'commander';
import { closest } from '../../base/kit/text/suggest.ts';
import { operationOf } from '../admin/description.ts';
import type { AdminApi, AdminOperations } from '../admin/operations.ts';
import { createAdminApi, openClient } from '../client/api-client.ts';
import {
  byFieldNames,
  type CommandContext,
  EXIT_FINDINGS,
  EXIT_UNAVAILABLE,
  EXIT_USAGE,
  email,
  notEmpty,
  numberThat,
} from './commands.ts';
import { warner } from './terminal.ts';

/** A remote gateway's admin operations: `base_url`, else APPSCLI_BASE_URL, else the only sign-in. Raise StartError. */
export async function adminAtGateway(
  { terminal, env, clock }: CommandContext,
  base_url: string | undefined,
): Promise<{ readonly base_url: string; readonly admin: AdminApi }> {
  const client = await openClient({ base_url, env, clock, warn: warner(terminal) });
  return { base_url: client.base_url, admin: createAdminApi(client, exitCodeOf) };
}

/** The exit code for the HTTP status of a failed operation. */
export function exitCodeOf(status: number): number {
  if (status === 400) return EXIT_USAGE;
  return status >= 500 ? EXIT_UNAVAILABLE : EXIT_FINDINGS;
}

/** The values that are fields of the operation's input; dates become ISO 8601 texts. */
export function inputOf(name: keyof AdminOperations, values: object): object {
  const { path_names, query, body } = operationOf(name);
  const known = [...path_names, ...[query, body].flatMap((schema) => Object.keys(schema?.properties ?? {}))];
  const known_values = Object.entries(byFieldNames(values)).filter(([key]) => known.includes(key));
  return Object.fromEntries(
    known_values.map(([key, value]) => [key, value instanceof Date ? value.toISOString() : value]),
  );
}

type Field = Readonly<Record<string, unknown>> & { readonly description: string; readonly enum?: readonly string[] };

/** Longest list of choices that an error repeats. */
const CHOICES_MAX = 8;

const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  email,
  number: numberThat(/^\d{1,7}(?:\.\d{1,9})?$/, 'Expected a number below 10000000, such as 100 or 0.25.'),
  integer: numberThat(/^\d{1,13}$/, 'Expected a whole number of at most 13 digits, such as 500.'),
};

/** Options for fields of an operation's input: names, formats, and the description's first sentence and default. */
export function fields(name: keyof AdminOperations, ...names: readonly string[]): Option[] {
  const { query, body } = operationOf(name);
  const required = [query, body].flatMap((schema) => (schema?.required as readonly string[] | undefined) ?? []);
  const known = { ...(query.properties as object), ...(body?.properties as object) } as Readonly<Record<string, Field>>;
  return names.map((field) => {
    const { description, enum: choices, format, type } = known[field]!;
    const plain = description.replaceAll('`', '').replace(/\.$/, '');
    const [about = ''] = plain.split('. ');
    const fallback = /\. Default: (.+?)(?:\. |$)/.exec(plain)?.[1];
    const is_amount = type === 'number' || type === 'integer';
    const value = is_amount ? 'number' : format === 'email' ? format : field.split('_').at(-1);
    const text = `${about[0]!.toLowerCase()}${about.slice(1)}${fallback === undefined ? '' : ` (default: ${fallback})`}`;
    const made = new Option(`--${field.replaceAll('_', '-')} <${value}>`, text);
    if (choices !== undefined) made.choices(choices);
    if (choices === undefined) made.argParser(PARSERS[String(format ?? type)] ?? notEmpty);
    else if (choices.length > CHOICES_MAX) made.argParser(oneOf(choices));
    return made.makeOptionMandatory(required.includes(field));
  });
}

/** Parses one of many choices, which an error does not repeat. */
const oneOf = (choices: readonly string[]) => (text: string) => {
  if (choices.includes(text)) return text;
  const meant = closest(text, choices);
  throw new InvalidArgumentError(
    meant === undefined
      ? `Expected one of the ${choices.length} that --help lists, such as ${choices[0]}.`
      : `Did you mean ${meant}?`,
  );
};
