import { setTimeout } from 'node:timers/promises';
import type { Clock } from '../../contract/services.ts';
import { storable, storableJson } from '../../kit/storable.ts';
import type { Database } from '../../store/database.ts';
import type { Person } from '../provider/admit.ts';
import { countedAddress } from './counted-address.ts';
import type { Marks } from './marks.ts';
import { hashSecret, isRefreshToken, makeRefreshToken } from './opaque.ts';
import { openSuccessor, sealSuccessor } from './sealed.ts';

/** A session that begins or goes on, with the refresh token that goes on with it. */
export interface OpenSession {
  readonly id: string;
  readonly person: Person;
  readonly refresh_token: string;
}

/** A session as people see it. */
export interface SessionSummary {
  readonly id: string;
  readonly kind: 'client' | 'console';
  readonly user: string;
  readonly client: string;
  readonly client_address: string;
  readonly created_at: Date;
  /** When the identity provider was last asked. */
  readonly checked_at: Date;
  /** When it was last seen in use. */
  readonly seen_at: Date | null;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
  readonly revoked_because: string | null;
  /**
   * When a refresh token of it was refused because a newer one is in use, and from which address: one that has not renewed the
   * session since. Somebody may have a copy of the credentials.
   */
  readonly refused_at: Date | null;
  readonly refused_from: string | null;
}

/**
 * What a refresh token is good for. `ready`: for a renewal. `repeated`: it was replaced a moment ago, and this is by what.
 * `replaced`: by one that is in use. `busy`: another renewal of the session is under way.
 */
export type RefreshBegun =
  | { readonly outcome: 'unknown' | 'expired' | 'revoked' | 'busy' }
  | {
      readonly outcome: 'replaced';
      /**
       * Whether this very token was not refused before, or not since the newest session token has expired: who adopts what others
       * stored then has to renew that.
       */
      readonly is_first: boolean;
      readonly session: { readonly id: string; readonly person: Person };
    }
  | { readonly outcome: 'repeated'; readonly session: OpenSession }
  | {
      readonly outcome: 'ready';
      readonly session: { readonly id: string; readonly person: Person; readonly sealed_grant: string };
    };

/** A refresh token, and the address of the client that sent it. */
export interface PresentedToken {
  readonly refresh_token: string;
  readonly client_address: string;
}

const REFRESH_SECONDS = 60;
const TOKEN_SECONDS = 3600;
/** For so long a refresh token that was replaced gives its successor again, as to a second process that had read it before. */
const REPEATED_SECONDS = 30;
/** Clients wait ten seconds for an answer, and some take a 503 for the end of what they were about to do. */
const BUSY_PATIENCE_MS = 6000;
/** Doubled up to ten times as much: whoever sends many at once costs the database little. */
const FIRST_BUSY_POLL_MS = 100;
const MAX_LISTED = 1000;

interface BegunRow {
  readonly outcome: RefreshBegun['outcome'];
  readonly id: string;
  readonly person: Person;
  readonly sealed_grant: string;
  readonly successor: string;
}

/** A refresh token that was used, with what the session goes on with. */
export interface RefreshedSession extends PresentedToken {
  readonly person: Person;
  readonly sealed_grant: string;
}

/** Sessions of people who signed in, and their refresh tokens. */
export type Sessions = ReturnType<typeof createSessions>;

/** Creates the sessions of a database. Everything raises store_unavailable. */
export function createSessions(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  /** Is told after a session was ended, so that its tokens are refused here before anybody is answered. */
  readonly onEnded?: () => Promise<void>;
  /** How long a refresh may take before another with the same token may begin, as after the end of a process. Absent: 60. */
  readonly refresh_seconds?: number;
  /** How long a session token lives. Absent: 3600. */
  readonly token_seconds?: number;
  /** How long a refresh waits for another one of its session. Absent: 6000. */
  readonly busy_patience_ms?: number;
  /** Absent: refresh tokens have no mark. */
  readonly marks?: Marks;
}) {
  const { database, clock, onEnded, refresh_seconds = REFRESH_SECONDS, marks } = options;
  const { busy_patience_ms = BUSY_PATIENCE_MS, token_seconds = TOKEN_SECONDS } = options;
  const now = () => new Date(clock.now());

  const beginOnce = async ({ refresh_token, client_address }: PresentedToken): Promise<RefreshBegun> => {
    const [row] = await database.query<BegunRow>('refresh_begin', 'select * from begin_renewal($1, $2, $3, $4, $5)', [
      hashSecret(refresh_token),
      countedAddress(client_address),
      now(),
      new Date(clock.now() + refresh_seconds * 1000),
      new Date(clock.now() - REPEATED_SECONDS * 1000),
    ]);
    const { outcome, id, person, sealed_grant, successor } = row!;
    if (outcome === 'ready') return { outcome, session: { id, person, sealed_grant } };
    if (outcome === 'replaced') {
      const first = await database.query(
        'refresh_refused',
        `update refresh_tokens t set refused_at = $2 from sessions s
         where t.hash = $1 and s.id = t.session_id and (t.refused_at is null or t.refused_at < s.renewed_at + $3 * interval '1 second'
           and s.renewed_at + $3 * interval '1 second' <= $2) returning t.session_id`,
        [hashSecret(refresh_token), now(), token_seconds],
      );
      return { outcome, is_first: first.length > 0, session: { id, person } };
    }
    if (outcome !== 'repeated') return { outcome };
    return { outcome, session: { id, person, refresh_token: await openSuccessor(successor, refresh_token) } };
  };

  return {
    /**
     * Takes a refresh token for a refresh that must end with `finishRefresh`, `abandonRefresh` or `end` in `refresh_seconds`.
     * Waits a while for another one of the session that is under way.
     */
    async beginRefresh(presented: PresentedToken): Promise<RefreshBegun> {
      if (!isRefreshToken(presented.refresh_token)) return { outcome: 'unknown' };
      let waited_ms = 0;
      for (let poll_ms = FIRST_BUSY_POLL_MS; ; poll_ms = Math.min(poll_ms * 2, FIRST_BUSY_POLL_MS * 10)) {
        const begun = await beginOnce(presented);
        if (begun.outcome !== 'busy' || waited_ms >= busy_patience_ms) return begun;
        // Another replica may be at it, which tells nobody when it is done.
        await setTimeout(poll_ms);
        waited_ms += poll_ms;
      }
    },

    /**
     * Replaces the refresh token, by the same one as before where its client may never have got that. `undefined` when the
     * session was ended meanwhile, or renewed by somebody else after `refresh_seconds`.
     */
    async finishRefresh(session_id: string, refreshed: RefreshedSession): Promise<OpenSession | undefined> {
      const { refresh_token: replaced, client_address, person, sealed_grant } = refreshed;
      const successor = makeRefreshToken(marks);
      const [row] = await database.query<{ successor: string | null }>(
        'refresh_finish',
        'select finish_renewal($1, $2, $3, $4, $5, $6, $7, $8) as successor',
        [
          storable(session_id),
          hashSecret(replaced),
          countedAddress(client_address),
          storableJson(person),
          sealed_grant,
          hashSecret(successor),
          await sealSuccessor(successor, replaced),
          now(),
        ],
      );
      if (row!.successor === null) return undefined;
      return { id: session_id, person, refresh_token: await openSuccessor(row!.successor, replaced) };
    },

    /**
     * Gives the refresh token back unused.
     * @param sealed_grant what to ask the identity provider with next time, where that was replaced meanwhile.
     */
    async abandonRefresh(session_id: string, sealed_grant?: string): Promise<void> {
      await database.query(
        'refresh_abandon',
        'update sessions set refreshing_until = null, sealed_grant = coalesce($2, sealed_grant) where id = $1 and revoked_at is null',
        [storable(session_id), sealed_grant ?? null],
      );
    },

    /** The session of a refresh token, used or not. */
    async sessionOf(refresh_token: string): Promise<string | undefined> {
      if (!isRefreshToken(refresh_token)) return undefined;
      const [row] = await database.query<{ session_id: string }>(
        'refresh_session',
        'select session_id from refresh_tokens where hash = $1',
        [hashSecret(refresh_token)],
      );
      return row?.session_id;
    },

    /**
     * Ends a session; every replica refuses its tokens within a second.
     * @param by who does, for the record of changes: its own person, or the gateway where nothing is said.
     * @returns whether there was one to end.
     */
    async end(session_id: string, because: string, by: 'person' | 'gateway' = 'gateway'): Promise<boolean> {
      const [row] = await database.query<{ ended: boolean }>(
        'session_end',
        'select end_session($1, $2, $3, $4, $5) as ended',
        [storable(session_id), storable(because), by, by === 'person' ? null : 'sign-in', now()],
      );
      if (row!.ended) await onEnded?.();
      return row!.ended;
    },

    /** Newest first; ended ones only where asked for. */
    list({ user, ended = false }: { readonly user?: string; readonly ended?: boolean }): Promise<SessionSummary[]> {
      return database.query<SessionSummary>(
        'session_list',
        `select s.id, s.kind, p.email as "user", s.client, s.client_address, s.created_at, s.checked_at,
           coalesce((select max(c.seen_at) from console_sessions c where c.session_id = s.id), s.seen_at) as seen_at, s.expires_at,
           s.revoked_at, s.revoked_because, s.refused_at, s.refused_from
         from sessions s join principals p on p.id = s.principal_id
         where ($1::text is null or p.email = $1) and ($2 or s.revoked_at is null and s.expires_at > $3)
         order by s.created_at desc, s.id limit ${MAX_LISTED}`,
        [user === undefined ? null : storable(user.toLowerCase()), ended, now()],
      );
    },
  };
}
