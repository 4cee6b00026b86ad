import { actorLabel, type Changing } from '../../audit/admin-changes.ts';
import { StageError } from '../../contract/errors.ts';
import { OperationError } from '../../contract/operation-error.ts';
import { isPrintableLine } from '../../kit/text/printable.ts';
import type { Database } from '../../store/database.ts';
import { OWNER_STATUS, type OwnerStatus } from '../deprovisioning/suspension.ts';
import { generateToken, generateTokenId, hashToken, shownPart, TOKENS_CHANNEL } from './token-format.ts';

/** What an access token is made for. */
export interface NewToken {
  /** E-mail address of the owner; stored in lower case, so that one person has one budget. */
  readonly user: string;
  readonly group: string;
  readonly name: string;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Absent: it does not expire. */
  readonly expires_at?: Date | undefined;
  /** Whether its owner makes it without an administrator; it then ends with the owner's right to sign in. */
  readonly self_service?: boolean;
  /** How many such tokens in force its owner may have, this one included. Absent: any number. */
  readonly max_self_service?: number;
}

/** An access token that has just been made. `token` is stored nowhere: this is the only time it is known. */
export interface MadeToken {
  readonly token: string;
  readonly id: string;
  readonly prefix: string;
}

/** A token as administrators see it; the token itself is not known any more. */
export interface TokenSummary {
  readonly id: string;
  /** The token's first characters. */
  readonly prefix: string;
  readonly user: string;
  readonly group: string;
  readonly name: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly created_at: Date;
  /** E-mail of the person who made it, or the command line it was made at. */
  readonly created_by: string;
  readonly self_service: boolean;
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
  /** Id of the token that replaces it. */
  readonly replaced_by: string | null;
}

/** A token together with what decides whether it is suspended. */
export interface KnownToken extends TokenSummary, OwnerStatus {}

/** A token by its id, or by whose it is and its name. With `id`, `user` narrows: a token of somebody else is not found. */
export type WhichToken =
  | { readonly id: string; readonly user?: string | undefined }
  | { readonly user: string; readonly name: string };

/** What may be done with a token. `replaced`: good until its end, which a newer one has brought near. */
export type TokenState = 'active' | 'replaced' | 'revoked' | 'expired';

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

/** Makes an access token. Raises OperationError, credential_revoked when the session has ended, store_unavailable. */
export async function createToken(
  { database, clock, actor, session_id }: Changing,
  wanted: NewToken,
): Promise<MadeToken> {
  const user = nameOf('user', wanted.user).toLowerCase();
  if (/\s/.test(user)) throw new OperationError(`the user "${user}" holds a space; expected an e-mail address`);
  const now = new Date(clock.now());
  const made = newToken();
  const [row] = await database.query<{ alive: boolean; made: boolean }>(
    'token_create',
    // The owner before the session, as everything that takes both.
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
      made.hash,
      made.prefix,
      nameOf('group', wanted.group),
      nameOf('name', wanted.name),
      wanted.team === undefined ? null : nameOf('team', wanted.team),
      wanted.project === undefined ? null : nameOf('project', wanted.project),
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
  return { token: made.token, id: made.id, prefix: made.prefix };
}

/** All tokens a description fits, the newest last. Raises store_unavailable. */
export function findTokens(database: Pick<Database, 'query'>, which: WhichToken): Promise<KnownToken[]> {
  const [id, name] = 'id' in which ? [which.id, null] : [null, which.name];
  return database.query<KnownToken>(
    'token_find',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where ($1::text is null or t.id = $1) and ($2::text is null or p.email = $2) and ($3::text is null or t.name = $3)
     order by t.created_at, t.id`,
    [id, which.user?.toLowerCase() ?? null, name],
  );
}

/**
 * Revokes a token together with those it replaced; every gateway refuses them within a second.
 * Raises OperationError when there is no such token, when it is revoked already, or when the name fits several.
 * @returns what is known of the token, and the ids of the others.
 */
export async function revokeToken(
  { database, clock, actor }: Changing,
  which: WhichToken,
): Promise<KnownToken & { readonly also_revoked: readonly string[] }> {
  const now = clock.now();
  const found = await findTokens(database, which);
  const token = theOne(which, found, now);
  if (token === undefined) throw nothingToDo(which, found, now);
  const rows = await database.query<{ id: string }>(
    'token_revoke',
    // The owner first, as everything that changes several tokens.
    `with recursive owner as (
       select id from principals where id = (select principal_id from access_tokens where id = $1) for no key update
     ), line as (
       select t.id from owner join access_tokens t on t.principal_id = owner.id where t.id = $1
       union select t.id from access_tokens t join line on t.replaced_by = line.id
     ), revoked as (
       update access_tokens t set revoked_at = $2 from line
       where t.id = line.id and t.revoked_at is null and (t.id = $1 or t.expires_at is null or t.expires_at > $2)
       returning t.id, t.hash,
         jsonb_build_object('user', $5::text, 'name', t.name, 'group', t.token_group, 'expires_at', t.expires_at) as before
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select $2, $3, $4, 'token.revoke', id, before, jsonb_build_object('revoked_at', $2::timestamptz) from revoked
     )
     select id, pg_notify('${TOKENS_CHANNEL}', encode(hash, 'base64')) from revoked`,
    [token.id, new Date(now), actor.kind, actor.name, token.user],
  );
  const ids = rows.map(({ id }) => id);
  if (!ids.includes(token.id)) {
    throw new OperationError(`${describe(which)} has just been revoked by somebody else`, 'conflict');
  }
  return { ...token, revoked_at: new Date(now), also_revoked: ids.filter((id) => id !== token.id) };
}

/**
 * The one token that is meant: in force before expired, and a newest one before what it replaced.
 * Raises OperationError when there are several; `undefined` when all are revoked.
 */
export function theOne<Token extends TokenSummary>(
  which: WhichToken,
  found: readonly Token[],
  now: number,
): Token | undefined {
  const kept = found.filter(({ revoked_at }) => revoked_at === null);
  const alive = kept.filter((token) => tokenState(token, now) !== 'expired');
  const candidates = alive.length > 0 ? alive : kept;
  const newest = candidates.filter(({ replaced_by }) => !candidates.some(({ id }) => id === replaced_by));
  if (newest.length > 1) {
    const ids = newest.map(({ id, prefix }) => `${id} (${prefix}...)`).join(', ');
    throw new OperationError(`${describe(which)} fits ${newest.length} tokens: ${ids}; name it by its id`, 'conflict');
  }
  return newest[0];
}

/** The error for a token that is not there or not in force any more. */
export function nothingToDo(which: WhichToken, found: readonly TokenSummary[], now: number): OperationError {
  const last = found.at(-1);
  if (last === undefined) {
    return new OperationError(`no token has ${describe(which)}; "appscli tokens list" shows all`, 'missing');
  }
  const state = tokenState(last, now);
  if (state === 'replaced') {
    return new OperationError(`the token ${last.id} is replaced already, by ${last.replaced_by}`, 'conflict');
  }
  const since = (state === 'revoked' ? last.revoked_at : last.expires_at)!.toISOString();
  return new OperationError(`the token ${last.id} is ${state} already, since ${since}`, 'conflict');
}

/** The error for somebody who made too many tokens. */
export function tooManyInForce(max: number, user: string): OperationError {
  const limit = `at most ${max} access tokens in force can be made by oneself, with replaced ones that still work`;
  return new OperationError(`${limit}, and ${user} has as many; revoke one that is not used any more`, 'conflict');
}

/** The error for somebody whose session has been ended while they act. */
export function sessionEnded(): StageError {
  return new StageError('credential_revoked', 'Your session has just been ended. Sign in again.');
}

/** A fresh token with everything that is stored of it. */
export function newToken(): MadeToken & { readonly hash: string } {
  const token = generateToken();
  return { token, id: generateTokenId(), prefix: shownPart(token), hash: hashToken(token) };
}

function describe(which: WhichToken): string {
  return 'id' in which ? `the id "${which.id}"` : `the name "${which.name}" of ${which.user}`;
}

function nameOf(what: string, given: string): string {
  const value = given.trim();
  if (value === '') throw new OperationError(`the ${what} is empty`);
  if (value.length > MAX_CHARS) throw new OperationError(`the ${what} is longer than ${MAX_CHARS} characters`);
  if (!isPrintableLine(value)) {
    throw new OperationError(`the ${what} holds characters that can't be printed`);
  }
  return value;
}
