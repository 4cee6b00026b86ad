import type { GatewayConfig } from '../../base/contract/config.ts';
import { OperationError } from '../../base/contract/operation-error.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import { commonTokenGroup, verifiedDays } from '../../domain/identity/deprovisioning/deprovision.ts';
import {
  createServiceToken,
  listServiceTokens,
  MAX_SERVICE_TOKEN_DAYS,
  revokeServiceToken,
  rotateServiceToken,
  showServiceToken,
} from '../../domain/identity/tokens/service-tokens.ts';
import {
  countByGroup,
  createToken,
  findTokens,
  type GroupCount,
  type KnownToken,
  listTokens,
  revokeToken,
  rotateToken,
  showToken,
  type TokenFilter,
  tokenGroupsOpenTo,
} from '../../domain/identity/tokens/tokens.ts';
import { callerWithToken } from '../../domain/upstreams/models.ts';
import { type AdminOptions, type Asked, type Caller, ownerToList, type PageAsked } from './calls.ts';
import { demandId, type EndSaid, endOfLife, notInList, pageOf } from './description.ts';

/** How many access tokens in force somebody may have made alone. */
const MAX_SELF_MADE = 50;
/** With room for each of them to be replaced. */
const MAX_SELF_MADE_ROTATED = 2 * MAX_SELF_MADE;
/** Ten years. */
const MAX_LIFE_SECONDS = 10 * 366 * 86_400;

/** What an access token is to be; what is left out is up to whose it is. */
export interface TokenWish extends EndSaid {
  readonly name: string;
  readonly user?: string;
  readonly group?: string;
  readonly team?: string | null;
  readonly project?: string | null;
}

/** Access tokens: one's own, for administrators everybody's. */
export function tokenOperations({ config, database, clock }: AdminOptions) {
  const shown = <Known extends KnownToken>(token: Known) => showToken(token, clock.now(), config);
  const known = async (id: string) => shown((await findTokens(database, { id }))[0]!);
  const endOf = (said: EndSaid) => endOfLife(said, clock, MAX_LIFE_SECONDS);
  const demand = async ({ is_admin, email }: Caller, given: string): Promise<KnownToken> => {
    const id = demandId(given, 'access token');
    const [token] = await findTokens(database, { id, user: is_admin ? undefined : email });
    if (token !== undefined) return token;
    const where = is_admin ? '; "appscli tokens list" shows all' : ' among yours';
    throw new OperationError(`there is no access token ${id}${where}`, 'missing');
  };
  return {
    async listTokens({ caller }: Asked, asked: PageAsked & Omit<TokenFilter, 'after' | 'limit'>) {
      const { after, limit } = asked;
      const user = ownerToList(caller, asked.user);
      if (after !== undefined && (await findTokens(database, { id: after, user })).length === 0) throw notInList();
      const states = { now: clock.now(), verified_days: verifiedDays(config) };
      const page = pageOf(await listTokens(database, { ...asked, user, limit: limit + 1 }, states), limit);
      return { tokens: page.entries.map(shown), next: page.next };
    },

    async createToken({ caller, by }: Asked, wish: TokenWish) {
      const { id, token } = await createToken(by, {
        ...wanted(wish, caller, config),
        expires_at: endOf(wish) ?? undefined,
      });
      return { token, ...(await known(id)) };
    },

    getToken: async ({ caller }: Asked, { id }: { readonly id: string }) => shown(await demand(caller, id)),

    async revokeToken({ caller, by }: Asked, { id }: { readonly id: string }) {
      const token = await demand(caller, id);
      return shown(await revokeToken(by, { id: token.id }));
    },

    async rotateToken(
      { caller, by }: Asked,
      { id: old_id, overlap_seconds, ...said }: EndSaid & { readonly id: string; readonly overlap_seconds: number },
    ) {
      const end = endOf(said);
      const old = await demand(caller, old_id);
      demandRight(caller, config, old, end);
      const rotation = { overlap_seconds, expires_at: end, max_self_service: MAX_SELF_MADE_ROTATED };
      const { id, token, replaced } = await rotateToken(by, { id: old.id }, rotation);
      return { token, ...(await known(id)), replaces: shown(replaced) };
    },
  };
}

function wanted(wish: TokenWish, caller: Caller, config: GatewayConfig) {
  const { email, principal, is_admin, actor } = caller;
  const { user = email, name } = wish;
  if (user === email && actor.kind !== 'person') {
    const who = actor.kind === 'service' ? 'service token' : actor.kind;
    throw new OperationError(`the field "user" is missing: a ${who} has no access tokens of its own`);
  }
  if (user !== email && !is_admin) {
    throw forbidden('only administrators make access tokens for others; leave "user" out');
  }
  const group = wish.group ?? principal.token.group ?? onlyOne(tokenGroupsFor(caller, config));
  demandTokenGroup(caller, config, group);
  const own = user === email;
  return {
    user,
    name,
    group,
    team: partOf(wish, 'team', caller, own ? principal.team : undefined),
    project: partOf(wish, 'project', caller, own ? principal.project : undefined),
    self_service: own,
    ...(own ? { max_self_service: MAX_SELF_MADE } : {}),
  };
}

function tokenGroupsFor({ is_admin, principal }: Caller, config: GatewayConfig): string[] {
  return tokenGroupsOpenTo({ is_admin, groups: principal.groups }, config);
}

function demandTokenGroup(caller: Caller, config: GatewayConfig, group: string): void {
  const allowed = tokenGroupsFor(caller, config);
  if (allowed.includes(group)) return;
  if (caller.is_admin) {
    const there_are = `gateway.yaml has ${listed(allowed)}`;
    throw new OperationError(`there is no token group "${group}": ${didYouMean(group, allowed, there_are)}`);
  }
  const which = allowed.length === 0 ? 'you may make them in none' : `you may make them in ${listed(allowed)}`;
  throw forbidden(`you may not have access tokens of the token group "${group}": ${which}`);
}

function onlyOne(groups: readonly string[]): string {
  const [group, another] = groups;
  if (group !== undefined && another === undefined) return group;
  if (group === undefined) {
    throw forbidden('you are a member of no token group, so you may not make access tokens; ask your administrator');
  }
  throw new OperationError('the field "group" is missing: the token group says which models the token may use');
}

/** The team or project of a new token: one's own, unless an administrator says another. */
function partOf(wish: TokenWish, name: 'team' | 'project', { is_admin }: Caller, own: string | undefined) {
  const asked = wish[name];
  if (asked === null) return is_admin ? undefined : own;
  if (asked === undefined || asked === own) return own;
  if (is_admin) return asked;
  const yours = own === undefined ? `you have none` : `yours is "${own}"`;
  throw forbidden(`only administrators choose the ${name} of a token, and ${yours}; leave "${name}" out`);
}

/** What an administrator granted, its owner may renew but not enlarge. */
function demandRight(caller: Caller, config: GatewayConfig, old: KnownToken, end: Date | null | undefined): void {
  if (caller.is_admin) return;
  if (old.self_service) {
    demandTokenGroup(caller, config, old.group);
    return;
  }
  const shorter = end === undefined || (end !== null && (old.expires_at === null || end <= old.expires_at));
  if (!shorter) throw forbidden('an administrator made this token, and only administrators make it live longer');
}

function forbidden(message: string): OperationError {
  return new OperationError(message, 'forbidden');
}

const MAX_SECONDS = MAX_SERVICE_TOKEN_DAYS * 86_400;

/** Service tokens: made, replaced and ended by administrators, never by one another. */
export function serviceTokenOperations({ database, clock }: AdminOptions) {
  const known = async (id: string) => showServiceToken((await listServiceTokens(database, id))[0]!, clock.now());
  const endOf = (said: EndSaid) => endOfLife(said, clock, MAX_SECONDS) ?? undefined;
  return {
    async listServiceTokens(_: Asked, _nothing: object) {
      const all = await listServiceTokens(database);
      return { service_tokens: all.map((token) => showServiceToken(token, clock.now())) };
    },

    async createServiceToken(
      { by }: Asked,
      { name, scopes, ...end }: EndSaid & { readonly name: string; readonly scopes: readonly string[] },
    ) {
      const { token, id } = await createServiceToken(by, { name, scopes, expires_at: endOf(end) });
      return { token, ...(await known(id)) };
    },

    async revokeServiceToken({ by }: Asked, { id: given }: { readonly id: string }) {
      const id = demandId(given, 'service token');
      await revokeServiceToken(by, id);
      return known(id);
    },

    async rotateServiceToken(
      { by }: Asked,
      { id: old, overlap_seconds, ...end }: EndSaid & { readonly id: string; readonly overlap_seconds: number },
    ) {
      const rotation = { overlap_seconds, expires_at: endOf(end) };
      const { token, id } = await rotateServiceToken(by, demandId(old, 'service token'), rotation);
      return { token, ...(await known(id)) };
    },
  };
}

const NO_TOKENS: Omit<GroupCount, 'group'> = { in_force: 0, suspended: 0, last_used_at: null };

/** Token groups: what they open, who may make tokens in them, and how many there are; for everybody but administrators their own. */
export function tokenGroupOperations({ config, database, clock, models }: AdminOptions) {
  const members = new Map(config.token_groups.map((group) => [group.name, group.members ?? []]));
  const configured = config.token_groups.length === 0 ? ['all'] : [...members.keys()];
  const opens = (group: string) =>
    models.all.filter((model) => models.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return {
    async listTokenGroups({ caller }: Asked, _nothing: object) {
      const { is_admin, principal, email } = caller;
      const states = { now: clock.now(), verified_days: verifiedDays(config) };
      const counts = await countByGroup(database, { user: is_admin ? undefined : email }, states);
      const open = tokenGroupsOpenTo({ is_admin, groups: principal.groups }, config);
      const counted = counts.map(({ group }) => group);
      const shown = is_admin ? configured : configured.filter((name) => open.includes(name) || counted.includes(name));
      const token_groups = [...new Set([...shown, ...counted])].map((name) => {
        const { group: _group, ...tokens } = counts.find(({ group }) => group === name) ?? {
          group: name,
          ...NO_TOKENS,
        };
        const who = members.get(name) ?? [];
        return {
          name,
          is_configured: configured.includes(name),
          models: opens(name),
          members: is_admin ? who : who.filter((group) => principal.groups.includes(group)),
          is_for_everybody_else: commonTokenGroup(config) === name,
          may_make: open.includes(name),
          tokens,
        };
      });
      return { token_groups };
    },
  };
}
