import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Caller, programCaller } from '../../admin/caller.ts';
import type { DescribedOperation } from '../../admin/description.ts';
import type { Changing } from '../../audit/admin-changes.ts';
import { clientCommand } from '../../contract/client-package.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Principal } from '../../contract/services.ts';
import { rolesOf } from '../../identity/deprovisioning/token-groups.ts';
import type { ServiceToken } from '../../identity/tokens/service-tokens.ts';
import { isServiceToken } from '../../identity/tokens/token-format.ts';
import type { VerifyServiceToken } from '../../identity/tokens/verify-service-token.ts';
import { verifyCaller } from '../../kit/net/credentials.ts';
import { listed } from '../../kit/text/suggest.ts';
import type { ConsoleCallers } from '../sign-in/console/console-caller.ts';

const whatToSend = (token_command: string) =>
  `send a session token as "Authorization: Bearer <token>"; "${token_command}" prints yours`;

interface Identifying {
  readonly config: Pick<GatewayConfig, 'server'>;
  readonly verify: BearerTokens['verify'];
  readonly verifyService: VerifyServiceToken;
  readonly console?: Pick<ConsoleCallers, 'concerns' | 'identify' | 'cookie' | 'sessions'>;
}

/**
 * Finds out who asks. Access tokens are for models: whoever holds one of somebody's many can't make more of them. Raises
 * the credential errors, forbidden, store_unavailable.
 */
export async function identifyCaller(
  req: IncomingMessage,
  res: ServerResponse,
  { config, verify, verifyService, console: console_callers }: Identifying,
): Promise<Caller> {
  const { headers } = req;
  const command = (words: string) => clientCommand(config.server.public_url, words);
  const { authorization, 'x-api-key': api_key } = headers;
  if (authorization === undefined && api_key === undefined && console_callers?.concerns(req)) {
    return (await console_callers.identify(req, res)).caller;
  }
  const found = await verifyCaller(
    headers,
    (text): Principal | ServiceToken | Promise<Principal | ServiceToken> =>
      isServiceToken(text) ? verifyService(text) : verifySession(text, verify, command),
    whatToSend(command('token')),
  );
  if ('scopes' in found) {
    const { id, name, owner, scopes } = found;
    const actor = { kind: 'service', name: `${name} (${id}${owner === null ? '' : `, of ${owner}`})` } as const;
    return programCaller(`service:${id}`, name, actor, scopes);
  }
  const { email, roles } = found;
  return { principal: found, email, is_admin: roles.includes('admin'), actor: { kind: 'person', name: email } };
}

/**
 * Raises an error where whoever began something that goes on may no longer. A session of the console is only looked at: a new
 * cookie would reach nobody.
 */
export async function demandStillThere(
  req: IncomingMessage,
  res: ServerResponse,
  identifying: Identifying,
  { is_admin }: Pick<Caller, 'is_admin'>,
): Promise<void> {
  const cookie = identifying.console?.cookie.read(req.headers);
  if (cookie === undefined || req.headers.authorization !== undefined || req.headers['x-api-key'] !== undefined) {
    const now = await identifyCaller(req, res, identifying);
    if (now.is_admin !== is_admin) throw new StageError('forbidden', 'The rights of the caller changed.');
    return;
  }
  const session = await identifying.console!.sessions.find(cookie);
  if (session !== undefined && (session.person?.revoked_at ?? null) === null) return;
  throw new StageError('credential_expired', 'The session is over.');
}

/**
 * The caller without groups that the gateway has since learned they are not in: a session token tells those of when it was
 * issued, and what is made with it outlives it. Raises store_unavailable.
 */
export async function withoutLostGroups(
  caller: Caller,
  { database, config }: { readonly database: Changing['database']; readonly config: Pick<GatewayConfig, 'auth'> },
): Promise<Caller> {
  if (caller.actor.kind !== 'person') return caller;
  const { principal } = caller;
  const [now] = await database.query<{ groups: readonly string[] }>(
    'principal_groups',
    'select groups from principals where id = $1',
    [principal.id],
  );
  const groups = principal.groups.filter((group) => now?.groups.includes(group));
  const is_admin = caller.is_admin && rolesOf(config.auth ?? {}, groups).includes('admin');
  return { ...caller, principal: { ...principal, groups }, is_admin };
}

/** Refuses a service token what its scopes do not hold. Raises forbidden. */
export function demandScope({ scope }: DescribedOperation, { scopes, principal }: Caller): void {
  if (scopes === undefined || (scope !== undefined && scopes.includes(scope))) return;
  const why =
    scope === undefined ? 'this is for people who signed in' : `this needs ${scope}, and it has ${listed(scopes)}`;
  throw new StageError('forbidden', `The service token "${principal.token.name}" is not enough: ${why}.`);
}

async function verifySession(
  token: string,
  verify: BearerTokens['verify'],
  command: (words: string) => string,
): Promise<Principal> {
  const principal = await verify(token);
  if (principal.kind === 'session') return principal;
  throw new StageError(
    'forbidden',
    `An access token is for models only. Sign in with "${command('login')}", and send the session token that "${command('token')}" prints.`,
  );
}
