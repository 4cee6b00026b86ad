import { setTimeout as delay } from 'node:timers/promises';
import type {
  Clock,
  CounterName,
  LimitStatus,
  Log,
  MoveDecision,
  ReservationRequest,
} from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import type { Database } from '../../../base/store/database.ts';
import { type BatchCounterState, type CounterShare, counterName, type Lot } from '../ledger/batch-rows.ts';
import type { Heartbeat } from '../ledger/heartbeat.ts';
import type { Batch, LedgerStatements, LookedAt } from '../ledger/ledger-statements.ts';
import type { CounterNumbers } from '../limits/headroom.ts';
import { type Ending, LEASE_POLICY, LeasedRoom, type LeasePolicy, type Moment, type Placement } from './leased-room.ts';
import { RowSender, type SentRow } from './row-sender.ts';

/** The NOTIFY channel for recalls; the payload is a list of counter ids. */
const LEASES_CHANNEL = 'appscli_leases';

const TICK_MS = 500;
/** Pauses between decisions while leases are recalled, in milliseconds; the sum is the longest delay of a rejection. */
const RECALL_PAUSES_MS = [2, 5, 10, 20, 40, 80, 160, 320, 320];

/** Dependencies of the leases. */
export interface LeasesOptions {
  readonly database: Pick<Database, 'lanes' | 'listen'>;
  readonly statements: Pick<
    LedgerStatements,
    'place' | 'placeAgain' | 'release' | 'returnLeases' | 'endLeases' | 'recall'
  >;
  readonly heartbeat: Pick<Heartbeat, 'isFresh' | 'databaseNow' | 'doubt' | 'sayAlive'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
  /** Read on each use, because a reload can change it. */
  readonly is_on: () => boolean;
  readonly time_zone: () => string;
  readonly policy?: LeasePolicy | undefined;
  /** Sends a batch with the `changes`: at once, or with the next one. Raises store_unavailable. */
  send(when: 'now' | 'soon'): Promise<void>;
  /** Waits for a sent statement. Raises store_unavailable after the reservation timeout. */
  inTime<Answer>(sent: Promise<Answer>): Promise<Answer>;
}

interface Leased extends SentRow {
  readonly statuses: readonly LimitStatus[];
}

/** Counts since the start: reservations with and without a lease, and lots taken, refused and recalled. */
export interface LeaseCounts {
  leased: number;
  waited: number;
  taken: number;
  refused: number;
  recalled: number;
}

/** Leases to return and lots to take with the next batch. */
type LeaseChanges = Required<Pick<Batch, 'lease_id' | 'returns' | 'lots' | 'share'>>;

/**
 * The budget leases of one process: takes requests from them, refills them in lots, and returns them when they are idle or
 * recalled.
 */
export class Leases {
  readonly counts: LeaseCounts = { leased: 0, waited: 0, taken: 0, refused: 0, recalled: 0 };
  readonly #options: LeasesOptions;
  readonly #room: LeasedRoom;
  readonly #share: number;
  readonly #sender: RowSender;
  readonly #retry = createRetryPause();
  readonly #stopTimer: () => void;
  /** The id of this process's current leases in the database. */
  #lease_id = crypto.randomUUID() as string;
  /** Set while the leases of an abandoned id are being returned. */
  #starting_over: Promise<void> | undefined;
  /** Statements in flight that use the id. */
  #under_way = 0;
  #closed = false;
  /** Unset before the first use: leases are opened before the configuration is loaded. */
  #time_zone: string | undefined;

  constructor(options: LeasesOptions) {
    const { database, statements, log, every, policy = LEASE_POLICY } = options;
    this.#options = options;
    this.#room = new LeasedRoom(policy);
    this.#share = policy.share;
    const onFailure = (error: unknown) => this.#startOver(error);
    const mayBeSent = () => options.heartbeat.isFresh();
    this.#sender = new RowSender({ lanes: database.lanes, statements, log, mayBeSent, onFailure });
    this.#stopTimer = every(TICK_MS, () => this.#tick());
    void database.listen(
      LEASES_CHANNEL,
      (ids) => {
        this.#room.recall(ids.split(',').map(Number), options.clock.monotonic());
        this.#sendChanges('now');
      },
      () => {
        // A recall may have been missed while the listener was disconnected.
        this.#room.returnAll();
        this.#sendChanges('now');
      },
    );
  }

  /**
   * Takes a request's amounts from leases and sends its row; `undefined` if it cannot, without any effect. Raises
   * store_unavailable.
   */
  async place(request: ReservationRequest, shares: readonly CounterShare[]): Promise<Leased | undefined> {
    const leased = await this.#place(request, shares);
    this.counts[leased === undefined ? 'waited' : 'leased']++;
    return leased;
  }

  async #place(request: ReservationRequest, shares: readonly CounterShare[]): Promise<Leased | undefined> {
    this.#checkTimeZone();
    // Leases need a pipelined connection: there is none behind a connection pooler, or while the server is out of
    // connections.
    if (!this.#is_usable || shares.length === 0 || !this.#sender.is_healthy) return undefined;
    const at = this.#options.heartbeat.isFresh() ? this.#moment() : undefined;
    const placement = at && this.#room.place(request, shares, at);
    this.#room.record(shares, this.#options.clock.monotonic());
    if (placement === undefined) return undefined;
    this.#sendChanges('soon');
    return this.#sendRow(placement);
  }

  async #sendRow(placement: Placement): Promise<Leased | undefined> {
    const statuses = this.#room.statuses(placement);
    const lease_id = this.#lease_id;
    const sent = await this.#sender.send({ lease_id, placement });
    if (sent === undefined) {
      if (lease_id === this.#lease_id) this.#room.undo(placement);
      return undefined;
    }
    const is_sure = sent.is_handed && this.#options.heartbeat.isFresh();
    const was_taken_back = !is_sure && (await this.#options.inTime(this.#takeBack(placement.request, sent)));
    return was_taken_back ? undefined : { ...sent, statuses };
  }

  /**
   * Handles a row that was sent late or perhaps not in full: the process slept and others may have recovered its leases, or
   * the connection broke. Releases the reservation; false if it was recovered before. Raises store_unavailable.
   */
  async #takeBack({ request_id }: ReservationRequest, { written }: SentRow): Promise<boolean> {
    return (await written) && (await this.#options.statements.release([request_id])) > 0;
  }

  /** Changes for the next batch; `undefined` if there are none. The caller reports the result with `done` or `failed`. */
  changes(): LeaseChanges | undefined {
    if (this.#starting_over !== undefined || this.#closed || !this.#room.has_changes) return undefined;
    const returns = this.#room.takeReturns();
    const lots = this.#is_usable ? this.#room.takeLots(this.#options.clock.monotonic()) : [];
    if (returns.length + lots.length === 0) return undefined;
    this.#under_way++;
    return { lease_id: this.#lease_id, returns, lots, share: this.#share };
  }

  /** Must run right after the batch's reply, so that later settlements are not part of the counters. */
  learn(
    names: readonly CounterName[],
    news: readonly BatchCounterState[],
    lots: readonly Lot[] = [],
  ): readonly CounterNumbers[] {
    const counters = names.map(counterName);
    for (const lot of this.#starting_over === undefined ? lots : []) {
      const state = news[counters.indexOf(counterName(lot.name))]!;
      this.counts[state.is_leased ? 'taken' : 'refused']++;
      this.#room.granted(lot, state, this.#options.clock.monotonic());
    }
    return news.map(({ numbers }, i) => this.#room.learn(counters[i]!, numbers));
  }

  /** The batch with the last `changes` was committed. */
  done(time_zone: string): void {
    this.#under_way--;
    if (time_zone !== this.#options.time_zone()) this.#room.returnAll();
    this.#sendChanges('now');
  }

  failed(error: unknown): void {
    this.#under_way--;
    this.#startOver(error);
  }

  /** Applies a finished reservation with its spending per share; the caller reports the settlement with `ended`. */
  over(shares: readonly CounterShare[], spent: readonly number[]): Ending {
    return this.#room.over(shares, spent);
  }

  /** The settlement was written, or failed for good. */
  ended(ending: Ending): void {
    this.#room.ended(ending);
  }

  /**
   * Recalls the leases on limits without headroom and decides again: until there is headroom, no process has a lease, or the
   * pauses are used up. Raises store_unavailable.
   * @param is_moved whether the statuses exclude the request's own reservation (a move), so that they cannot be compared
   */
  async recallAndDecide<Decision extends Pick<MoveDecision, 'exceeded'>>(
    first: Decision,
    decide: () => Promise<Decision>,
    is_moved: boolean,
  ): Promise<Decision> {
    let decision = first;
    // Once no leases are left, one more decision is enough: other requests may take freed headroom again and again.
    let was_leased = true;
    for (const pause_ms of RECALL_PAUSES_MS) {
      const { exceeded } = decision;
      if (exceeded.length === 0) break;
      const own = exceeded.filter((limit) =>
        this.#room.returnLease(counterName(limit), this.#options.clock.monotonic()),
      );
      if (own.length > 0) await this.#options.send('now');
      const looked_at = await this.#options.statements.recall(exceeded);
      const is_leased = looked_at.some(({ leased }) => leased);
      const has_changed = is_moved || looked_at.some((counter, i) => hasMoreRoom(counter, exceeded[i]!));
      if (!is_leased && !(was_leased && has_changed)) break;
      was_leased = is_leased;
      this.counts.recalled++;
      if (is_leased) await delay(pause_ms);
      decision = await decide();
    }
    return decision;
  }

  /** Returns leases under earlier ids; called by heartbeats after an error. */
  async returnOthers(): Promise<void> {
    this.#under_way++;
    try {
      await this.#options.statements.returnLeases(this.#lease_id);
    } finally {
      this.#under_way--;
    }
  }

  /** The process was silent for so long that others may have recovered its leases, or the server lost unlogged rows. */
  lapse(): void {
    this.#startOver(new Error('the database received no heartbeat of this process for too long, or was restarted'));
  }

  /** Stops using leases and returns them. Keeps them while a row is unwritten, because that row may be lost. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stopTimer();
    this.#sender.discardQueue();
    this.#room.forget();
    // Waits for the statement in flight.
    await this.#options.send('now').catch(() => {});
    while (this.#sender.unwritten > 0 && !this.#retry.over) await this.#retry.wait();
    if (this.#sender.unwritten === 0) await this.#options.statements.endLeases().catch(() => {});
  }

  /** Stops the retries of unwritten rows. */
  end(): void {
    this.#retry.end();
    this.#sender.end();
  }

  get #is_usable(): boolean {
    const { is_on, database } = this.#options;
    return this.#starting_over === undefined && !this.#closed && is_on() && database.lanes().count > 0;
  }

  /** Another time zone has other windows: returns the leases on the old ones. */
  #checkTimeZone(): void {
    const time_zone = this.#options.time_zone();
    if (time_zone === this.#time_zone) return;
    const is_first = this.#time_zone === undefined;
    this.#time_zone = time_zone;
    if (!is_first) this.#room.returnAll();
  }

  #moment(): Moment | undefined {
    const database = this.#options.heartbeat.databaseNow();
    return database === undefined ? undefined : { database, monotonic: this.#options.clock.monotonic() };
  }

  #tick(): void {
    if (!this.#options.is_on()) this.#room.returnAll();
    this.#checkTimeZone();
    const at = this.#moment();
    if (at !== undefined) this.#room.returnIdle(at);
    this.#sendChanges('now');
  }

  /** The batch reports the result to `done` or `failed`. */
  #sendChanges(when: 'now' | 'soon'): void {
    if (this.#room.has_changes && this.#starting_over === undefined) this.#options.send(when).catch(() => {});
  }

  /**
   * Recovers from an error after which the state of the leases in the database is unknown: returns them all, then starts
   * over with a new id.
   */
  #startOver(error: unknown): void {
    if (this.#starting_over !== undefined || this.#closed) return;
    this.#options.log.debug({ err: error }, 'returning all leases');
    this.#room.forget();
    this.#sender.discardQueue();
    this.#options.heartbeat.doubt();
    this.#starting_over = this.#returnAll().finally(() => {
      this.#starting_over = undefined;
    });
  }

  async #returnAll(): Promise<void> {
    while (!this.#retry.over) {
      await this.#retry.wait();
      // Sent rows still take their amounts from these leases, and statements in flight use the id.
      if (this.#sender.unwritten + this.#under_way > 0) continue;
      try {
        await this.#options.heartbeat.sayAlive();
        await this.#options.statements.endLeases();
        this.#lease_id = crypto.randomUUID();
        this.#retry.reset();
        return;
      } catch (error) {
        this.#options.log.debug({ err: error }, 'leases could not be returned yet');
      }
    }
  }
}

/** Whether a limit may have headroom by now. */
function hasMoreRoom({ numbers }: LookedAt, decided: LimitStatus): boolean {
  return (
    numbers.spent + numbers.reserved < decided.spent + decided.reserved ||
    numbers.spent + numbers.most < decided.spent + decided.most ||
    numbers.in_flight < decided.in_flight
  );
}
