import { StageError } from '../../../base/contract/errors.ts';
import { OperationError } from '../../../base/contract/operation-error.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import { createGroupCommit } from '../../../base/kit/group-commit.ts';
import type { Database } from '../../../base/store/database.ts';
import { actorLabel, type Changing } from '../../audit/index.ts';
import { hashToken, isWellFormedServiceToken, newToken } from './token-format.ts';
import { sessionEnded } from './tokens.ts';

export interface ServiceToken {
  readonly id: string;
  readonly prefix: string;
  readonly name: string;
  readonly scopes: readonly ServiceScope[];
  /** E-mail address of the responsible administrator; `null` for a token made at a command line. */
  readonly owner: string | null;
  readonly created_at: Date;
  readonly created_by: string;
  readonly expires_at: Date;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
  readonly replaced_by: string | null;
  /** When the gateway noticed that the owner is no longer an administrator. */
  readonly unowned_since: Date | null;
}

/** `unowned`: its owner is no longer an administrator; it works for another week, then it is `suspended`. */
type ServiceTokenState = 'active' | 'replaced' | 'unowned' | 'suspended' | 'revoked' | 'expired';

export type ShownServiceToken = ServiceToken & { readonly state: ServiceTokenState };

const DAY_MS = 86_400_000;
/** Default and longest lifetime of a token. */
const DEFAULT_DAYS = 90;
export const MAX_SERVICE_TOKEN_DAYS = 366;
const UNOWNED_DAYS = 7;
const MAX_IN_FORCE = 200;

const SERVICE_TOKEN_COLUMNS = `t.id, t.prefix, t.name, t.scopes, o.email as owner, t.created_at, t.created_by, t.expires_at, t.last_used_at,
  t.revoked_at, t.replaced_by, t.unowned_since`;
const SERVICE_TOKENS_FROM = 'service_tokens t left join principals o on o.id = t.owner_id';

/** The state of a service token at a moment, in milliseconds since the epoch. */
export function showServiceToken(token: ServiceToken, now: number): ShownServiceToken {
  const { revoked_at, expires_at, unowned_since, replaced_by } = token;
  const stateOf = (): ServiceTokenState => {
    if (revoked_at !== null) return 'revoked';
    if (expires_at.getTime() <= now) return 'expired';
    if (unowned_since !== null) return now < unowned_since.getTime() + UNOWNED_DAYS * DAY_MS ? 'unowned' : 'suspended';
    return replaced_by === null ? 'active' : 'replaced';
  };
  return { ...token, state: stateOf() };
}

interface NewServiceToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expires_at?: Date | undefined;
}

/** Creates a service token, owned by the person who creates it. Raises OperationError, credential_revoked, store_unavailable. */
export async function createServiceToken(
  by: Changing,
  { name, scopes, expires_at }: NewServiceToken,
): Promise<{ readonly token: string; readonly id: string }> {
  const made = newToken('service');
  const [row] = await by.database.query<{ id: string | null; alive: boolean }>(
    'service_token_create',
    `with alive as (select where $11::text is null or exists (select from sessions s where s.id = $11 and s.revoked_at is null)
     ), made as (
       insert into service_tokens (id, hash, prefix, name, scopes, owner_id, created_at, created_by, expires_at)
       select $1, decode($2, 'base64'), $3, $4, $5, $6, $7, $8, $9 from alive
       where ${MAX_IN_FORCE} > (select count(*) from service_tokens where revoked_at is null and expires_at > $7)
       returning id, name, scopes, expires_at
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, after)
       select $7, $10, $12, 'service_token.create', id,
         jsonb_build_object('name', name, 'scopes', scopes, 'expires_at', expires_at) from made
     )
     select (select id from made) as id, exists (select from alive) as alive`,
    [
      made.id,
      made.hash,
      made.prefix,
      name,
      SERVICE_SCOPES.filter((scope) => scopes.includes(scope)),
      ownerOf(by),
      new Date(by.clock.now()),
      actorLabel(by.actor),
      expires_at ?? new Date(by.clock.now() + DEFAULT_DAYS * DAY_MS),
      by.actor.kind,
      by.session_id ?? null,
      by.actor.name,
    ],
  );
  if (!row!.alive) throw sessionEnded();
  if (row!.id === null)
    throw new OperationError(`there are already ${MAX_IN_FORCE} valid service tokens, the maximum`, 'conflict');
  return { token: made.token, id: made.id };
}

/** Lists service tokens, the newest last; with an id that one. Raises store_unavailable. */
export function listServiceTokens(database: Pick<Database, 'query'>, id?: string): Promise<ServiceToken[]> {
  const text = `select ${SERVICE_TOKEN_COLUMNS} from ${SERVICE_TOKENS_FROM} where ($1::text is null or t.id = $1) order by t.created_at, t.id`;
  return database.query<ServiceToken>('service_token_list', text, [id ?? null]);
}

/** Revokes a service token at once. Raises OperationError if none is in force, store_unavailable. */
export async function revokeServiceToken({ database, clock, actor }: Changing, id: string): Promise<void> {
  const rows = await database.query<object>(
    'service_token_revoke',
    `with ended as (
       update service_tokens set revoked_at = $2 where id = $1 and revoked_at is null and expires_at > $2
       returning id, name, scopes, expires_at
     )
     insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
     select $2, $3, $4, 'service_token.revoke', id,
       jsonb_build_object('name', name, 'scopes', scopes, 'expires_at', expires_at),
       jsonb_build_object('revoked_at', $2::timestamptz) from ended returning 1`,
    [id, new Date(clock.now()), actor.kind, actor.name],
  );
  if (rows.length === 0) throw await notInForce(database, id);
}

/** Rotates a service token; the author owns the new one. Raises OperationError unless it is in force, store_unavailable. */
export async function rotateServiceToken(
  by: Changing,
  id: string,
  { overlap_seconds, expires_at }: { readonly overlap_seconds: number; readonly expires_at?: Date | undefined },
): Promise<{ readonly token: string; readonly id: string }> {
  const made = newToken('service');
  const now = by.clock.now();
  const rows = await by.database.query<object>(
    'service_token_rotate',
    `with old as (
       select * from service_tokens where id = $1 and revoked_at is null and expires_at > $2 and replaced_by is null for update
     ), made as (
       insert into service_tokens (id, hash, prefix, name, scopes, owner_id, created_at, created_by, expires_at)
       select $3, decode($4, 'base64'), $5, name, scopes, $6, $2, $7, $8 from old returning id, name, scopes, expires_at
     ), replaced as (
       update service_tokens t set replaced_by = $3, expires_at = least(old.expires_at, $9) from old where t.id = old.id
       returning t.id, t.expires_at, old.expires_at as end_before
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select $2, $10, $11, 'service_token.rotate', id, jsonb_build_object('expires_at', end_before),
         jsonb_build_object('expires_at', expires_at, 'replaced_by', $3::text) from replaced
       union all
       select $2, $10, $11, 'service_token.create', id, null,
         jsonb_build_object('name', name, 'scopes', scopes, 'expires_at', expires_at, 'replaces', $1::text) from made
     )
     select 1 from made`,
    [
      id,
      new Date(now),
      made.id,
      made.hash,
      made.prefix,
      ownerOf(by),
      actorLabel(by.actor),
      expires_at ?? new Date(now + DEFAULT_DAYS * DAY_MS),
      new Date(now + overlap_seconds * 1000),
      by.actor.kind,
      by.actor.name,
    ],
  );
  if (rows.length === 0) throw await notInForce(by.database, id);
  return { token: made.token, id: made.id };
}

/** Lists service tokens in force with an owner. Raises store_unavailable. */
export async function serviceTokensOf(
  { database, clock }: Pick<Changing, 'database' | 'clock'>,
  user: string,
): Promise<Pick<ServiceToken, 'id' | 'name'>[]> {
  const now = clock.now();
  const all = await listServiceTokens(database);
  return all
    .filter(({ owner }) => owner === user.toLowerCase())
    .map((token) => showServiceToken(token, now))
    .filter(({ state }) => state !== 'revoked' && state !== 'expired' && state !== 'suspended')
    .map(({ id, name }) => ({ id, name }));
}

/** Records which service tokens lost their owner as an administrator, and which have one again. */
export async function noteOwners(
  { database, clock, log }: Pick<Changing, 'database' | 'clock'> & { readonly log: Log },
  { admin_groups, days }: { readonly admin_groups: readonly string[]; readonly days: number },
): Promise<void> {
  const changed = await database.query<{ id: string; name: string; owner: string; unowned_since: Date | null }>(
    'service_token_owners',
    `update service_tokens t set unowned_since = case when o.owns then null else $1::timestamptz end
     from (
       select p.id, p.email, p.blocked_at is null and p.groups && $2::text[]
         and coalesce(greatest(p.signed_in_at + $3 * interval '1 day', p.suspension_put_off_until) > $1, false) as owns
       from principals p
     ) o
     where o.id = t.owner_id and t.revoked_at is null and t.expires_at > $1 and o.owns = (t.unowned_since is not null)
     returning t.id, t.name, o.email as owner, t.unowned_since`,
    [new Date(clock.now()), admin_groups, days],
  );
  for (const { unowned_since, ...token } of changed) {
    if (unowned_since !== null)
      log.warn(token, 'the owner of a service token is no longer an administrator; it is suspended in 7 days');
  }
}

function ownerOf({ actor }: Changing): string | null {
  return actor.kind === 'person' ? `user:${actor.name}` : null;
}

async function notInForce(database: Pick<Database, 'query'>, id: string): Promise<OperationError> {
  const [token] = await listServiceTokens(database, id);
  if (token === undefined) {
    return new OperationError(
      `no service token has the id "${id}"; "appscli service-tokens list" shows all`,
      'missing',
    );
  }
  return new OperationError(`the service token ${id} has ended or was already replaced`, 'conflict');
}

/** Scopes of service tokens: read or write access to a part of the admin API. */
export const SERVICE_SCOPES = [
  'tokens:read',
  'tokens:write',
  'sessions:read',
  'sessions:write',
  'people:read',
  'people:write',
  'limits:read',
  'limits:write',
  'upstreams:read',
  'upstreams:write',
  'usage:read',
  'requests:read',
  'changes:read',
] as const;

export type ServiceScope = (typeof SERVICE_SCOPES)[number];

/** Raises credential_invalid, credential_expired, credential_revoked, store_unavailable. */
export type VerifyServiceToken = (text: string) => Promise<ServiceToken>;

const MAX_BATCH = 100;

/** A lookup each time, by at most two concurrent statements, so that invented tokens do not delay others. */
export function createServiceTokenVerifier({
  database,
  clock,
}: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now'>;
}): VerifyServiceToken {
  const lookups = createGroupCommit<string, ServiceToken | undefined>({
    lanes: 2,
    max_items: MAX_BATCH,
    isolates: () => false,
    async execute(hashes) {
      const rows = await database.query<ServiceToken & { readonly hash: string }>(
        'service_token_lookup',
        // Skips rows that another replica updates right now.
        `with asked as (select array(select decode(h, 'base64') from unnest($1::text[]) h) as hashes), used as (
           update service_tokens set last_used_at = $2 where id in (
             select s.id from service_tokens s, asked where s.hash = any (asked.hashes)
               and (s.last_used_at is null or s.last_used_at < $2::timestamptz - interval '1 minute')
             for no key update of s skip locked
           )
         )
         select encode(t.hash, 'base64') as hash, ${SERVICE_TOKEN_COLUMNS} from ${SERVICE_TOKENS_FROM}, asked
         where t.hash = any (asked.hashes)`,
        [hashes, new Date(clock.now())],
      );
      const by_hash = new Map(rows.map(({ hash, ...token }) => [hash, token]));
      return hashes.map((hash) => by_hash.get(hash));
    },
  });
  return async (text) => {
    if (!isWellFormedServiceToken(text)) {
      throw new StageError('credential_invalid', 'The service token is malformed. Copy the whole token again.');
    }
    const token = await lookups.run(hashToken(text));
    if (token === undefined) throw new StageError('credential_invalid', UNKNOWN);
    requireInForce(token, clock.now());
    return token;
  };
}

const UNKNOWN =
  'The service token is unknown. Check that it is for this gateway, or ask an administrator for a new one.';
const ASK_FOR_NEW = 'Ask an administrator for a new one.';

function requireInForce(token: ServiceToken, now: number): void {
  const { name, id, owner } = token;
  const called = `The service token "${name}" (${id})`;
  switch (showServiceToken(token, now).state) {
    case 'revoked':
      throw new StageError(
        'credential_revoked',
        `${called} was revoked on ${token.revoked_at?.toISOString()}. ${ASK_FOR_NEW}`,
      );
    case 'expired':
      throw new StageError(
        'credential_expired',
        `${called} expired on ${token.expires_at.toISOString()}. ${ASK_FOR_NEW}`,
      );
    case 'suspended':
      throw new StageError(
        'credential_revoked',
        `${called} is suspended: its owner ${owner} is no longer an administrator. An administrator can take it over with "appscli service-tokens rotate ${id}".`,
      );
    default:
  }
}
