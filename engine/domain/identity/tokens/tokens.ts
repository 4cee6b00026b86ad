import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import { OperationError } from '../../../base/contract/operation-error.ts';
import { isPrintableLine } from '../../../base/kit/text/printable.ts';
import type { Database } from '../../../base/store/database.ts';
import { actorLabel, type Changing } from '../../audit/index.ts';
import {
  commonTokenGroup,
  IN_FORCE,
  OWNER_STATUS,
  type OwnerStatus,
  reportOwnChange,
  rolesOf,
  suspension,
  verifiedDays,
} from '../deprovisioning/deprovision.ts';
import type { AccountCheckContext } from '../deprovisioning/recheck-session.ts';
import { newToken, TOKENS_CHANNEL } from './token-format.ts';

interface NewToken {
  /** E-mail address of the owner; stored in lower case, so that a person has one budget. */
  readonly user: string;
  readonly group: string;
  readonly name: string;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  readonly expires_at?: Date | undefined;
  /** Whether it is a personal token, made by its owner; it ends with the owner's right to sign in. */
  readonly self_service?: boolean;
  /** Most such tokens in force of the owner, this one included. Absent: any number. */
  readonly max_self_service?: number;
}

interface TokenSummary {
  readonly id: string;
  readonly prefix: string;
  readonly user: string;
  readonly group: string;
  readonly name: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly created_at: Date;
  /** E-mail address of the person, or command line, that created it. */
  readonly created_by: string;
  readonly self_service: boolean;
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
  readonly replaced_by: string | null;
}

/** A token, with the status of its owner. */
export interface KnownToken extends TokenSummary, OwnerStatus {}

/** State of a token. `replaced`: still valid for the overlap with its successor. */
type TokenState = 'active' | 'replaced' | 'revoked' | 'expired';

const MAX_CHARS = 254;

/** SQL: the columns of a `KnownToken`, of a token `t` and its owner `p`. */
export const SUMMARY = `t.id, t.prefix, p.email as "user", t.token_group as "group", t.name, t.team, t.project, t.created_at,
  t.created_by, t.self_service, t.expires_at, t.last_used_at, t.revoked_at, t.replaced_by,
  ${OWNER_STATUS}`;

/** The state of a token at a moment, in milliseconds since the epoch. */
export function tokenState(
  token: Pick<TokenSummary, 'revoked_at' | 'expires_at' | 'replaced_by'>,
  now: number,
): TokenState {
  if (token.revoked_at !== null) return 'revoked';
  if (token.expires_at !== null && token.expires_at.getTime() <= now) return 'expired';
  return token.replaced_by === null ? 'active' : 'replaced';
}

/** Creates an access token. Raises OperationError, credential_revoked when the session has ended, store_unavailable. */
export async function createToken({ database, clock, actor, session_id }: Changing, wanted: NewToken) {
  const user = wanted.user.toLowerCase();
  const now = new Date(clock.now());
  const { hash, ...made } = newToken('access');
  const [row] = await database.query<{ alive: boolean; made: boolean }>(
    'token_create',
    // Lock order: the owner before the session.
    `with owner as (
       insert into principals (id, email) values ($1, $2) on conflict (id) do update set email = excluded.email returning id
     ), alive as (
       select s.id from owner cross join sessions s where s.id = $17 and s.revoked_at is null for share of s
     ), made as (
       insert into access_tokens (id, hash, prefix, principal_id, token_group, name, team, project, expires_at,
         created_at, created_by, self_service)
       select $3, decode($4, 'base64'), $5, owner.id, $6, $7, $8, $9, $10, $11, $12, $13 from owner
       where ($17::text is null or exists (select from alive))
         and ($14::integer is null or $14 > self_made_in_force(owner.id, $11))
       returning *
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, after)
       select $11, $15, $16, 'token.create', id, jsonb_build_object('user', $2::text, 'group', token_group, 'name', name,
         'team', team, 'project', project, 'expires_at', expires_at, 'self_service', self_service) from made
     )
     select $17 is null or exists (select from alive) as alive, exists (select from made) as made,
       (select pg_notify('${TOKENS_CHANNEL}', $4) from made)`,
    [
      `user:${user}`,
      user,
      made.id,
      hash,
      made.prefix,
      wanted.group,
      wanted.name,
      wanted.team ?? null,
      wanted.project ?? null,
      wanted.expires_at ?? null,
      now,
      actorLabel(actor),
      wanted.self_service ?? false,
      wanted.max_self_service ?? null,
      actor.kind,
      actor.name,
      session_id ?? null,
    ],
  );
  if (!row!.alive) throw sessionEnded();
  if (!row!.made) throw tooManyInForce(wanted.max_self_service!, user);
  return made;
}

/** The token with an id, optionally only one of a person; `undefined` without one. Raises store_unavailable. */
export async function findToken(
  database: Pick<Database, 'query'>,
  { id, user }: { readonly id: string; readonly user?: string | undefined },
): Promise<KnownToken | undefined> {
  const [token] = await database.query<KnownToken>(
    'token_find',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where t.id = $1 and ($2::text is null or p.email = $2)`,
    [id, user?.toLowerCase() ?? null],
  );
  return token;
}

/** Revokes a token and those it replaced (returned, too). Raises OperationError if there is none in force. */
export async function revokeToken(
  { database, clock, actor }: Changing,
  id: string,
): Promise<KnownToken & { readonly also_revoked: readonly string[] }> {
  const now = clock.now();
  const token = await findToken(database, { id });
  if (token === undefined || token.revoked_at !== null) throw nothingToDo(`the id "${id}"`, token, now);
  const rows = await database.query<{ id: string }>(
    'token_revoke',
    // Lock order: the owner first.
    `with recursive owner as (
       select id from principals where id = (select principal_id from access_tokens where id = $1) for no key update
     ), line as (
       select t.id from owner join access_tokens t on t.principal_id = owner.id where t.id = $1
       union select t.id from access_tokens t join line on t.replaced_by = line.id
     )
     select revoke_tokens(
       array(select t.id from line join access_tokens t on t.id = line.id where t.id = $1 or ${IN_FORCE('$2')}),
       null, $3, $4, $2) as id`,
    [token.id, new Date(now), actor.kind, actor.name],
  );
  const ids = rows.map((row) => row.id);
  if (!ids.includes(token.id)) {
    throw new OperationError(`the token ${id} was just revoked by another change`, 'conflict');
  }
  return { ...token, revoked_at: new Date(now), also_revoked: ids.filter((each) => each !== id) };
}

/** One in force before expired ones, a successor before what it replaced. Raises OperationError if several match. */
export function theOne<Token extends TokenSummary>(
  named: string,
  found: readonly Token[],
  now: number,
): Token | undefined {
  const kept = found.filter(({ revoked_at }) => revoked_at === null);
  const alive = kept.filter((token) => tokenState(token, now) !== 'expired');
  const candidates = alive.length > 0 ? alive : kept;
  const newest = candidates.filter(({ replaced_by }) => !candidates.some(({ id }) => id === replaced_by));
  if (newest.length > 1) {
    const ids = newest.map(({ id, prefix }) => `${id} (${prefix}...)`).join(', ');
    throw new OperationError(`${named} fits ${newest.length} tokens: ${ids}; name it by its id`, 'conflict');
  }
  return newest[0];
}

/** Why a token cannot be changed. @param named how it was named, for an unknown one */
export function nothingToDo(named: string, last: TokenSummary | undefined, now: number): OperationError {
  if (last === undefined) {
    return new OperationError(`no token has ${named}; "appscli tokens list" shows all`, 'missing');
  }
  const state = tokenState(last, now);
  if (state === 'replaced') {
    return new OperationError(`the token ${last.id} was already replaced by ${last.replaced_by}`, 'conflict');
  }
  const since = (state === 'revoked' ? last.revoked_at : last.expires_at)!.toISOString();
  return new OperationError(`the token ${last.id} is ${state} already, since ${since}`, 'conflict');
}

function tooManyInForce(max: number, user: string): OperationError {
  const limit = `a user can create at most ${max} valid access tokens, including replaced ones that still work`;
  return new OperationError(`${limit}, and ${user} has that many; revoke an unused one`, 'conflict');
}

export function sessionEnded(): StageError {
  return new StageError('credential_revoked', 'Your session has ended. Sign in again.');
}

/** Checks a name: a printable line of limited length. Raises OperationError. */
export function nameOf(what: string, input: string): string {
  const value = input.trim();
  if (value === '') throw new OperationError(`the ${what} is empty`);
  if (value.length > MAX_CHARS) throw new OperationError(`the ${what} is longer than ${MAX_CHARS} characters`);
  if (!isPrintableLine(value)) {
    throw new OperationError(`the ${what} contains unprintable characters`);
  }
  return value;
}

/** Filter of tokens; every field that is present must match. */
export interface TokenFilter {
  readonly user?: string | undefined;
  readonly group?: string | undefined;
  /** `in_force`: neither revoked nor expired; includes suspended ones. */
  readonly state?: ShownState | 'in_force' | undefined;
  /** Part of the name, id, prefix or owner's address, any case. */
  readonly search?: string | undefined;
  /** Id of a token: the list begins after it. */
  readonly after?: string | undefined;
  readonly order?: 'oldest' | 'newest' | undefined;
  readonly limit?: number | undefined;
}

interface StatesBy {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** How long a verification counts, in days; `undefined`: forever. */
  readonly verified_days: number | undefined;
}

/** SQL: the state of a token `t` of an owner `p`, as in `showToken`. */
const STATE = (now: string, verified_days: string) => `case
  when t.revoked_at is not null then 'revoked'
  when t.expires_at <= ${now} then 'expired'
  when t.self_service and (p.blocked_at is not null or (${verified_days}::integer is not null and ${now} >= greatest(
    coalesce(p.signed_in_at, t.created_at) + make_interval(hours => 24 * ${verified_days}::integer),
    p.suspension_put_off_until))) then 'suspended'
  when t.replaced_by is null then 'active'
  else 'replaced'
end`;

/** Lists tokens, by default the oldest first. Raises store_unavailable. */
export function listTokens(
  database: Pick<Database, 'query'>,
  only: TokenFilter = {},
  states: StatesBy = { now: Date.now(), verified_days: undefined },
): Promise<KnownToken[]> {
  const newest_first = only.order === 'newest';
  const [after, direction] = newest_first ? ['<', 'desc'] : ['>', 'asc'];
  return database.query<KnownToken>(
    newest_first ? 'token_list_newest' : 'token_list',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where ($1::text is null or p.email = $1)
       and ($2::text is null or (t.created_at, t.id) ${after} (select created_at, id from access_tokens where id = $2))
       and ($4::text is null or t.token_group = $4)
       and ($5::text is null or position($5 in lower(concat_ws(chr(10), t.name, t.id, t.prefix, p.email))) > 0)
       and ($6::text is null
         or case when $6 = 'in_force' then ${IN_FORCE('$7')} else ${STATE('$7::timestamptz', '$8')} = $6 end)
     order by t.created_at ${direction}, t.id ${direction} limit $3`,
    [
      only.user?.toLowerCase() ?? null,
      only.after ?? null,
      only.limit ?? null,
      only.group ?? null,
      only.search?.toLowerCase() ?? null,
      only.state ?? null,
      new Date(states.now),
      states.verified_days ?? null,
    ],
  );
}

export interface GroupCount {
  readonly group: string;
  readonly in_force: number;
  /** Of these, rejected until their owner is verified again. */
  readonly suspended: number;
  readonly last_used_at: Date | null;
}

/** Counts tokens in force by token group, optionally of one person. Raises store_unavailable. */
export function countByGroup(
  database: Pick<Database, 'query'>,
  { user }: Pick<TokenFilter, 'user'>,
  { now, verified_days }: StatesBy,
): Promise<GroupCount[]> {
  return database.query<GroupCount>(
    'token_groups_count',
    `select t.token_group as "group", count(*)::integer as in_force,
       (count(*) filter (where ${STATE('$2::timestamptz', '$3')} = 'suspended'))::integer as suspended,
       max(t.last_used_at) as last_used_at
     from access_tokens t join principals p on p.id = t.principal_id
     where ($1::text is null or p.email = $1) and ${IN_FORCE('$2')}
     group by 1 order by 1`,
    [user?.toLowerCase() ?? null, new Date(now), verified_days ?? null],
  );
}

/** Where a person may create tokens: administrators anywhere, members in their groups, others in the common one. */
export function tokenGroupsOpenTo(
  { is_admin, groups }: { readonly is_admin: boolean; readonly groups: readonly string[] },
  config: Pick<GatewayConfig, 'token_groups' | 'auth'>,
): string[] {
  const { token_groups } = config;
  const common = commonTokenGroup(config);
  if (token_groups.length > 0 && is_admin) return token_groups.map(({ name }) => name);
  const own = token_groups.filter(({ members = [] }) => members.some((group) => groups.includes(group)));
  if (own.length > 0) return own.map(({ name }) => name);
  return common === undefined ? [] : [common];
}

/** Revokes personal tokens in token groups that are no longer open to their owner. Errors are only logged. */
export async function endTokensTheyLost(
  context: Omit<AccountCheckContext, 'identity'>,
  { email, groups }: { readonly email: string; readonly groups: readonly string[] },
): Promise<void> {
  const { config, database, clock, log } = context;
  const is_admin = config.auth !== undefined && rolesOf(config.auth, groups).includes('admin');
  const token_groups = tokenGroupsOpenTo({ is_admin, groups }, config);
  try {
    const ended = await database.query<object>(
      'tokens_end_outside',
      `with owner as (select id from principals where id = $2 for no key update)
       select revoke_tokens(
         array(
           select t.id from owner join access_tokens t on t.principal_id = owner.id
           where t.self_service and ${IN_FORCE('$1')} and not t.token_group = any ($3::text[])),
         'its owner left the token group', 'gateway', 'sign-in', $1)`,
      [new Date(clock.now()), `user:${email}`, token_groups],
    );
    if (ended.length === 0) return;
    for (const _ of ended) reportOwnChange(context, 'token.revoke');
    log.info({ email, ended: ended.length }, 'revoked access tokens in token groups that their owner left');
  } catch (error) {
    log.warn({ err: error, email }, 'could not revoke access tokens in token groups that their owner left yet');
  }
}

/** State of a token for requests. `suspended`: rejected until its owner is admitted again. */
type ShownState = TokenState | 'suspended';

export type ShownToken = TokenSummary & {
  readonly state: ShownState;
  /** When it is suspended without a verification of its owner; `null`: never, or suspended already. */
  readonly suspends_at: Date | null;
};

/** A token as it is shown, at a moment in milliseconds since the epoch. */
export function showToken<Known extends KnownToken>(
  { verified_at, put_off_until, is_blocked, ...token }: Known,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): Omit<Known, keyof OwnerStatus> & Pick<ShownToken, 'state' | 'suspends_at'> {
  const state = tokenState(token, now);
  if (state !== 'active' && state !== 'replaced') return { ...token, state, suspends_at: null };
  const { suspended, suspends_at } = suspension({ verified_at, put_off_until, is_blocked }, now, verifiedDays(config));
  const ends_before = suspends_at !== null && token.expires_at !== null && token.expires_at <= suspends_at;
  return { ...token, state: suspended ? 'suspended' : state, suspends_at: ends_before ? null : suspends_at };
}

/** Longest overlap of a rotation. */
export const MAX_OVERLAP_SECONDS = 30 * 86_400;

/** Rotates a token; the old one works during the overlap. Raises OperationError, credential_revoked. */
export async function rotateToken(
  { database, clock, actor, session_id }: Changing,
  id: string,
  {
    overlap_seconds = 86_400,
    expires_at,
    max_self_service,
  }: {
    /** How long the old token works; 0 revokes it at once. Absent: a day. */
    readonly overlap_seconds?: number | undefined;
    /** End of the new token; `null`: none. Absent: the end of the old one. */
    readonly expires_at?: Date | null | undefined;
    /** Most personal tokens in force of the owner, for a personal token. Absent: any number. */
    readonly max_self_service?: number;
  } = {},
) {
  const now = clock.now();
  const token = await findToken(database, { id });
  if (token === undefined || tokenState(token, now) !== 'active') throw nothingToDo(`the id "${id}"`, token, now);
  const { hash, ...made } = newToken('access');
  const [row] = await database.query<{
    alive: boolean;
    allowed: boolean | null;
    new_end: Date | null;
    old_end: Date | null;
  }>(
    'token_rotate',
    // Lock order: the owner before the session.
    `with owner as (
       select id from principals where id = (select principal_id from access_tokens where id = $1) for no key update
     ), alive as (
       select s.id from owner cross join sessions s where s.id = $13 and s.revoked_at is null for share of s
     ), allowed as (
       select $14::integer is null or not t.self_service or $14 > self_made_in_force(owner.id, $2) as it_is
       from owner join access_tokens t on t.id = $1
     ), old as (
       select t.* from owner join access_tokens t on t.principal_id = owner.id
       where ($13::text is null or exists (select from alive)) and exists (select from allowed where it_is)
         and t.id = $1 and t.revoked_at is null and t.replaced_by is null and (t.expires_at is null or t.expires_at > $2)
       for update of t
     ), made as (
       insert into access_tokens (id, hash, prefix, principal_id, token_group, name, team, project, expires_at,
         created_at, created_by, self_service)
       select $3, decode($4, 'base64'), $5, principal_id, token_group, name, team, project,
         case when $6 then $7 else expires_at end, greatest($2, created_at + interval '1 microsecond'), $8, self_service
       from old
       returning *
     ), replaced as (
       update access_tokens t set replaced_by = $3, expires_at = least(old.expires_at, $9)
       from old where t.id = old.id returning t.hash, t.expires_at, old.expires_at as end_before
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select $2, $10, $11, 'token.rotate', $1, jsonb_build_object('expires_at', end_before),
         jsonb_build_object('expires_at', expires_at, 'replaced_by', $3::text) from replaced
       union all
       select $2, $10, $11, 'token.create', id, null, jsonb_build_object('user', $12::text, 'group', token_group,
         'name', name, 'team', team, 'project', project, 'expires_at', expires_at, 'self_service', self_service,
         'replaces', $1::text) from made
     )
     select $13 is null or exists (select from alive) as alive, (select it_is from allowed) as allowed,
       (select expires_at from made) as new_end, (select expires_at from replaced) as old_end,
       (select pg_notify('${TOKENS_CHANNEL}', $4) from made),
       (select pg_notify('${TOKENS_CHANNEL}', encode(hash, 'base64')) from replaced)`,
    [
      token.id,
      new Date(now),
      made.id,
      hash,
      made.prefix,
      expires_at !== undefined,
      expires_at ?? null,
      actorLabel(actor),
      new Date(now + overlap_seconds * 1000),
      actor.kind,
      actor.name,
      token.user,
      session_id ?? null,
      max_self_service ?? null,
    ],
  );
  if (!row!.alive) throw sessionEnded();
  if (row!.allowed === false) throw tooManyInForce(max_self_service!, token.user);
  const { new_end, old_end } = row!;
  if (old_end === null) {
    throw new OperationError(`the token ${token.id} was just replaced or revoked by another change`, 'conflict');
  }
  const replaced = { ...token, expires_at: old_end, replaced_by: made.id };
  return { ...made, expires_at: new_end, replaced };
}
