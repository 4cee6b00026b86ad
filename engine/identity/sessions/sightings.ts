import type { Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';

/** Which session tokens came with a request: what a renewal gave has then arrived at its client. */
export interface Sightings {
  /**
   * Notes a session token, once for each is enough.
   * @param issued_at milliseconds since the epoch
   */
  note(session_id: string, issued_at: number): void;
}

const INTERVAL_MS = 1000;
const CLOSE_PATIENCE_MS = 500;
/** What is beyond is forgotten: then a client that lost the answer to a renewal may be asked to sign in again. */
const MAX_NOTED = 10_000;

/** Opens the sightings of a process; written within a second, later while the database is away. */
export function openSightings(options: {
  readonly database: Pick<Database, 'query'>;
  readonly log: Log;
  readonly every?: Every;
}) {
  const { database, log, every = everyInBackground } = options;
  /** The newest token of each session. */
  let noted = new Map<string, number>();
  let writing: Promise<void> | undefined;

  const note = (session_id: string, issued_at: number) => {
    if (noted.size >= MAX_NOTED && !noted.has(session_id)) return;
    noted.set(session_id, Math.max(issued_at, noted.get(session_id) ?? 0));
  };
  const write = async () => {
    const taken = noted;
    noted = new Map();
    try {
      await database.query(
        'sessions_seen',
        // Locked in one order: other replicas write down the same ones.
        `with due as (
           select s.id, v.at from sessions s join unnest($1::text[], $2::timestamptz[]) as v (id, at) on v.id = s.id
           where s.seen_at is null or s.seen_at < v.at order by s.id for no key update of s
         )
         update sessions s set seen_at = due.at from due where s.id = due.id`,
        [[...taken.keys()], [...taken.values()].map((at) => new Date(at))],
      );
    } catch (error) {
      log.debug({ err: error }, 'which session tokens are in use is written down later');
      for (const [session_id, issued_at] of taken) note(session_id, issued_at);
    }
  };
  const flush = async () => {
    await writing;
    if (noted.size === 0) return;
    writing ??= write().finally(() => {
      writing = undefined;
    });
    await writing;
  };
  const stop = every(INTERVAL_MS, () => {
    // What a slow database is still at is not waited for twice.
    if (writing === undefined) void flush();
  });

  return {
    note,
    /** Writes down what is noted. A timer calls it; so may a test. Never rejects. */
    flush,
    async close() {
      stop();
      await waitAtMost(CLOSE_PATIENCE_MS, flush());
    },
  };
}
