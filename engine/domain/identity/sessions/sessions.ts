import { setTimeout } from 'node:timers/promises';
import { StageError } from '../../../base/contract/errors.ts';
import { everyInBackground } from '../../../base/kit/clock.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import { openWriteBehind } from '../../../base/kit/write-behind.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Background } from '../background.ts';
import type { Person } from '../provider/admit.ts';
import { countedAddress } from './attempt-limits.ts';
import {
  hashSecret,
  isRefreshToken,
  makeRefreshToken,
  openSuccessor,
  type SecretTags,
  sealSuccessor,
} from './secrets.ts';

/** A new or renewed session, with its refresh token. */
export interface OpenSession {
  readonly id: string;
  readonly person: Person;
  readonly refresh_token: string;
}

export interface SessionSummary {
  readonly id: string;
  readonly kind: 'client' | 'console';
  readonly user: string;
  readonly client: string;
  readonly client_address: string;
  readonly created_at: Date;
  readonly checked_at: Date;
  readonly seen_at: Date | null;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
  readonly revoked_because: string | null;
  /** A replaced refresh token was rejected, and its address has not renewed since: it may have been copied. */
  readonly refused_at: Date | null;
  readonly refused_from: string | null;
}

/** A session that is locked for a renewal: most providers treat a second use of its grant as theft. */
export interface TakenSession {
  readonly id: string;
  readonly person: Person;
  readonly sealed_grant: string;
}

/**
 * State of a refresh token. `ready`: for a renewal. `repeated`: replaced a moment ago, with its successor. `replaced`: its successor is
 * in use. `busy`: another renewal of the session is in progress.
 */
export type RefreshBegun =
  | { readonly outcome: 'unknown' | 'expired' | 'revoked' | 'busy' }
  | {
      readonly outcome: 'replaced';
      /** The first since the newest session token expired: a client that adopts credentials then has to renew them. */
      readonly is_first: boolean;
      readonly session: Pick<TakenSession, 'id' | 'person'>;
    }
  | { readonly outcome: 'repeated'; readonly session: OpenSession }
  | { readonly outcome: 'ready'; readonly session: TakenSession };

/** A refresh token, and the address of the client that sent it. */
export interface PresentedToken {
  readonly refresh_token: string;
  readonly client_address: string;
}

/** Grace period in which a replaced refresh token returns its successor, as for a second process of the client. */
const REPEATED_SECONDS = 30;
/** Longest wait for another renewal: clients wait ten seconds, and some give up on a 503. */
const BUSY_TIMEOUT_MS = 6000;
/** First interval of the exponential backoff, up to ten times as long: limits the load of concurrent renewals. */
const FIRST_BUSY_POLL_MS = 100;
const MAX_LISTED = 1000;

/** A used refresh token, with the renewed session. */
export type RefreshedSession = PresentedToken & Pick<TakenSession, 'person' | 'sealed_grant'>;

export type Sessions = ReturnType<typeof createSessions>;

/** Creates the sessions of a database. All functions raise store_unavailable. */
export function createSessions(
  options: Pick<Background, 'database' | 'clock'> & {
    /** Called after a session ended: resolves when this process rejects its tokens. */
    readonly onEnded?: () => Promise<void>;
    /** Longest renewal, after which another one may begin, as after a crash. Absent: 60. */
    readonly refresh_seconds?: number;
    readonly token_seconds?: number;
    /** Longest wait for another renewal of the session. Absent: 6000. */
    readonly busy_timeout_ms?: number;
    readonly tags?: SecretTags;
  },
) {
  const { database, clock, onEnded, refresh_seconds = 60, token_seconds = 3600, tags } = options;
  const { busy_timeout_ms = BUSY_TIMEOUT_MS } = options;
  const now = () => new Date(clock.now());

  const beginOnce = async ({ refresh_token, client_address }: PresentedToken): Promise<RefreshBegun> => {
    const [row] = await database.query<TakenSession & Pick<RefreshBegun, 'outcome'> & { successor: string }>(
      'refresh_begin',
      'select * from begin_renewal($1, $2, $3, $4, $5)',
      [
        hashSecret(refresh_token),
        countedAddress(client_address),
        now(),
        new Date(clock.now() + refresh_seconds * 1000),
        new Date(clock.now() - REPEATED_SECONDS * 1000),
      ],
    );
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
    /** Begins a renewal, to end with `finishRefresh`, `abandonRefresh` or `end`. Waits for another one. */
    async beginRefresh(presented: PresentedToken): Promise<RefreshBegun> {
      if (!isRefreshToken(presented.refresh_token)) return { outcome: 'unknown' };
      let waited_ms = 0;
      for (let poll_ms = FIRST_BUSY_POLL_MS; ; poll_ms = Math.min(poll_ms * 2, FIRST_BUSY_POLL_MS * 10)) {
        const begun = await beginOnce(presented);
        if (begun.outcome !== 'busy' || waited_ms >= busy_timeout_ms) return begun;
        // Polls: the renewal may run on another replica.
        await setTimeout(poll_ms);
        waited_ms += poll_ms;
      }
    },

    /** The successor, the same if the client may have lost it; `undefined` if the session ended meanwhile. */
    async finishRefresh(session_id: string, refreshed: RefreshedSession): Promise<OpenSession | undefined> {
      const { refresh_token: replaced, client_address, person, sealed_grant } = refreshed;
      const successor = makeRefreshToken(tags);
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

    /** Ends a renewal without using the token; `sealed_grant`: a new grant of the provider. */
    async abandonRefresh(session_id: string, sealed_grant?: string): Promise<void> {
      await database.query(
        'refresh_abandon',
        'update sessions set refreshing_until = null, sealed_grant = coalesce($2, sealed_grant) where id = $1 and revoked_at is null',
        [storable(session_id), sealed_grant ?? null],
      );
    },

    async sessionOf(refresh_token: string): Promise<string | undefined> {
      if (!isRefreshToken(refresh_token)) return undefined;
      const [row] = await database.query<{ session_id: string }>(
        'refresh_session',
        'select session_id from refresh_tokens where hash = $1',
        [hashSecret(refresh_token)],
      );
      return row?.session_id;
    },

    /** Ends a session by its person or the gateway; every replica rejects its tokens within a second. */
    async end(session_id: string, because: string, by: 'person' | 'gateway' = 'gateway'): Promise<boolean> {
      const [row] = await database.query<{ ended: boolean }>(
        'session_end',
        'select end_session($1, $2, $3, $4, $5) as ended',
        [storable(session_id), storable(because), by, by === 'person' ? null : 'sign-in', now()],
      );
      if (row!.ended) await onEnded?.();
      return row!.ended;
    },

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

/** NOTIFY channel with the ids of ended sessions. */
export const SESSIONS_CHANNEL = 'appscli_sessions';

/** Poll interval, in case a notification is lost. */
const POLL_MS = 3000;
/** Longest `auth.session.ttl_minutes`: sessions that ended earlier have no valid token. */
const LONGEST_TTL_MS = 24 * 60 * 60 * 1000;
/** Tolerance for clock differences of replicas and for uncommitted transactions. */
const OVERLAP_MS = 60_000;

/** List of ended sessions whose tokens have not expired; every replica has it within a second. */
export type Revocations = ReturnType<typeof openRevocations>;

/** Opens the list of ended sessions and keeps it up to date; the database may be unavailable at first. */
export function openRevocations(options: Background & { readonly database: Pick<Database, 'listen'> }) {
  const { database, clock, log, every = everyInBackground } = options;
  const ended = new Map<string, number>();
  const listeners = new Set<(session_id: string) => void>();
  let read = false;
  let known_until = 0;
  let reading: Promise<void> | undefined;

  const note = (session_id: string, at: number) => {
    if (ended.has(session_id)) return;
    ended.set(session_id, at);
    for (const listener of listeners) listener(session_id);
  };

  const readNew = async () => {
    const now = clock.now();
    const oldest = now - LONGEST_TTL_MS - OVERLAP_MS;
    try {
      const rows = await database.query<{ id: string; revoked_at: Date }>(
        'sessions_ended',
        'select id, revoked_at from sessions where revoked_at > $1',
        [new Date(Math.max(oldest, known_until - OVERLAP_MS))],
      );
      for (const { id, revoked_at } of rows) note(id, revoked_at.getTime());
      known_until = now;
      read = true;
    } catch (error) {
      log.debug({ err: error }, 'could not read the list of ended sessions');
    }
    for (const [session_id, at] of ended) if (at <= oldest) ended.delete(session_id);
  };
  const refresh = () => {
    reading ??= readNew().finally(() => {
      reading = undefined;
    });
    return reading;
  };

  const listening = database
    .listen(SESSIONS_CHANNEL, (session_id) => note(session_id, clock.now()), refresh)
    .catch((error) => {
      log.warn({ err: error }, 'no notifications of ended sessions; polling every few seconds');
    });
  // Sessions that ended before LISTEN are in the table at the first read.
  const attempted = listening.then(refresh);
  const stop = every(POLL_MS, refresh);

  return {
    attempted,
    /** Whether the list was read: until then no session is accepted. */
    get known() {
      return read;
    },
    refresh,
    /** Resolves when all sessions ended so far are known here, as far as the database is available. */
    async catchUp() {
      // A read in progress may have begun too early.
      await reading;
      await refresh();
    },
    /** Raises store_unavailable before the first read of the list. */
    has(session_id: string) {
      if (!read) throw new StageError('store_unavailable', NOT_READ);
      return ended.has(session_id);
    },
    onRevoked(listener: (session_id: string) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      stop();
      listeners.clear();
      await reading;
    },
  };
}

const NOT_READ = 'The gateway cannot check whether this session has ended. Try again shortly.';

/** Session tokens seen with a request: proof that the client received its renewal. */
export interface SessionActivity {
  /** Else a client that lost the response of a renewal may have to sign in again. `issued_at` in milliseconds. */
  note(session_id: string, issued_at: number): void;
}

/** Opens the session activity of a process: write-behind within a second, later during a database outage. */
export function openSessionActivity({ database, log, every }: Omit<Background, 'clock'>) {
  return openWriteBehind<number>({
    write: (noted) =>
      database.query(
        'sessions_seen',
        // Locks in a fixed order: other replicas write the same rows.
        `with due as (
           select s.id, v.at from sessions s join unnest($1::text[], $2::timestamptz[]) as v (id, at) on v.id = s.id
           where s.seen_at is null or s.seen_at < v.at order by s.id for no key update of s
         )
         update sessions s set seen_at = due.at from due where s.id = due.id`,
        [[...noted.keys()], [...noted.values()].map((at) => new Date(at))],
      ),
    // The newest token of each session.
    merge: Math.max,
    interval_ms: 1000,
    when_late: 'could not record session activity yet',
    log,
    every,
  });
}
