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
  findToken,
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
import { type AdminOptions, type Caller, type OperationContext, ownerToList } from './calls.ts';
import { type ExpiryInput, expiryOf, requireId } from './description.ts';
import { notInList, type PageQuery, pageOf } from './lists.ts';

const MAX_SELF_MADE = 50;
const MAX_SELF_MADE_ROTATED = 2 * MAX_SELF_MADE;
const MAX_LIFE_SECONDS = 10 * 366 * 86_400;
const MAX_SERVICE_SECONDS = MAX_SERVICE_TOKEN_DAYS * 86_400;
const NO_TOKENS: Omit<GroupCount, 'group'> = { in_force: 0, suspended: 0, last_used_at: null };

/** Input for a new access token; absent fields are those of the caller. */
export interface TokenInput extends ExpiryInput {
  readonly name: string;
  readonly user?: string;
  readonly group?: string;
  readonly team?: string | null;
  readonly project?: string | null;
}

type Rotation = ExpiryInput & { readonly id: string; readonly overlap_seconds: number };

/**
 * Access tokens and their groups: one's own, for administrators all. Service tokens, for administrators; no service token can create
 * another.
 */
export function tokenOperations({ config, database, clock, models }: AdminOptions) {
  const shown = <Known extends KnownToken>(token: Known) => showToken(token, clock.now(), config);
  const known = async (id: string) => shown((await findToken(database, { id }))!);
  const endOf = (input: ExpiryInput) => expiryOf(input, clock, MAX_LIFE_SECONDS);
  const requireToken = async ({ is_admin, email }: Caller, id_input: string): Promise<KnownToken> => {
    const id = requireId(id_input, 'access token');
    const token = await findToken(database, { id, user: is_admin ? undefined : email });
    if (token !== undefined) return token;
    const where = is_admin ? '; "appscli tokens list" shows all' : ' among yours';
    throw new OperationError(`there is no access token ${id}${where}`, 'missing');
  };
  const knownService = async (id: string) => showServiceToken((await listServiceTokens(database, id))[0]!, clock.now());
  const endOfService = (input: ExpiryInput) => expiryOf(input, clock, MAX_SERVICE_SECONDS) ?? undefined;
  const members = new Map(config.token_groups.map((group) => [group.name, group.members ?? []]));
  const configured = config.token_groups.length === 0 ? ['all'] : [...members.keys()];
  const opens = (group: string) =>
    models.all.filter((model) => models.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return {
    async listTokens({ caller }: OperationContext, query: PageQuery & Omit<TokenFilter, 'after' | 'limit'>) {
      const { after, limit } = query;
      const user = ownerToList(caller, query.user);
      if (after !== undefined && (await findToken(database, { id: after, user })) === undefined) throw notInList();
      const states = { now: clock.now(), verified_days: verifiedDays(config) };
      const page = pageOf(await listTokens(database, { ...query, user, limit: limit + 1 }, states), limit);
      return { tokens: page.entries.map(shown), next: page.next };
    },

    async createToken({ caller, by }: OperationContext, input: TokenInput) {
      const { id, token } = await createToken(by, {
        ...newToken(input, caller, config),
        expires_at: endOf(input) ?? undefined,
      });
      return { token, ...(await known(id)) };
    },

    getToken: async ({ caller }: OperationContext, { id }: { readonly id: string }) =>
      shown(await requireToken(caller, id)),

    async revokeToken({ caller, by }: OperationContext, { id }: { readonly id: string }) {
      const token = await requireToken(caller, id);
      return shown(await revokeToken(by, token.id));
    },

    async rotateToken({ caller, by }: OperationContext, { id: old_id, overlap_seconds, ...expiry }: Rotation) {
      const end = endOf(expiry);
      const old = await requireToken(caller, old_id);
      requireRotationRight(caller, config, old, end);
      const rotation = { overlap_seconds, expires_at: end, max_self_service: MAX_SELF_MADE_ROTATED };
      const { id, token, replaced } = await rotateToken(by, old.id, rotation);
      return { token, ...(await known(id)), replaces: shown(replaced) };
    },

    async listServiceTokens(_: OperationContext, _nothing: object) {
      const all = await listServiceTokens(database);
      return { service_tokens: all.map((token) => showServiceToken(token, clock.now())) };
    },

    async createServiceToken(
      { by }: OperationContext,
      { name, scopes, ...end }: ExpiryInput & { readonly name: string; readonly scopes: readonly string[] },
    ) {
      const { token, id } = await createServiceToken(by, { name, scopes, expires_at: endOfService(end) });
      return { token, ...(await knownService(id)) };
    },

    async revokeServiceToken({ by }: OperationContext, input: { readonly id: string }) {
      const id = requireId(input.id, 'service token');
      await revokeServiceToken(by, id);
      return knownService(id);
    },

    async rotateServiceToken({ by }: OperationContext, { id: old, overlap_seconds, ...end }: Rotation) {
      const rotation = { overlap_seconds, expires_at: endOfService(end) };
      const { token, id } = await rotateServiceToken(by, requireId(old, 'service token'), rotation);
      return { token, ...(await knownService(id)) };
    },

    async listTokenGroups({ caller }: OperationContext, _nothing: object) {
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

function newToken(input: TokenInput, caller: Caller, config: GatewayConfig) {
  const { email, principal, is_admin, actor } = caller;
  const { user = email, name } = input;
  if (user === email && actor.kind !== 'person') {
    const who = actor.kind === 'service' ? 'service token' : actor.kind;
    throw new OperationError(`the field "user" is missing: a ${who} cannot own access tokens`);
  }
  if (user !== email && !is_admin) {
    throw forbidden('admin role required to create access tokens for others; omit "user"');
  }
  const group = input.group ?? principal.token.group ?? onlyOne(tokenGroupsFor(caller, config));
  requireTokenGroup(caller, config, group);
  const own = user === email;
  return {
    user,
    name,
    group,
    team: partOf(input, 'team', caller, own ? principal.team : undefined),
    project: partOf(input, 'project', caller, own ? principal.project : undefined),
    self_service: own,
    ...(own ? { max_self_service: MAX_SELF_MADE } : {}),
  };
}

function tokenGroupsFor({ is_admin, principal }: Caller, config: GatewayConfig): string[] {
  return tokenGroupsOpenTo({ is_admin, groups: principal.groups }, config);
}

function requireTokenGroup(caller: Caller, config: GatewayConfig, group: string): void {
  const allowed = tokenGroupsFor(caller, config);
  if (allowed.includes(group)) return;
  if (caller.is_admin) {
    const there_are = `gateway.yaml has ${listed(allowed)}`;
    throw new OperationError(`there is no token group "${group}": ${didYouMean(group, allowed, there_are)}`);
  }
  const which = allowed.length === 0 ? 'you are not in any token group' : `your token groups are ${listed(allowed)}`;
  throw forbidden(`you are not in the token group "${group}": ${which}`);
}

function onlyOne(groups: readonly string[]): string {
  const [group, another] = groups;
  if (group !== undefined && another === undefined) return group;
  if (group === undefined) {
    throw forbidden('you are not in any token group. Ask your administrator for access.');
  }
  throw new OperationError('the field "group" is missing: the token group decides which models the token may use');
}

function partOf(input: TokenInput, name: 'team' | 'project', { is_admin }: Caller, own: string | undefined) {
  const value = input[name];
  if (value === null) return is_admin ? undefined : own;
  if (value === undefined || value === own) return own;
  if (is_admin) return value;
  const yours = own === undefined ? `you have none` : `yours is "${own}"`;
  throw forbidden(`admin role required to choose the ${name} of a token (${yours}); omit "${name}"`);
}

/** The owner of a token made by an administrator may rotate it, but not extend its expiry. */
function requireRotationRight(
  caller: Caller,
  config: GatewayConfig,
  old: KnownToken,
  end: Date | null | undefined,
): void {
  if (caller.is_admin) return;
  if (old.self_service) {
    requireTokenGroup(caller, config, old.group);
    return;
  }
  const shorter = end === undefined || (end !== null && (old.expires_at === null || end <= old.expires_at));
  if (!shorter) throw forbidden('admin role required to extend a token that an administrator created');
}

function forbidden(message: string): OperationError {
  return new OperationError(message, 'forbidden');
}
