import type { AccessTokens, Clock, Log } from '../api.ts';
import { StageError } from '../errors.ts';
import { openAccessTokens } from '../services/access-tokens.ts';
import type { Database } from '../services/database.ts';
import { generateToken, generateTokenId, hashToken } from '../services/token-format.ts';

/** Whom a token is made for. */
export interface TokenWish {
  readonly user: string;
  readonly group: string;
  readonly team?: string | undefined;
  readonly project?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expires_at?: number | undefined;
  readonly revoked_at?: number | undefined;
}

/** Access tokens that live as long as their process; what verifies them is the gateway's own code. */
export interface MemoryTokens extends AccessTokens {
  /** Makes a token and returns its text. */
  add(wish: TokenWish): string;
}

/** Opens an empty set of access tokens. While `isAway()` says so, tokens that were not seen before can't be verified. */
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
  const { verify } = openAccessTokens({ database: table, clock, log, every: () => () => {} });
  return {
    verify,
    add({ user, group, team, project, expires_at, revoked_at }) {
      const token = generateToken();
      const hash = hashToken(token);
      const email = user.toLowerCase();
      rows.set(hash, {
        hash,
        id: generateTokenId(),
        name: 'test',
        token_group: group,
        team: team ?? null,
        project: project ?? null,
        expires_at: expires_at === undefined ? null : new Date(expires_at),
        revoked_at: revoked_at === undefined ? null : new Date(revoked_at),
        principal_id: `user:${email}`,
        email,
      });
      return token;
    },
  };
}
