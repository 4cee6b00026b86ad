import type { AdminApi } from '../admin/operations.ts';
import { createAdminApi, openClient } from '../client/api-client.ts';
import type { Fetch } from '../client/http.ts';
import type { Clock } from '../contract/services.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_UNAVAILABLE, EXIT_USAGE } from './exit-codes.ts';
import { warner } from './surroundings.ts';

/**
 * The admin operations of a running gateway, as the person who signed in there: the one given, else that of APPSCLI_BASE_URL, else
 * the only one signed in at. Raises StartError, and so do the operations.
 */
export async function adminAtGateway(
  { terminal, env }: CommandContext,
  base_url: string | undefined,
  { fetch, clock }: { readonly fetch?: Fetch | undefined; readonly clock?: Clock | undefined } = {},
): Promise<{ readonly base_url: string; readonly admin: AdminApi }> {
  const client = await openClient({ base_url, env, fetch, clock, warn: warner(terminal) });
  return { base_url: client.base_url, admin: createAdminApi(client, exitCodeOf) };
}

/** The exit code for a status by which an operation was refused. */
export function exitCodeOf(status: number): number {
  if (status === 400) return EXIT_USAGE;
  return status >= 500 ? EXIT_UNAVAILABLE : EXIT_FINDINGS;
}
