import type { Clock, Log } from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import type { GatewayProcess } from '../../../base/kit/process/gateway-process.ts';
import { isRunning } from '../../../base/kit/process/process-identity.ts';
import { databaseTime, type LedgerStatements, type LedgerStore } from './ledger-statements.ts';

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
/** Far less than others have patience for: a clock may be wrong, and a beat late. */
const FRESH_MS = 12_000;
/** For how many beats a doubt lasts: longer than a statement can run after its connection broke. */
const BEATS_OF_DOUBT = 6;
const MAX_RECOVERED = 500;

/** What the heartbeat of a process needs. */
export interface HeartbeatOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
  readonly process_id: string;
  readonly process: GatewayProcess;
  isLive(request_id: string): boolean;
  readonly statements: Pick<LedgerStatements, 'release'>;
  /** Done once the database is known to be there; it may fail. */
  onFirstBeat(): Promise<void>;
  /** Called when the database hears of this process again that others may have taken for dead. */
  onLapse?(): void;
  /** Done by every beat that follows trouble. */
  onDoubt?(): Promise<void>;
}

/** How a process stays known as alive, and how the money of dead ones is recorded. It beats by itself until it is stopped. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #registered: Promise<void> | undefined;
  #beats = 0;
  #beats_in_a_row = 0;
  #doubtful_beats = 0;
  #beating = false;
  #is_alive = false;
  #ahead_ms: number | undefined;
  /** When the last statement was sent that told the database of this process, by both clocks of this machine. */
  #heard: { readonly monotonic: number; readonly now: number } | undefined;
  #stopTimer: () => void;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#stopTimer = options.every(FIRST_BEAT_MS, () => this.#beatInBackground());
  }

  /** Whether the last try to tell the database that this process lives worked. */
  get is_alive(): boolean {
    return this.#is_alive;
  }

  /** Makes this process known; nothing is reserved before. */
  register(): Promise<void> {
    this.#registered ??= this.sayAlive().catch((error) => {
      this.#registered = undefined;
      throw error;
    });
    return this.#registered;
  }

  /** The part of a beat that every beat has. Raises store_unavailable. */
  async sayAlive(): Promise<void> {
    const { database, clock, process_id, process } = this.#options;
    const asked_at = clock.monotonic();
    const asked_now = clock.now();
    const [row] = await database.query<{ heartbeat_at: Date }>(
      'process_alive',
      `insert into processes (id, machine, identity, heartbeat_at) values ($1, $2, $3, coalesce($4, now()))
       on conflict (id) do update set heartbeat_at = excluded.heartbeat_at returning heartbeat_at`,
      [process_id, process.machine, process.identity, databaseTime(clock)],
    );
    this.#is_alive = true;
    if (this.#heard !== undefined && !this.isFresh()) this.#options.onLapse?.();
    this.#heard = { monotonic: asked_at, now: asked_now };
    // A stopped clock says nothing about the server's, and of the others the answer was on its way a little.
    if (!clock.frozen && row !== undefined) this.#ahead_ms = row.heartbeat_at.getTime() - asked_at;
  }

  async beat(): Promise<void> {
    const { database, clock, log, onFirstBeat } = this.#options;
    if (this.#registered === undefined) await this.register();
    else await this.sayAlive();
    if (this.#beats === 0) {
      await this.#recordPredecessors();
      await onFirstBeat().catch((error) => log.debug({ err: error }, 'what costs are typical is not known'));
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

  /** Records the reservations of processes that have not been heard of for long. Returns how many. */
  recover(): Promise<number> {
    return this.#recordOrphans([]);
  }

  /**
   * A moment by the database's clock, as far as that is known; `undefined` before it was first heard of.
   * @param at by this process's monotonic clock
   */
  databaseTimeOf(at: number): Date | undefined {
    return this.#ahead_ms === undefined ? undefined : new Date(this.#ahead_ms + at);
  }

  /** The time by the database's clock, in milliseconds since the epoch, as far as that is known. */
  databaseNow(): number | undefined {
    const { clock } = this.#options;
    if (clock.frozen) return clock.now();
    return this.#ahead_ms === undefined ? undefined : this.#ahead_ms + clock.monotonic();
  }

  /**
   * Whether the database heard of this process so lately that nobody takes it for dead. The monotonic clock stands still
   * while a machine sleeps, and the other one may be set.
   */
  isFresh(): boolean {
    const { clock } = this.#options;
    if (this.#heard === undefined) return false;
    const { monotonic, now } = this.#heard;
    return clock.monotonic() - monotonic < FRESH_MS && Math.abs(clock.now() - now) < FRESH_MS;
  }

  /** Says that there may be reservations of this process that it knows nothing of; the next beats release them. */
  doubt(): void {
    this.#doubtful_beats = BEATS_OF_DOUBT;
  }

  stop(): void {
    this.#stopTimer();
  }

  /** Makes this process unknown; what it left is an orphan from now on. */
  async leave(): Promise<void> {
    const { database, log, process_id } = this.#options;
    try {
      if (this.#doubtful_beats > 0) await this.#releaseUnknown();
      await database.query('process_gone', 'delete from processes where id = $1', [process_id]);
    } catch (error) {
      log.debug({ err: error }, 'this process could not say goodbye to the database');
    }
  }

  async #beatInBackground(): Promise<void> {
    if (this.#beating) return;
    this.#beating = true;
    try {
      await this.beat();
      this.#beats_in_a_row++;
      if (this.#beats === 1) this.#slowDown();
      if (this.#beats_in_a_row % BEATS_BEFORE_RECOVERY === 0) await this.recover();
    } catch (error) {
      this.#beats_in_a_row = 0;
      this.#is_alive = false;
      this.#options.log.debug({ err: error }, 'a heartbeat failed');
    } finally {
      this.#beating = false;
    }
  }

  #slowDown(): void {
    this.#stopTimer();
    this.#stopTimer = this.#options.every(BEAT_MS, () => this.#beatInBackground());
  }

  async #recordOrphans(dead: readonly string[]): Promise<number> {
    const { database, clock, log } = this.#options;
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
  }

  /** Those that have provably ended on this machine. */
  async #recordPredecessors(): Promise<void> {
    const { database, process, process_id } = this.#options;
    const others = await database.query<{ id: string; identity: string }>(
      'process_neighbours',
      'select id, identity from processes where machine = $1 and id <> $2',
      [process.machine, process_id],
    );
    const dead = others.filter(({ identity }) => !isRunning(identity)).map(({ id }) => id);
    if (dead.length > 0) await this.#recordOrphans(dead);
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
