import type { InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { EXIT_UNAVAILABLE, StartError } from '../../contract/start-error.ts';
import type { ShownServiceToken } from '../../identity/tokens/service-tokens.ts';
import { isWellFormedServiceToken } from '../../identity/tokens/token-format.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { say, showList, showResult, showSecret } from '../show.ts';
import { formatDay, formatMoment, titleInZone } from '../times.ts';

type Given = Location & { readonly json?: true };
type Shown = InJson<ShownServiceToken>;

/** `appscli service-tokens create`: prints a new service token, alone on standard output. */
export async function create(
  context: CommandContext,
  given: Given & { readonly name: string; readonly scope: readonly string[]; readonly expires?: Date },
  fetch?: Fetch,
): Promise<number> {
  const wish = { name: given.name, scopes: given.scope, expires_at: given.expires?.toISOString() };
  return showMade(context, given, await withAdmin(context, given, (admin) => admin('createServiceToken', wish), fetch));
}

/** `appscli service-tokens list`: what is known about all service tokens. */
export async function list(context: CommandContext, given: Given, fetch?: Fetch): Promise<number> {
  const { service_tokens } = await withAdmin(context, given, (admin) => admin('listServiceTokens', {}), fetch);
  const day = (moment: string | null) => (moment === null ? '' : formatDay(moment));
  return showList(context, service_tokens, given.json, {
    none: 'There are no service tokens.',
    columns: ['ID', 'NAME', 'SCOPES', 'OWNER', 'USED', titleInZone('UNTIL'), 'STATE'],
    width: context.terminal.columns,
    cells: ({ id, name, scopes, owner, last_used_at, expires_at, state }) => {
      return [id, name, scopes.join(' '), owner ?? '', day(last_used_at), day(expires_at), state];
    },
  });
}

/** `appscli service-tokens rotate`: prints a new service token that takes another's place. */
export async function rotate(
  context: CommandContext,
  id: string,
  given: Given & { readonly overlap?: number; readonly expires?: Date },
  fetch?: Fetch,
): Promise<number> {
  const wish = { id, overlap_seconds: given.overlap, expires_at: given.expires?.toISOString() };
  return showMade(context, given, await withAdmin(context, given, (admin) => admin('rotateServiceToken', wish), fetch));
}

/** `appscli service-tokens revoke`: ends a service token. Exits 1 when there is none to end. */
export async function revoke(context: CommandContext, id: string, given: Given, fetch?: Fetch): Promise<number> {
  const ended = await withAdmin(context, given, (admin) => admin('revokeServiceToken', { id }), fetch);
  return showResult(context, ended, given.json, () => say(context, `Revoked ${id}: "${ended.name}".`));
}

function showMade(context: CommandContext, { json }: Given, made: Shown & { readonly token: string }): number {
  if (!isWellFormedServiceToken(made.token)) {
    throw new StartError('the answer holds no service token; is it the address of a gateway?', {
      exit_code: EXIT_UNAVAILABLE,
    });
  }
  const what = `Service token ${made.id} for "${made.name}"`;
  const end = `It expires on ${formatMoment(made.expires_at)}, opens the admin API alone`;
  return showSecret(context, made, json, `${what}. ${end}`);
}
