import type {
  ChargedAttempt,
  Clock,
  CounterName,
  CounterStatus,
  Ledger,
  LedgerIdentity,
  LimitDemand,
  Log,
  MoveDecision,
  Reservation,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { type GatewayProcess, ownProcess } from '../../kit/process/gateway-process.ts';
import { createRetryPause } from '../../kit/retry-pause.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';
import { asStoreError, isPermanent } from '../../store/store-errors.ts';
import { LeaseStatements } from '../leases/lease-statements.ts';
import { type LeaseCounts, Leases, type LeasesOptions } from '../leases/leases.ts';
import { Batches, type Sendable } from './batches.ts';
import { Heartbeat } from './heartbeat.ts';
import { createLedgerGroups, type LedgerGroups } from './ledger-groups.ts';
import { LedgerStatements, type LedgerStore } from './ledger-statements.ts';
import { assertReservable, BookedReservation, type Books, isCount, nothingReserved } from './reservation.ts';
import { Reserving } from './reserving.ts';
import { TypicalCosts } from './typical-cost.ts';

/** What a ledger needs. It needs no database yet when it is opened. */
export interface LedgerOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  /** IANA name; `spend_limits.time_zone`. Asked each time, because a reload can change it. */
  readonly time_zone?: () => string;
  /** How long a reservation waits for the database at most; `spend_limits.store_timeout_seconds`. Asked each time. */
  readonly reserve_timeout_ms?: () => number;
  readonly process?: GatewayProcess;
  readonly every?: Every;
  /** Where reservations may be placed in leases; `spend_limits.lease`. Absent: each is waited for. */
  readonly leases?: Pick<Database, 'lanes' | 'listen'> & Pick<LeasesOptions, 'is_on' | 'policy'>;
}

const CLOSE_PATIENCE_MS = 3000;
const LEAVE_PATIENCE_MS = 500;
const RESERVE_TIMEOUT_MS = 5000;

/**
 * The ledger of one process, in the database. Any number of them share a database. Windows are calendar windows in
 * `time_zone`, by the database's clock. A request counts in the window it was reserved in, also when it is settled after the
 * window's end.
 */
export class DatabaseLedger implements Ledger, Books {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #statements: LedgerStatements;
  readonly #heartbeat: Heartbeat;
  readonly #costs = new TypicalCosts();
  /**
   * Requests whose reservation row may exist and is still needed, and whether a limit on requests at once is among its
   * own: then its end makes room for the next one, which may come at any moment. No Map: see the engine's `Bag`.
   */
  readonly #live: Record<string, { readonly makes_room: boolean }> = Object.create(null);
  #unwritten = 0;
  /** When a settlement was last written, or began to wait where none did; monotonic. */
  #written_at = 0;
  #onAllWritten = () => {};
  readonly #retry = createRetryPause();
  readonly #batches: Batches;
  readonly #leases: Leases | undefined;
  readonly #reserving: Reserving;
  readonly #groups: LedgerGroups;

  constructor(options: LedgerOptions) {
    const {
      database,
      clock,
      log,
      time_zone = () => 'UTC',
      process = ownProcess(),
      every = everyInBackground,
    } = options;
    const process_id = crypto.randomUUID();
    const statements = new LedgerStatements({ database, clock, time_zone, process_id });
    const { reserve_timeout_ms = () => RESERVE_TIMEOUT_MS } = options;
    this.#clock = clock;
    this.#log = log;
    this.#statements = statements;
    this.#heartbeat = new Heartbeat({
      ...{ database, clock, log, every, process_id, process, statements },
      isLive: (request_id) => request_id in this.#live,
      onFirstBeat: () => this.#learnRecentCosts(),
      onLapse: () => this.#leases?.lapse(),
      onDoubt: async () => this.#leases?.returnOthers(),
    });
    this.#leases =
      options.leases &&
      new Leases({
        ...{ database: options.leases, ...options.leases, time_zone, clock, log, every, heartbeat: this.#heartbeat },
        statements: new LeaseStatements({ database, clock, time_zone, process_id }),
        between: (task) => this.#batches.between(task),
        inTime: (sent) => this.#batches.inTime(sent),
      });
    this.#batches = new Batches({
      ...{ statements, clock, reserve_timeout_ms, heartbeat: this.#heartbeat },
      giveBack: async (request_id) => {
        if (!(request_id in this.#live)) await this.release(request_id);
      },
    });
    this.#reserving = new Reserving(this.#batches, this.#leases);
    this.#groups = createLedgerGroups(statements);
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    assertReservable(request);
    const { request_id } = request;
    this.#live[request_id] = { makes_room: makesRoom(request) };
    try {
      const decision = await this.#reserving.reserve(request);
      if (decision.exceeded.length === 0)
        return { ...decision, reservation: new BookedReservation(this, request, true) };
      delete this.#live[request_id];
      return decision;
    } catch (error) {
      delete this.#live[request_id];
      // The statement may have been committed although nobody heard of it.
      if (!isPermanent(error)) this.#heartbeat.doubt();
      throw asStoreError(error);
    }
  }

  unreserved(identity: LedgerIdentity): Reservation {
    return new BookedReservation(this, identity, false);
  }

  topUp(request_id: string, amount_nano_usd: number): void {
    if (!isCount(amount_nano_usd)) throw new RangeError(`an amount in nano-USD cannot be ${amount_nano_usd}`);
    const raise = async () => {
      await this.#reserving.written(request_id);
      await this.#groups.top_ups.runSoon({ request_id, amount_nano_usd });
    };
    raise().catch((error) => {
      this.#log.debug({ err: error, request_id }, 'a reservation could not be topped up');
    });
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision> {
    assertReservable(request);
    try {
      const moved = async () => {
        await this.#reserving.written(request.request_id);
        return this.#reserving.move(() => this.#groups.moves.run({ request, held }));
      };
      const decision = await this.#batches.inTime(moved());
      if (decision === undefined) throw nothingReserved();
      if (decision.exceeded.length === 0) this.#live[request.request_id] = { makes_room: makesRoom(request) };
      return decision;
    } catch (error) {
      throw asStoreError(error);
    }
  }

  async settle(settlement: Settlement): Promise<void> {
    if (this.#unwritten++ === 0) this.#written_at = this.#clock.monotonic();
    const written = this.#reserving.written(settlement.request_id);
    const ending = this.#reserving.over(settlement.request_id, settlement);
    try {
      // What could not be reserved is written all the same.
      const is_lost = written !== undefined && !(await written);
      await this.#settleUntilWritten(is_lost ? { ...settlement, reserved: false } : settlement, ending);
    } finally {
      this.#reserving.ended(ending);
      if (--this.#unwritten === 0) this.#onAllWritten();
    }
  }

  async release(request_id: string): Promise<void> {
    const written = this.#reserving.written(request_id);
    const ending = this.#reserving.over(request_id);
    try {
      if (written !== undefined) await written;
      await this.#groups.releases.run(request_id);
    } catch (error) {
      this.#log.debug({ err: error, request_id }, 'a reservation could not be released yet');
      this.#heartbeat.doubt();
    } finally {
      this.#reserving.ended(ending);
      delete this.#live[request_id];
    }
  }

  typicalCost(user: string, model: string): number | undefined {
    return this.#costs.of(user, model);
  }

  statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    return this.#statements.statuses(demands).catch(raiseStoreError);
  }

  /**
   * Writes the ledger row of a request that went out with nothing reserved, as of `at_ms` (since the epoch): its money counts
   * on these counters, in the windows of that time. Tried once. A reservation that was made under its id after all is
   * settled instead. @returns false when the row was there already. Raises store_unavailable, also when the store is another
   * database than the one it belongs to.
   */
  async settleAt(
    settlement: Settlement,
    counters: readonly CounterName[],
    at_ms: number,
    database_id: string,
  ): Promise<boolean> {
    const written = await this.#groups.late.run({ settlement, counters, at_ms, database_id }).catch(raiseStoreError);
    if (written) this.#learn(settlement);
    return written;
  }

  /** Requests that are over and not written yet. */
  get waiting(): number {
    return this.#unwritten;
  }

  /** For how long they have waited without one being written, in milliseconds. */
  get lag_ms(): number {
    return this.#unwritten === 0 ? 0 : this.#clock.monotonic() - this.#written_at;
  }

  /** How reservations were made, and what was done about leases. */
  get lease_counts(): LeaseCounts | undefined {
    return this.#leases?.counts;
  }

  /** Whether the database took the last heartbeat. */
  get is_alive(): boolean {
    return this.#heartbeat.is_alive;
  }

  /** Which database it is in. Raises store_unavailable. */
  databaseId(): Promise<string> {
    return this.#statements.databaseId();
  }

  /**
   * Says that a request goes out although its reservation failed: if that turns out to have been made, it is not given
   * back. To be called in the same turn in which `reserve` failed.
   */
  keep(request_id: string): void {
    this.#live[request_id] = { makes_room: false };
  }

  /** Ends `keep`: what may still be reserved under the id is given back. */
  forget(request_id: string): void {
    delete this.#live[request_id];
    this.#heartbeat.doubt();
  }

  /**
   * Tells the other processes that this one lives. A timer calls it; so may a test. The first one records the orphans
   * of processes that have provably ended on this machine. Raises store_unavailable.
   */
  beat(): Promise<void> {
    return this.#heartbeat.beat();
  }

  /** Writes that this process lives, and nothing else. Raises store_unavailable. */
  sayAlive(): Promise<void> {
    return this.#heartbeat.sayAlive();
  }

  /**
   * Records the orphans of processes that have not been heard of for 30 s: a ledger row at the amount reserved, an estimate.
   * @returns how many. Raises store_unavailable.
   */
  recover(): Promise<number> {
    return this.#heartbeat.recover();
  }

  /** Writes what is still unwritten, for at most 3 seconds, and leaves. What can't be written becomes an orphan. */
  async close(): Promise<void> {
    this.#heartbeat.stop();
    const given_back = this.#leases?.close();
    const decided = this.#batches.over();
    if (this.#unwritten > 0) {
      const all_written = new Promise<void>((resolve) => {
        this.#onAllWritten = resolve;
      });
      await waitAtMost(CLOSE_PATIENCE_MS, all_written);
    }
    await decided;
    this.#retry.end();
    this.#leases?.end();
    await waitAtMost(LEAVE_PATIENCE_MS, given_back ?? Promise.resolve());
    if (this.#unwritten > 0) {
      const fields = { requests: this.#unwritten };
      this.#log.error(fields, 'some requests could not be settled; they will be recorded as estimates');
    }
    await waitAtMost(LEAVE_PATIENCE_MS, this.#heartbeat.leave());
  }

  async #settleUntilWritten(settlement: Settlement, ending?: Sendable): Promise<void> {
    const { request_id } = settlement;
    for (;;) {
      try {
        const written = await this.#batches.settle(settlement, this.#live[request_id]?.makes_room === true, ending);
        this.#written_at = this.#clock.monotonic();
        this.#retry.reset();
        delete this.#live[request_id];
        if (written) this.#learn(settlement);
        else this.#log.warn({ request_id }, 'this request was in the ledger already; what it reported now is dropped');
        return;
      } catch (error) {
        if (isPermanent(error)) {
          // Its reservation stays, and becomes a ledger row when this process ends.
          this.#log.error({ err: error, request_id }, 'the ledger refused to settle this request');
          throw error;
        }
        if (this.#retry.over) throw asStoreError(error);
        await this.#retry.wait();
      }
    }
  }

  #learn({ user, model, cost_nano_usd, provenance }: Settlement): void {
    // Counting tokens and errors of the upstream cost nothing, and say nothing about requests that do.
    if (provenance.cost === 'upstream' && isCount(cost_nano_usd) && cost_nano_usd > 0) {
      this.#costs.add(user, model, cost_nano_usd);
    }
  }

  async #learnRecentCosts(): Promise<void> {
    for (const { user, model, cost_nano_usd } of await this.#statements.recentCosts())
      this.#costs.add(user, model, cost_nano_usd);
  }
}

function makesRoom({ demands }: ReservationRequest): boolean {
  return demands.some(({ window }) => window === 'open');
}

function raiseStoreError(error: unknown): never {
  throw asStoreError(error);
}
