import type { IncomingHttpHeaders } from 'node:http';
import type { BearerTokens, Principal } from '../../api.ts';
import type { GatewayConfig } from '../../config.ts';
import { ERRORS, StageError } from '../../errors.ts';
import type { Actor, Changing } from '../../services/admin-changes.ts';
import { rolesOf } from '../../services/identity/standing.ts';

/** Role of those who administer the gateway. */
const ADMIN = 'admin';
const BEARER = /^bearer +(\S+) *$/i;
const CHALLENGE = { 'www-authenticate': 'Bearer', 'x-should-retry': 'false' };

/** The signed-in person who asks. */
export interface Caller {
  readonly principal: Principal;
  readonly email: string;
  readonly is_admin: boolean;
  readonly actor: Actor;
}

/**
 * Finds out who asks. Access tokens are for models: whoever holds one of somebody's many can't make more of them. Raises
 * the credential errors, forbidden, store_unavailable.
 */
export async function identifyCaller(headers: IncomingHttpHeaders, verify: BearerTokens['verify']): Promise<Caller> {
  const principal = await verified(headers, verify);
  if (principal.kind !== 'session') {
    throw new StageError(
      'forbidden',
      'An access token is for models only. Sign in with "appscli login", and send the session token that "appscli token" prints.',
    );
  }
  const { email, roles } = principal;
  return { principal, email, is_admin: roles.includes(ADMIN), actor: { kind: 'person', name: email } };
}

/**
 * The caller without groups that the gateway has since learned they are not in: a session token tells those of when it was
 * issued, and what is made with it outlives it. Raises store_unavailable.
 */
export async function withoutLostGroups(
  caller: Caller,
  { database, config }: { readonly database: Changing['database']; readonly config: Pick<GatewayConfig, 'auth'> },
): Promise<Caller> {
  const { principal } = caller;
  const [now] = await database.query<{ groups: readonly string[] }>(
    'principal_groups',
    'select groups from principals where id = $1',
    [principal.id],
  );
  const groups = principal.groups.filter((group) => now?.groups.includes(group));
  const is_admin = caller.is_admin && rolesOf(config.auth ?? {}, groups).includes(ADMIN);
  return { ...caller, principal: { ...principal, groups }, is_admin };
}

/** Refuses everybody but administrators. Raises forbidden. */
export function demandAdmin({ is_admin, email }: Caller): void {
  if (is_admin) return;
  throw new StageError(
    'forbidden',
    `This is for administrators, and ${email} is none: they are the members of auth.admin_groups in gateway.yaml.`,
  );
}

async function verified(headers: IncomingHttpHeaders, verify: BearerTokens['verify']): Promise<Principal> {
  try {
    return await verify(readCredential(headers));
  } catch (error) {
    if (!(error instanceof StageError) || ERRORS[error.code].status !== 401) throw error;
    throw new StageError(error.code, error.message, { headers: { ...error.headers, ...CHALLENGE }, cause: error });
  }
}

function readCredential({ authorization, 'x-api-key': api_key }: IncomingHttpHeaders): string {
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  if (bearer !== undefined) return bearer;
  if (authorization === undefined && typeof api_key === 'string' && api_key.trim() !== '') return api_key.trim();
  if (authorization !== undefined) {
    throw new StageError(
      'credential_invalid',
      'The Authorization header must be the word "Bearer" and a session token.',
    );
  }
  throw new StageError(
    'credential_missing',
    'This request has no credential: send a session token as "Authorization: Bearer <token>"; "appscli token" prints yours.',
  );
}
