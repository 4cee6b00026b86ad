import type { Database } from './database.ts';
import { generateToken, generateTokenId, hashToken, shownPart, TOKENS_CHANNEL } from './token-format.ts';

export { type OpenAccessTokens, openAccessTokens } from './access-tokens.ts';

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
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
}

/** Why a token can't be made or revoked: a sentence for the administrator that says what to do. */
export class TokenError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'TokenError';
  }
}

const MAX_CHARS = 254;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for.
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;

const SUMMARY = `t.id, t.prefix, p.email as "user", t.token_group as "group", t.name, t.team, t.project,
  t.created_at, t.expires_at, t.last_used_at, t.revoked_at`;

/** Makes an access token. The returned `token` is stored nowhere. Raises TokenError, store_unavailable. */
export async function createToken(
  database: Pick<Database, 'query'>,
  wanted: NewToken,
): Promise<{ readonly token: string; readonly id: string; readonly prefix: string }> {
  const user = nameOf('user', wanted.user).toLowerCase();
  if (/\s/.test(user)) throw new TokenError(`the user "${user}" holds a space; expected an e-mail address`);
  const token = generateToken();
  const id = generateTokenId();
  const hash = hashToken(token);
  await database.query(
    'token_create',
    `with owner as (
       insert into principals (id, email) values ($1, $2) on conflict (id) do update set email = excluded.email returning id
     ), made as (
       insert into access_tokens (id, hash, prefix, principal_id, token_group, name, team, project, expires_at)
       select $3, decode($4, 'base64'), $5, owner.id, $6, $7, $8, $9, $10 from owner
     )
     select pg_notify($11, $4)`,
    [
      `user:${user}`,
      user,
      id,
      hash,
      shownPart(token),
      nameOf('group', wanted.group),
      nameOf('name', wanted.name),
      wanted.team === undefined ? null : nameOf('team', wanted.team),
      wanted.project === undefined ? null : nameOf('project', wanted.project),
      wanted.expires_at ?? null,
      TOKENS_CHANNEL,
    ],
  );
  return { token, id, prefix: shownPart(token) };
}

/** All tokens, or those of one user; the newest last. Raises store_unavailable. */
export function listTokens(
  database: Pick<Database, 'query'>,
  only: { readonly user?: string | undefined } = {},
): Promise<TokenSummary[]> {
  return database.query<TokenSummary>(
    'token_list',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where $1::text is null or p.email = $1 order by t.created_at, t.id`,
    [only.user?.toLowerCase() ?? null],
  );
}

/**
 * Revokes a token, named by its id or by its name and user; every gateway refuses it within a second.
 * Raises TokenError when there is no such token, when it is revoked already, or when the name fits several.
 */
export async function revokeToken(
  database: Pick<Database, 'query'>,
  which: { readonly id: string } | { readonly user: string; readonly name: string },
): Promise<TokenSummary> {
  const found = await findTokens(database, which);
  const active = found.filter(({ revoked_at }) => revoked_at === null);
  if (active.length > 1) {
    const ids = active.map(({ id, prefix }) => `${id} (${prefix}...)`).join(', ');
    throw new TokenError(`${describe(which)} fits ${active.length} tokens: ${ids}; revoke by id`);
  }
  const [token] = active;
  if (token === undefined) throw new TokenError(explainNothingToRevoke(which, found));
  const [row] = await database.query<{ revoked_at: Date }>(
    'token_revoke',
    `with revoked as (
       update access_tokens set revoked_at = now() where id = $1 and revoked_at is null returning hash, revoked_at
     )
     select revoked_at, pg_notify($2, encode(hash, 'base64')) from revoked`,
    [token.id, TOKENS_CHANNEL],
  );
  if (row === undefined) throw new TokenError(`${describe(which)} has just been revoked by somebody else`);
  return { ...token, revoked_at: row.revoked_at };
}

function findTokens(
  database: Pick<Database, 'query'>,
  which: { readonly id: string } | { readonly user: string; readonly name: string },
): Promise<TokenSummary[]> {
  const [id, user, name] = 'id' in which ? [which.id, null, null] : [null, which.user.toLowerCase(), which.name];
  return database.query<TokenSummary>(
    'token_find',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where t.id = $1 or p.email = $2 and t.name = $3 order by t.created_at, t.id`,
    [id, user, name],
  );
}

function describe(which: { readonly id: string } | { readonly user: string; readonly name: string }): string {
  return 'id' in which ? `the id "${which.id}"` : `the name "${which.name}" of ${which.user}`;
}

function explainNothingToRevoke(which: Parameters<typeof describe>[0], found: readonly TokenSummary[]): string {
  const last = found.at(-1);
  if (last !== undefined) return `the token ${last.id} is revoked already, since ${last.revoked_at!.toISOString()}`;
  return `no token has ${describe(which)}; "appscli tokens list" shows all`;
}

function nameOf(what: string, given: string): string {
  const value = given.trim();
  if (value === '') throw new TokenError(`the ${what} is empty`);
  if (value.length > MAX_CHARS) throw new TokenError(`the ${what} is longer than ${MAX_CHARS} characters`);
  if (CONTROL_CHARACTER.test(value) || !value.isWellFormed()) {
    throw new TokenError(`the ${what} holds characters that can't be printed`);
  }
  return value;
}
