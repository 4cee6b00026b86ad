import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import { MAX_OVERLAP_SECONDS, rotateToken } from '../../identity/tokens/rotate-token.ts';
import { showToken } from '../../identity/tokens/shown-token.ts';
import { createToken, findTokens, type KnownToken, listTokens, revokeToken } from '../../identity/tokens/tokens.ts';
import type { Caller } from './caller.ts';
import { endOfLife, type Fields, invalid } from './fields.ts';
import { ownerToList } from './owner.ts';
import { type AdminCall, type AdminOptions, type AdminRoute, idOf, nothingThere, pageOf, pageSize } from './route.ts';
import { demandTokenGroup, tokenGroupsFor } from './token-groups.ts';

/** How many access tokens in force somebody may have made alone. */
const MAX_SELF_MADE = 50;
/** With room for each of them to be replaced. */
const MAX_SELF_MADE_ROTATED = 2 * MAX_SELF_MADE;
/** Ten years. */
const MAX_LIFE_SECONDS = 10 * 366 * 86_400;

/** Access tokens: one's own, for administrators everybody's. */
export function tokenRoutes({ config, database, clock }: AdminOptions): AdminRoute[] {
  const shown = <Known extends KnownToken>(token: Known) => showToken(token, clock.now(), config);
  const demand = async (call: AdminCall): Promise<KnownToken> => {
    const { caller } = call;
    const id = idOf(call, 'access token');
    const [token] = await findTokens(database, { id, user: caller.is_admin ? undefined : caller.email });
    if (token !== undefined) return token;
    throw nothingThere(`There is no access token ${id}${caller.is_admin ? '' : ' among yours'}.`);
  };
  const known = async (id: string) => shown((await findTokens(database, { id }))[0]!);
  const location = (id: string) => ({ location: `/admin/api/tokens/${id}` });
  return [
    {
      method: 'GET',
      path: '/admin/api/tokens',
      scope: 'tokens:read',
      async answer({ caller, query }) {
        const asked = query('user', 'limit', 'after');
        const user = ownerToList(caller, asked.email('user'));
        const limit = pageSize(asked);
        const after = asked.text('after');
        if (after !== undefined && (await findTokens(database, { id: after, user })).length === 0) {
          throw invalid('The parameter "after" names no entry of this list; begin again without it.');
        }
        const page = pageOf(await listTokens(database, { user, after, limit: limit + 1 }), limit);
        return { body: { tokens: page.entries.map(shown), next: page.next } };
      },
    },
    {
      method: 'POST',
      path: '/admin/api/tokens',
      scope: 'tokens:write',
      async answer({ caller, by, body }) {
        const given = await body('name', 'group', 'user', 'team', 'project', 'expires_at', 'expires_in_seconds');
        const wanted = wishOf(given, caller, config, clock);
        const { id, token } = await createToken(by, wanted);
        return { status: 201, headers: location(id), body: { token, ...(await known(id)) } };
      },
    },
    {
      method: 'GET',
      path: '/admin/api/tokens/{id}',
      scope: 'tokens:read',
      async answer(call) {
        call.query();
        return { body: shown(await demand(call)) };
      },
    },
    {
      method: 'DELETE',
      path: '/admin/api/tokens/{id}',
      scope: 'tokens:write',
      async answer(call) {
        const { id } = await demand(call);
        return { body: shown(await revokeToken(call.by, { id })) };
      },
    },
    {
      method: 'POST',
      path: '/admin/api/tokens/{id}/rotate',
      scope: 'tokens:write',
      async answer(call) {
        const given = await call.body('overlap_seconds', 'expires_at', 'expires_in_seconds');
        const overlap_seconds = given.integer('overlap_seconds', { min: 0, max: MAX_OVERLAP_SECONDS });
        const end = endOfLife(given, clock, MAX_LIFE_SECONDS);
        const old = await demand(call);
        demandRight(call.caller, config, old, end);
        const { id, token, replaced } = await rotateToken(
          call.by,
          { id: old.id },
          { overlap_seconds, expires_at: end, max_self_service: MAX_SELF_MADE_ROTATED },
        );
        return { status: 201, headers: location(id), body: { token, ...(await known(id)), replaces: shown(replaced) } };
      },
    },
  ];
}

function wishOf(given: Fields, caller: Caller, config: GatewayConfig, clock: Clock) {
  const { email, principal, is_admin } = caller;
  const user = given.email('user') ?? email;
  if (user === email && caller.scopes !== undefined) {
    throw invalid('The field "user" is missing: a service token has no access tokens of its own.');
  }
  if (user !== email && !is_admin)
    throw forbidden('Only administrators make access tokens for others; leave "user" out.');
  const name = given.needText('name');
  const group = given.text('group') ?? principal.token.group ?? onlyOne(tokenGroupsFor(caller, config));
  demandTokenGroup(caller, config, group);
  const own = user === email;
  return {
    user,
    name,
    group,
    team: partOf(given, 'team', caller, own ? principal.team : undefined),
    project: partOf(given, 'project', caller, own ? principal.project : undefined),
    expires_at: endOfLife(given, clock, MAX_LIFE_SECONDS) ?? undefined,
    self_service: own,
    ...(own ? { max_self_service: MAX_SELF_MADE } : {}),
  };
}

function onlyOne(groups: readonly string[]): string {
  const [group, another] = groups;
  if (group !== undefined && another === undefined) return group;
  if (group === undefined) {
    throw forbidden('You are a member of no token group, so you may not make access tokens; ask your administrator.');
  }
  throw invalid('The field "group" is missing: the token group says which models the token may use.');
}

/** The team or project of a new token: one's own, unless an administrator says another. */
function partOf(given: Fields, name: 'team' | 'project', { is_admin }: Caller, own: string | undefined) {
  const asked = given.text(name);
  if (asked === undefined || asked === own) return given.isNull(name) && is_admin ? undefined : own;
  if (is_admin) return asked;
  const yours = own === undefined ? `you have none` : `yours is "${own}"`;
  throw forbidden(`Only administrators choose the ${name} of a token, and ${yours}; leave "${name}" out.`);
}

/** What an administrator granted, its owner may renew but not enlarge. */
function demandRight(caller: Caller, config: GatewayConfig, old: KnownToken, end: Date | null | undefined): void {
  if (caller.is_admin) return;
  if (old.self_service) {
    demandTokenGroup(caller, config, old.group);
    return;
  }
  const shorter = end === undefined || (end !== null && (old.expires_at === null || end <= old.expires_at));
  if (!shorter) throw forbidden('An administrator made this token, and only administrators make it live longer.');
}

function forbidden(message: string): StageError {
  return new StageError('forbidden', message);
}
