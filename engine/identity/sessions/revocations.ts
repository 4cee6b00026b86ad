import { StageError } from '../../contract/errors.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import type { Database } from '../../store/database.ts';

/** Channel on which every ended session is announced by its id. */
export const SESSIONS_CHANNEL = 'appscli_sessions';

/** How often the list is read, for when an announcement gets lost. */
const POLL_MS = 3000;
/** Longest lifetime a session token can be given, `auth.session.ttl_minutes`: what was ended before has none left. */
const LONGEST_TTL_MS = 24 * 60 * 60 * 1000;
/** How far the clocks of replicas may be apart, and how long an ending may take to be committed. */
const OVERLAP_MS = 60_000;

/** The list of ended sessions. */
export type OpenRevocations = ReturnType<typeof openRevocations>;

/** Opens the list of ended sessions and keeps it up to date; needs no database yet. */
export function openRevocations(options: {
  readonly database: Pick<Database, 'query' | 'listen'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}) {
  const { database, clock, log, every = everyInBackground } = options;
  /** When each was ended, in milliseconds since the epoch. */
  const ended = new Map<string, number>();
  const listeners = new Set<(session_id: string | undefined) => void>();
  let read = false;
  /** Everything that was ended before is known. */
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
      log.debug({ err: error }, 'the list of ended sessions could not be read');
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
      log.warn({ err: error }, 'ended sessions are not announced; they take some seconds to be noticed');
    });
  // What was ended before anybody listened is in the table by the time it is read.
  const attempted = listening.then(refresh);
  const stop = every(POLL_MS, refresh);

  return {
    /** Resolves when the list was asked for the first time, whether that worked or not. */
    attempted,
    /** Whether the list was read once: until then nobody is let in by a session. */
    get known() {
      return read;
    },
    /** Reads what is new. A timer calls it; so may a test. Never rejects. */
    refresh,
    async catchUp() {
      // A reading that is under way may have begun too early.
      await reading;
      await refresh();
    },
    has(session_id: string) {
      if (!read) throw notRead();
      return ended.has(session_id);
    },
    onRevoked(listener: (session_id: string | undefined) => void) {
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

function notRead(): StageError {
  return new StageError(
    'store_unavailable',
    'The gateway cannot check at the moment whether this session was ended. Try again shortly.',
  );
}
