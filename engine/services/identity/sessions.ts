import type { Clock } from '../../api.ts';
import type { Database } from '../database.ts';
import { storable, storableJson } from '../storable.ts';
import type { Person } from './admission.ts';
import type { Marks } from './marks.ts';
import { hashSecret, isRefreshToken, makeRefreshToken } from './opaque.ts';

/** A session that begins or goes on, with the refresh token that goes on with it. */
export interface OpenSession {
  readonly id: string;
  readonly person: Person;
  readonly refresh_token: string;
}

/** A session as people see it. */
export interface SessionSummary {
  readonly id: string;
  readonly user: string;
  readonly client: string;
  readonly client_address: string;
  readonly created_at: Date;
  /** When the identity provider was last asked. */
  readonly checked_at: Date;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
  readonly revoked_because: string | null;
}

/**
 * What a refresh token is good for. `reused`: it was used before, so the session has just been ended. `busy`: another
 * refresh of the session is under way.
 */
export type RefreshBegun =
  | { readonly outcome: 'unknown' | 'expired' | 'revoked' | 'reused' | 'busy' }
  | {
      readonly outcome: 'ready';
      readonly session: { readonly id: string; readonly person: Person; readonly sealed_grant: string };
    };

/** Sessions of people who signed in, and their refresh tokens. Everything raises store_unavailable. */
export interface Sessions {
  /** Takes a refresh token for a refresh that must end with `finishRefresh`, `abandonRefresh` or `end` in `refresh_seconds`. */
  beginRefresh(refresh_token: string): Promise<RefreshBegun>;
  /** Replaces the refresh token by a new one. `undefined` when the session was ended meanwhile. */
  finishRefresh(
    session_id: string,
    refreshed: { readonly person: Person; readonly sealed_grant: string },
  ): Promise<OpenSession | undefined>;
  /**
   * Gives the refresh token back unused.
   * @param sealed_grant what to ask the identity provider with next time, where that was replaced meanwhile.
   */
  abandonRefresh(session_id: string, sealed_grant?: string): Promise<void>;
  /** The session of a refresh token, used or not. */
  sessionOf(refresh_token: string): Promise<string | undefined>;
  /**
   * Ends a session; every replica refuses its tokens within a second.
   * @param by who does, for the record of changes: its own person, or the gateway where nothing is said.
   * @returns whether there was one to end.
   */
  end(session_id: string, because: string, by?: 'person' | 'gateway'): Promise<boolean>;
  /** Newest first; ended ones only where asked for. */
  list(only: { readonly user?: string; readonly ended?: boolean }): Promise<SessionSummary[]>;
}

const REFRESH_SECONDS = 60;
const MAX_LISTED = 1000;

interface BegunRow {
  readonly outcome: RefreshBegun['outcome'];
  readonly id: string;
  readonly person: Person;
  readonly sealed_grant: string;
}

/** Creates the sessions of a database. */
export function createSessions(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  /** Is told after a session was ended, so that its tokens are refused here before anybody is answered. */
  readonly onEnded?: () => Promise<void>;
  /** How long a refresh may take before another with the same token may begin, as after the end of a process. Absent: 60. */
  readonly refresh_seconds?: number;
  /** Absent: refresh tokens have no mark. */
  readonly marks?: Marks;
}): Sessions {
  const { database, clock, onEnded, refresh_seconds = REFRESH_SECONDS, marks } = options;
  const now = () => new Date(clock.now());
  return {
    async beginRefresh(refresh_token) {
      if (!isRefreshToken(refresh_token)) return { outcome: 'unknown' };
      const [row] = await database.query<BegunRow>('refresh_begin', 'select * from begin_refresh($1, $2, $3)', [
        hashSecret(refresh_token),
        now(),
        new Date(clock.now() + refresh_seconds * 1000),
      ]);
      const { outcome, ...session } = row!;
      if (outcome === 'reused') await onEnded?.();
      return outcome === 'ready' ? { outcome, session } : { outcome };
    },

    async finishRefresh(session_id, { person, sealed_grant }) {
      const refresh_token = makeRefreshToken(marks);
      const [row] = await database.query<{ finished: boolean }>(
        'refresh_finish',
        'select finish_refresh($1, $2, $3, $4, $5) as finished',
        [storable(session_id), storableJson(person), sealed_grant, hashSecret(refresh_token), now()],
      );
      return row!.finished ? { id: session_id, person, refresh_token } : undefined;
    },

    async abandonRefresh(session_id, sealed_grant) {
      await database.query(
        'refresh_abandon',
        'update sessions set refreshing_until = null, sealed_grant = coalesce($2, sealed_grant) where id = $1 and revoked_at is null',
        [storable(session_id), sealed_grant ?? null],
      );
    },

    async sessionOf(refresh_token) {
      if (!isRefreshToken(refresh_token)) return undefined;
      const [row] = await database.query<{ session_id: string }>(
        'refresh_session',
        'select session_id from refresh_tokens where hash = $1',
        [hashSecret(refresh_token)],
      );
      return row?.session_id;
    },

    async end(session_id, because, by = 'gateway') {
      const [row] = await database.query<{ ended: boolean }>(
        'session_end',
        'select end_session($1, $2, $3, $4, $5) as ended',
        [storable(session_id), storable(because), by, by === 'person' ? null : 'sign-in', now()],
      );
      if (row!.ended) await onEnded?.();
      return row!.ended;
    },

    list({ user, ended = false }) {
      return database.query<SessionSummary>(
        'session_list',
        `select s.id, p.email as "user", s.client, s.client_address, s.created_at, s.checked_at, s.expires_at,
           s.revoked_at, s.revoked_because
         from sessions s join principals p on p.id = s.principal_id
         where ($1::text is null or p.email = $1) and ($2 or s.revoked_at is null and s.expires_at > $3)
         order by s.created_at desc, s.id limit ${MAX_LISTED}`,
        [user === undefined ? null : storable(user.toLowerCase()), ended, now()],
      );
    },
  };
}
