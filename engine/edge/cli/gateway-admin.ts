import { operationOf } from '../admin/description.ts';
import type { AdminApi, AdminOperations } from '../admin/operations.ts';
import { createAdminApi, openClient } from '../client/api-client.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_UNAVAILABLE, EXIT_USAGE } from './exit-codes.ts';
import { byFieldNames } from './options.ts';
import { warner } from './program-name.ts';

/**
 * The admin operations of a remote gateway, as the signed-in person: at `base_url`, else APPSCLI_BASE_URL, else the only
 * gateway with a sign-in. Raises StartError, as do the operations.
 */
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
