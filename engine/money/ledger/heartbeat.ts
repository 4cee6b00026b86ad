import type { Clock, Log } from '../../contract/services.ts';
import type { Every } from '../../kit/clock.ts';
import type { GatewayProcess } from '../../kit/process/gateway-process.ts';
import { isRunning } from '../../kit/process/process-identity.ts';
import { databaseTime, type LedgerStatements, type LedgerStore } from './ledger-statements.ts';

/** How a process stays known as alive, and how the money of dead ones is recorded. */
export interface Heartbeat {
  /** Makes this process known; nothing is reserved before. */
  register(): Promise<void>;
  beat(): Promise<void>;
  /** The part of a beat that every beat has. Raises store_unavailable. */
  sayAlive(): Promise<void>;
  recover(): Promise<number>;
  /**
   * A moment by the database's clock, as far as that is known; `undefined` before it was first heard of.
   * @param at by this process's monotonic clock
   */
  databaseTimeOf(at: number): Date | undefined;
  /** Says that there may be reservations of this process that it knows nothing of; the next beats release them. */
  doubt(): void;
  /** Stops the timer. */
  stop(): void;
  /** Makes this process unknown; what it left is an orphan from now on. */
  leave(): Promise<void>;
}

const FIRST_BEAT_MS = 100;
const BEAT_MS = 5000;
const PATIENCE_SECONDS = 30;
/** A process that itself just came back can't tell who is dead: it first lives as long as it has patience. */
const BEATS_BEFORE_RECOVERY = PATIENCE_SECONDS / (BEAT_MS / 1000);
const BEATS_BETWEEN_PARTITIONS = 720;
const BEATS_BETWEEN_MINUTES = 12;
/** Few enough that nobody waits for their locks. */
const MINUTE_BATCH = 1000;
const MAX_MINUTE_BATCHES = 100;
/** For how many beats a doubt lasts: longer than a statement can run after its connection broke. */
const BEATS_OF_DOUBT = 6;
const MAX_RECOVERED = 500;

/** Creates the heartbeat of a process; it beats by itself until it is stopped. */
export function createHeartbeat(options: {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
  readonly process_id: string;
  readonly process: GatewayProcess;
  isLive(request_id: string): boolean;
  readonly release: LedgerStatements['release'];
  /** Done once the database is known to be there; it may fail. */
  onFirstBeat(): Promise<void>;
}): Heartbeat {
  const { database, clock, log, every, process_id, process, isLive, release, onFirstBeat } = options;
  let registered: Promise<void> | undefined;
  let beats = 0;
  let beats_in_a_row = 0;
  let doubtful_beats = 0;

  /** How far the database's clock is ahead of the monotonic one. */
  let ahead_ms: number | undefined;

  const sayAlive = async () => {
    const asked_at = clock.monotonic();
    const [row] = await database.query<{ heartbeat_at: Date }>(
      'process_alive',
      `insert into processes (id, machine, identity, heartbeat_at) values ($1, $2, $3, coalesce($4, now()))
       on conflict (id) do update set heartbeat_at = excluded.heartbeat_at returning heartbeat_at`,
      [process_id, process.machine, process.identity, databaseTime(clock)],
    );
    // A stopped clock says nothing about the server's, and of the others the answer was on its way a little.
    if (!clock.frozen && row !== undefined) ahead_ms = row.heartbeat_at.getTime() - asked_at;
  };
  const register = () => {
    registered ??= sayAlive().catch((error) => {
      registered = undefined;
      throw error;
    });
    return registered;
  };

  const recordOrphans = async (dead: readonly string[]): Promise<number> => {
    let total = 0;
    for (;;) {
      const [row] = await database.query<{ orphans: number }>(
        'recover_orphans',
        // A stopped clock says nothing about when the server started.
        `select recover_orphans($1::timestamptz, $2, make_interval(secs => $3),
           case when $1::timestamptz is null then pg_postmaster_start_time() else '-infinity' end) as orphans`,
        [databaseTime(clock), dead, PATIENCE_SECONDS],
      );
      total += row!.orphans;
      if (row!.orphans < MAX_RECOVERED) break;
    }
    if (total > 0) log.warn({ requests: total }, 'recorded requests of a gateway that died, at their estimates');
    return total;
  };
  const recordPredecessors = async () => {
    const others = await database.query<{ id: string; identity: string }>(
      'process_neighbours',
      'select id, identity from processes where machine = $1 and id <> $2',
      [process.machine, process_id],
    );
    const dead = others.filter(({ identity }) => !isRunning(identity)).map(({ id }) => id);
    if (dead.length > 0) await recordOrphans(dead);
  };

  const releaseUnknown = async () => {
    const rows = await database.query<{ request_id: string }>(
      'process_reservations',
      'select request_id from reservations where process_id = $1',
      [process_id],
    );
    const unknown = rows.map(({ request_id }) => request_id).filter((request_id) => !isLive(request_id));
    if (unknown.length > 0) await release(unknown);
  };

  const deleteMinutes = async () => {
    for (let batch = 0; batch < MAX_MINUTE_BATCHES; batch++) {
      const [row] = await database.query<{ deleted: number }>(
        'delete_minutes',
        'select delete_minutes($1, $2) as deleted',
        [databaseTime(clock), MINUTE_BATCH],
      );
      if (row!.deleted < MINUTE_BATCH) return;
    }
  };

  const beat = async () => {
    if (registered === undefined) await register();
    else await sayAlive();
    if (beats === 0) await recordPredecessors();
    if (beats === 0)
      await onFirstBeat().catch((error) => log.debug({ err: error }, 'what costs are typical is not known'));
    if (doubtful_beats > 0) {
      await releaseUnknown();
      doubtful_beats--;
    }
    if (beats % BEATS_BETWEEN_PARTITIONS === 0) {
      await database.query('ensure_partitions', 'select ensure_partitions($1)', [databaseTime(clock)]);
    }
    if (beats % BEATS_BETWEEN_MINUTES === 0) await deleteMinutes();
    beats++;
  };
  const recover = () => recordOrphans([]);

  let beating = false;
  const beatInBackground = async () => {
    if (beating) return;
    beating = true;
    try {
      await beat();
      beats_in_a_row++;
      if (beats === 1) restartTimer(BEAT_MS);
      if (beats_in_a_row % BEATS_BEFORE_RECOVERY === 0) await recover();
    } catch (error) {
      beats_in_a_row = 0;
      log.debug({ err: error }, 'a heartbeat failed');
    } finally {
      beating = false;
    }
  };
  let stopTimer = every(FIRST_BEAT_MS, beatInBackground);
  const restartTimer = (interval_ms: number) => {
    stopTimer();
    stopTimer = every(interval_ms, beatInBackground);
  };

  return {
    register,
    beat,
    sayAlive,
    recover,
    databaseTimeOf: (at) => (ahead_ms === undefined ? undefined : new Date(ahead_ms + at)),
    doubt() {
      doubtful_beats = BEATS_OF_DOUBT;
    },
    stop: () => stopTimer(),
    async leave() {
      try {
        if (doubtful_beats > 0) await releaseUnknown();
        await database.query('process_gone', 'delete from processes where id = $1', [process_id]);
      } catch (error) {
        log.debug({ err: error }, 'this process could not say goodbye to the database');
      }
    },
  };
}
