import { randomUUID } from 'node:crypto';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Clock, Log, Principal } from '../../contract/services.ts';
import { AccessTokens } from '../../identity/tokens/access-tokens.ts';
import { generateToken, generateTokenId, hashToken } from '../../identity/tokens/token-format.ts';
import type { Database } from '../../store/database.ts';

/** Whom a token is made for. */
export interface TokenWish {
  /** Id of the token or session; a new one where absent. */
  readonly id?: string;
  readonly user: string;
  /** Of the token; `test` where absent. */
  readonly name?: string | undefined;
  readonly group: string;
  /** Groups of the identity provider. */
  readonly groups?: readonly string[] | undefined;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expires_at?: number | undefined;
  readonly revoked_at?: number | undefined;
}

/** Who signs in. */
export interface SessionWish extends Omit<TokenWish, 'group' | 'name'> {
  readonly group: string | undefined;
  readonly roles: readonly string[];
}

/** Credentials that live as long as their process; what verifies access tokens is the gateway's own code. */
export interface MemoryTokens extends BearerTokens {
  /** Makes an access token and returns its text. */
  add(wish: TokenWish): string;
  /** Lets somebody sign in and returns the session token, which is none that a gateway would make. */
  signIn(wish: SessionWish): string;
}

/** Opens an empty set of credentials. While `isAway()` says so, tokens that were not seen before can't be verified. */
export function openMemoryTokens(options: {
  readonly clock: Clock;
  readonly log: Log;
  readonly isAway: () => boolean;
}): MemoryTokens {
  const { clock, log, isAway } = options;
  const rows = new Map<string, object>();
  const table: Pick<Database, 'query' | 'listen'> = {
    async query<Row>(statement: string, _text: string, [hashes]: readonly unknown[]): Promise<Row[]> {
      if (isAway()) throw new StageError('store_unavailable', 'The test says that the database is away.');
      if (statement !== 'token_lookup') return [];
      return (hashes as string[]).flatMap((hash) => rows.get(hash) ?? []) as Row[];
    },
    async listen() {},
  };
  const access = new AccessTokens({ database: table, clock, log, every: () => () => {} });
  const sessions = new Map<string, () => Principal>();
  return {
    verify: (token) => sessions.get(token)?.() ?? access.verify(token),
    signIn(wish) {
      const token = `session-${randomUUID()}`;
      const principal = principalOf(wish);
      sessions.set(token, () => {
        const now = clock.now();
        if (now >= (wish.revoked_at ?? now + 1)) throw new StageError('credential_revoked', 'This session was ended.');
        if (now >= (wish.expires_at ?? now + 1))
          throw new StageError('credential_expired', 'This session has expired.');
        return principal;
      });
      return token;
    },
    add({ id = generateTokenId(), user, name = 'test', group, groups = [], team, project, expires_at, revoked_at }) {
      const token = generateToken();
      const hash = hashToken(token);
      const email = user.toLowerCase();
      rows.set(hash, {
        hash,
        id,
        name,
        token_group: group,
        team: team ?? null,
        project: project ?? null,
        expires_at: expires_at === undefined ? null : new Date(expires_at),
        revoked_at: revoked_at === undefined ? null : new Date(revoked_at),
        principal_id: `user:${email}`,
        email,
        groups,
      });
      return token;
    },
  };
}

function principalOf({ id = 'ses_test', user, group, groups = [], roles, team, project }: SessionWish): Principal {
  const email = user.toLowerCase();
  const token = Object.freeze({ id, name: 'sign-in', group });
  const lists = { groups: Object.freeze([...groups]), roles: Object.freeze([...roles]) };
  return Object.freeze({ id: `user:${email}`, email, kind: 'session', ...lists, team, project, token });
}
