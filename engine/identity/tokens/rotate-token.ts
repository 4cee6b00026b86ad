import { actorLabel, type Changing } from '../../audit/admin-changes.ts';
import { OperationError } from '../../contract/operation-error.ts';
import { TOKENS_CHANNEL } from './token-format.ts';
import {
  findTokens,
  type KnownToken,
  type MadeToken,
  newToken,
  nothingToDo,
  sessionEnded,
  theOne,
  tokenState,
  tooManyInForce,
  type WhichToken,
} from './tokens.ts';

/** How long a replaced token goes on working unless told otherwise: a day to bring the new one everywhere. */
export const DEFAULT_OVERLAP_SECONDS = 86_400;
/** The longest two tokens may live side by side. */
export const MAX_OVERLAP_SECONDS = 30 * 86_400;

/** How a token is replaced. */
export interface Rotation {
  /** How long the old token goes on working; 0 ends it at once. */
  readonly overlap_seconds?: number | undefined;
  /** End of the new token; `null`: none. Absent: the end the old one had. */
  readonly expires_at?: Date | null | undefined;
  /** How many tokens in force that its owner made there may be before, when this is one of them. Absent: any number. */
  readonly max_self_service?: number;
}

/** A token that replaces another. */
export interface RotatedToken extends MadeToken {
  readonly expires_at: Date | null;
  /** The replaced token, with its new end. */
  readonly replaced: KnownToken;
}

/**
 * Replaces a token by a new one with the same owner, group, name, team and project; the old one works on for the overlap,
 * at most until its own end, and comes first in lists. Raises OperationError when it is not in force or
 * replaced already, or when there are too many, credential_revoked when the session has ended, store_unavailable.
 */
export async function rotateToken(
  { database, clock, actor, session_id }: Changing,
  which: WhichToken,
  { overlap_seconds = DEFAULT_OVERLAP_SECONDS, expires_at, max_self_service }: Rotation = {},
): Promise<RotatedToken> {
  if (!Number.isInteger(overlap_seconds) || overlap_seconds < 0 || overlap_seconds > MAX_OVERLAP_SECONDS) {
    throw new OperationError(
      `the overlap must be a whole number of seconds from 0 to ${MAX_OVERLAP_SECONDS} (30 days)`,
    );
  }
  const now = clock.now();
  const found = await findTokens(database, which);
  const token = theOne(which, found, now);
  if (token === undefined || tokenState(token, now) !== 'active') {
    throw nothingToDo(which, token === undefined ? found : [token], now);
  }
  const made = newToken();
  const [row] = await database.query<{
    alive: boolean;
    allowed: boolean | null;
    new_end: Date | null;
    old_end: Date | null;
  }>(
    'token_rotate',
    // The owner before the session, as everything that takes both.
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
      made.hash,
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
    throw new OperationError(`the token ${token.id} has just been replaced or revoked by somebody else`, 'conflict');
  }
  const replaced = { ...token, expires_at: old_end, replaced_by: made.id };
  return { token: made.token, id: made.id, prefix: made.prefix, expires_at: new_end, replaced };
}
