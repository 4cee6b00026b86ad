import { operationOf } from '../admin/description.ts';
import type { AdminApi, AdminOperations } from '../admin/operations.ts';
import { createAdminApi, openClient } from '../client/api-client.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_UNAVAILABLE, EXIT_USAGE } from './exit-codes.ts';
import { byFieldNames } from './options.ts';
import { warner } from './program-name.ts';

/**
 * The admin operations of a running gateway, as the person who signed in there: the one given, else that of APPSCLI_BASE_URL, else
 * the only one signed in at. Raises StartError, and so do the operations.
 */
export async function adminAtGateway(
  { terminal, env, clock }: CommandContext,
  base_url: string | undefined,
): Promise<{ readonly base_url: string; readonly admin: AdminApi }> {
  const client = await openClient({ base_url, env, clock, warn: warner(terminal) });
  return { base_url: client.base_url, admin: createAdminApi(client, exitCodeOf) };
}

/** The exit code for a status by which an operation was refused. */
export function exitCodeOf(status: number): number {
  if (status === 400) return EXIT_USAGE;
  return status >= 500 ? EXIT_UNAVAILABLE : EXIT_FINDINGS;
}

/** Keeps the values that the operation has fields for; dates become ISO strings. */
export function inputOf(name: keyof AdminOperations, values: object): object {
  const { path_names, query, body } = operationOf(name);
  const known = [...path_names, ...[query, body].flatMap((schema) => Object.keys(schema?.properties ?? {}))];
  const meant = Object.entries(byFieldNames(values)).filter(([key]) => known.includes(key));
  return Object.fromEntries(meant.map(([key, value]) => [key, value instanceof Date ? value.toISOString() : value]));
}
