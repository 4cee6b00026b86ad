import { Option } from 'commander';
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

/** Options for fields of an operation's input, with names, choices, formats and the first sentences of its description. */
export function fields(name: keyof AdminOperations, ...names: readonly string[]): Option[] {
  const { query, body } = operationOf(name);
  const required = [query, body].flatMap((schema) => (schema?.required as readonly string[] | undefined) ?? []);
  const known = { ...(query.properties as object), ...(body?.properties as object) } as Readonly<Record<string, Field>>;
  return names.map((field) => {
    const { description, enum: choices, format } = known[field]!;
    const [first = ''] = description.replaceAll('`', '').replace(/\.$/, '').split('. ');
    const flags = `--${field.replaceAll('_', '-')} <${format === 'email' ? 'email' : field.split('_').at(-1)}>`;
    const made = new Option(flags, first[0]!.toLowerCase() + first.slice(1));
    if (choices === undefined) made.argParser(format === 'email' ? email : notEmpty);
    else made.choices(choices);
    return made.makeOptionMandatory(required.includes(field));
  });
}
