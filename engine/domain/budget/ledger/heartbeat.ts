import type { Clock, Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { GatewayProcess } from '../../../base/kit/process/gateway-process.ts';
import { isRunning } from '../../../base/kit/process/process-identity.ts';
import { databaseTime, type LedgerStatements, type LedgerStore } from './ledger-statements.ts';

const FIRST_BEAT_MS = 100;
const BEAT_MS = 5000;
const DEAD_AFTER_SECONDS = 30;
/** A process that just resumed cannot judge others: it must be alive for the timeout itself first. */
const BEATS_BEFORE_RECOVERY = DEAD_AFTER_SECONDS / (BEAT_MS / 1000);
const BEATS_BETWEEN_PARTITIONS = 720;
const BEATS_BETWEEN_MINUTES = 12;
const MINUTE_BATCH = 1000;
const MAX_MINUTE_BATCHES = 100;
/** Far below the heartbeat timeout: a clock may be wrong, and a heartbeat late. */
const FRESH_MS = 12_000;
/**
 * Heartbeats that look for unknown reservations after an error: together longer than a statement can run after its
 * connection broke.
 */
const BEATS_AFTER_ERROR = 6;
const MAX_RECOVERED = 500;

interface HeartbeatOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
  readonly process_id: string;
  readonly process: GatewayProcess;
  isLive(request_id: string): boolean;
  readonly statements: Pick<LedgerStatements, 'release'>;
  onFirstBeat(): Promise<void>;
  /** Called after a heartbeat gap long enough to be declared dead, and after a new server life. */
  onLapse?(): void;
  onDoubt?(): Promise<void>;
}

/**
 * The heartbeat of a process, and orphan recovery: reservations of dead processes become ledger rows. Runs on a timer until
 * `stop`.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #registered: Promise<void> | undefined;
  #beats = 0;
  #beats_in_a_row = 0;
  #doubtful_beats = 0;
  #beating = false;
  #is_alive = false;
  #ahead_ms: number | undefined;
  /** When the last confirmed heartbeat was sent, by both clocks of this machine. */
  #confirmed: { readonly monotonic: number; readonly now: number } | undefined;
  #life: string | undefined;
  #stopTimer: () => void;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#stopTimer = options.every(FIRST_BEAT_MS, () => this.#beatInBackground());
  }

  get is_alive(): boolean {
    return this.#is_alive;
  }

  /** Registers this process by its first heartbeat; reservations need it. */
  register(): Promise<void> {
    this.#registered ??= this.sayAlive().catch((error) => {
      this.#registered = undefined;
      throw error;
    });
    return this.#registered;
  }

  async sayAlive(): Promise<void> {
    const { database, clock, process_id, process } = this.#options;
    const sent_at = clock.monotonic();
    const sent_now = clock.now();
    const [row] = await database.query<{ heartbeat_at: Date; life: string }>(
      'process_alive',
      'select heartbeat_at, life from send_heartbeat($1, $2, $3, $4)',
      [process_id, process.machine, process.identity, databaseTime(clock)],
    );
    this.#is_alive = true;
    if (this.#confirmed !== undefined && !(this.isFresh() && row?.life === this.#life)) this.#options.onLapse?.();
    this.#life = row?.life;
    this.#confirmed = { monotonic: sent_at, now: sent_now };
    // Offset of the database's clock, late by the time the reply took. A frozen clock has none.
    if (!clock.frozen && row !== undefined) this.#ahead_ms = row.heartbeat_at.getTime() - sent_at;
  }

  async beat(): Promise<void> {
    const { database, clock, log, onFirstBeat } = this.#options;
    if (this.#registered === undefined) await this.register();
    else await this.sayAlive();
    if (this.#beats === 0) {
      await this.#recordPredecessors();
      await onFirstBeat().catch((error) =>
        log.debug({ err: error }, 'could not read recent costs for typical reservations'),
      );
    }
    if (this.#doubtful_beats > 0) {
      await this.#releaseUnknown();
      await this.#options.onDoubt?.();
      this.#doubtful_beats--;
    }
    if (this.#beats % BEATS_BETWEEN_PARTITIONS === 0) {
      await database.query('ensure_partitions', 'select make_months($1)', [databaseTime(clock)]);
    }
    if (this.#beats % BEATS_BETWEEN_MINUTES === 0) await this.#deleteMinutes();
    this.#beats++;
  }

  /** Converts a monotonic time to the database's clock; `undefined` before the first heartbeat. */
  databaseTimeOf(at: number): Date | undefined {
    return this.#ahead_ms === undefined ? undefined : new Date(this.#ahead_ms + at);
  }

  /** The database's time in milliseconds since the epoch; `undefined` before the first heartbeat. */
  databaseNow(): number | undefined {
    const { clock } = this.#options;
    return clock.frozen ? clock.now() : this.databaseTimeOf(clock.monotonic())?.getTime();
  }

  /**
   * Whether the last heartbeat is so recent that no process declares this one dead. Checks both clocks: the monotonic one
   * stops during sleep, and the wall clock may be changed.
   */
  isFresh(): boolean {
    const { clock } = this.#options;
    if (this.#confirmed === undefined) return false;
    const { monotonic, now } = this.#confirmed;
    return clock.monotonic() - monotonic < FRESH_MS && Math.abs(clock.now() - now) < FRESH_MS;
  }

  /** Reports that the database may have reservations unknown to this process; the next heartbeats release them. */
  suspectUnknownReservations(): void {
    this.#doubtful_beats = BEATS_AFTER_ERROR;
  }

  stop(): void {
    this.#stopTimer();
  }

  /** Deregisters this process; its remaining reservations are orphans from now on. */
  async leave(): Promise<void> {
    const { database, log, process_id } = this.#options;
    try {
      if (this.#doubtful_beats > 0) await this.#releaseUnknown();
      await database.query('process_gone', 'delete from processes where id = $1', [process_id]);
    } catch (error) {
      log.debug({ err: error }, 'could not deregister this process');
    }
  }

  async #beatInBackground(): Promise<void> {
    if (this.#beating) return;
    this.#beating = true;
    try {
      await this.beat();
      this.#beats_in_a_row++;
      if (this.#beats === 1) {
        this.#stopTimer();
        this.#stopTimer = this.#options.every(BEAT_MS, () => this.#beatInBackground());
      }
      if (this.#beats_in_a_row % BEATS_BEFORE_RECOVERY === 0) await this.recover();
    } catch (error) {
      this.#beats_in_a_row = 0;
      this.#is_alive = false;
      this.#options.log.debug({ err: error }, 'a heartbeat failed');
    } finally {
      this.#beating = false;
    }
  }

  /** Recovers the orphans of these processes and of those without a heartbeat for 30 s. @returns how many. */
  async recover(dead: readonly string[] = []): Promise<number> {
    const { database, clock, log } = this.#options;
    let total = 0;
    for (;;) {
      const [row] = await database.query<{ orphans: number }>(
        'recover_orphans',
        // A stopped clock is no evidence of when the server started.
        `select recover_orphans($1::timestamptz, $2, make_interval(secs => $3),
           case when $1::timestamptz is null then pg_postmaster_start_time() else '-infinity' end) as orphans`,
        [databaseTime(clock), dead, DEAD_AFTER_SECONDS],
      );
      total += row!.orphans;
      if (row!.orphans < MAX_RECOVERED) break;
    }
    if (total > 0)
      log.warn({ requests: total }, 'recorded the requests of a dead gateway process at their reserved amounts');
    return total;
  }

  async #recordPredecessors(): Promise<void> {
    const { database, process, process_id } = this.#options;
    const others = await database.query<{ id: string; identity: string }>(
      'process_neighbours',
      'select id, identity from processes where machine = $1 and id <> $2',
      [process.machine, process_id],
    );
    const dead = others.filter(({ identity }) => !isRunning(identity)).map(({ id }) => id);
    if (dead.length > 0) await this.recover(dead);
  }

  async #releaseUnknown(): Promise<void> {
    const { database, process_id, isLive, statements } = this.#options;
    const text = 'select request_id from reservations where process_id = $1';
    const rows = await database.query<{ request_id: string }>('process_reservations', text, [process_id]);
    const unknown = rows.map(({ request_id }) => request_id).filter((request_id) => !isLive(request_id));
    if (unknown.length > 0) await statements.release(unknown);
  }

  async #deleteMinutes(): Promise<void> {
    const { database, clock } = this.#options;
    for (let batch = 0; batch < MAX_MINUTE_BATCHES; batch++) {
      const text = 'select delete_minutes($1, $2) as deleted';
      const values = [databaseTime(clock), MINUTE_BATCH];
      const [row] = await database.query<{ deleted: number }>('delete_minutes', text, values);
      if (row!.deleted < MINUTE_BATCH) return;
    }
  }
}
