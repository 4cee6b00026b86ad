import { LRUCache } from 'lru-cache';
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
} from '../../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../../base/kit/clock.ts';
import { createGroupCommit } from '../../../base/kit/group-commit.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { type GatewayProcess, ownProcess } from '../../../base/kit/process/gateway-process.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Database } from '../../../base/store/database.ts';
import { asStoreError, isPermanent } from '../../../base/store/store-errors.ts';
import { LeaseStatements } from '../leases/lease-statements.ts';
import { type Ending, type Part, partsOf } from '../leases/leased-room.ts';
import { type LeaseCounts, Leases, type LeasesOptions } from '../leases/leases.ts';
import type { LateSettlement } from './batch-request.ts';
import { Batches } from './batches.ts';
import { Heartbeat } from './heartbeat.ts';
import { LedgerStatements, type LedgerStore, type Move, type TopUp } from './ledger-statements.ts';
import { assertReservable, BookedReservation, type Books, isCount, nothingReserved } from './reservation.ts';

/** How many callers and models are remembered, those that were busy last. */
const MAX_PAIRS = 5000;
const MAX_MODELS = 1000;
const MIN_SAMPLES = 20;
/** Beyond it the older half counts half, so that a caller who changes is soon known anew. */
const MAX_SAMPLES = 1000;
const SHARE = 0.95;

/** A bucket ends at 1.1 times the end of the one before it; the last is for whatever is above 2^53. */
const GROWTH = Math.log(1.1);
const BUCKETS = Math.ceil(Math.log(Number.MAX_SAFE_INTEGER) / GROWTH) + 1;

interface Histogram {
  readonly buckets: Uint16Array;
  samples: number;
}

/** What requests have cost lately, by caller and model, in one process. */
export class TypicalCosts {
  readonly #pairs = new LRUCache<string, Histogram>(atMost(MAX_PAIRS));
  readonly #models = new LRUCache<string, Histogram>({ max: MAX_MODELS });

  /** Takes note of what a request cost, in nano-USD. */
  add(user: string, model: string, cost_nano_usd: number): void {
    const bucket = bucketOf(cost_nano_usd);
    count(histogramOf(this.#pairs, nameOf(user, model)), bucket);
    count(histogramOf(this.#models, model), bucket);
  }

  /**
   * What 95 of 100 requests of a caller to a model cost at most, up to 10 % too high; what everybody's to the model do while
   * too few of the caller's are known; `undefined` while too few of either are.
   */
  of(user: string, model: string): number | undefined {
    return percentile(this.#pairs.get(nameOf(user, model))) ?? percentile(this.#models.get(model));
  }
}

function nameOf(user: string, model: string): string {
  // The length keeps names apart whatever characters are in them.
  return `${user.length} ${user} ${model}`;
}

function histogramOf(known: LRUCache<string, Histogram>, name: string): Histogram {
  let histogram = known.get(name);
  if (histogram === undefined) {
    histogram = { buckets: new Uint16Array(BUCKETS), samples: 0 };
    known.set(name, histogram);
  }
  return histogram;
}

function bucketOf(cost_nano_usd: number): number {
  if (!(cost_nano_usd > 1)) return 0;
  return Math.min(BUCKETS - 1, Math.ceil(Math.log(cost_nano_usd) / GROWTH - 1e-9));
}

function count(histogram: Histogram, bucket: number): void {
  const { buckets } = histogram;
  buckets[bucket]! += 1;
  histogram.samples++;
  if (histogram.samples <= MAX_SAMPLES) return;
  histogram.samples = 0;
  for (let i = 0; i < BUCKETS; i++) {
    // Rounded up: what is rare must not be forgotten by halving alone.
    buckets[i] = (buckets[i]! + 1) >> 1;
    histogram.samples += buckets[i]!;
  }
}

function percentile(histogram: Histogram | undefined): number | undefined {
  if (histogram === undefined || histogram.samples < MIN_SAMPLES) return undefined;
  let above = histogram.samples - Math.ceil(histogram.samples * SHARE);
  for (let bucket = BUCKETS - 1; bucket > 0; bucket--) {
    above -= histogram.buckets[bucket]!;
    if (above < 0) return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(Math.exp(bucket * GROWTH)));
  }
  return 1;
}

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

/** A request with a reservation, as far as leases are concerned. */
interface Open {
  readonly parts: readonly Part[];
  /** Whether its row could be written, while that is not known. */
  readonly written: Promise<boolean> | undefined;
}

const CLOSE_PATIENCE_MS = 3000;
const LEAVE_PATIENCE_MS = 500;
const RESERVE_TIMEOUT_MS = 5000;
const MAX_BATCH = 500;
/** They are done one by one, and every version of a counter within a transaction makes the next one slower to find. */
const MOVES_MAX = 32;
/** One late settlement waits for the disk while another works. */
const LATE_LANES = 2;
/** What is topped up within this time shares a statement. */
const TOP_UP_PATIENCE_MS = 20;

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
  readonly #groups: ReturnType<typeof createGroups>;
  /** Requests with a reservation, as far as leases are concerned. No Map: see the engine's `Bag`. */
  readonly #open: Record<string, Open> = Object.create(null);

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
    this.#groups = createGroups(statements);
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    assertReservable(request);
    const { request_id } = request;
    this.#live[request_id] = { makes_room: makesRoom(request) };
    try {
      const decision = await this.#reserve(request);
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
      await this.#open[request_id]?.written;
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
        await this.#open[request.request_id]?.written;
        return this.#move({ request, held });
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
    const written = this.#open[settlement.request_id]?.written;
    const ending = this.#over(settlement.request_id, settlement);
    try {
      // What could not be reserved is written all the same.
      const is_lost = written !== undefined && !(await written);
      await this.#settleUntilWritten(is_lost ? { ...settlement, reserved: false } : settlement, ending);
    } finally {
      if (ending !== undefined) this.#leases!.ended(ending);
      if (--this.#unwritten === 0) this.#onAllWritten();
    }
  }

  async release(request_id: string): Promise<void> {
    const written = this.#open[request_id]?.written;
    const ending = this.#over(request_id);
    try {
      if (written !== undefined) await written;
      await this.#groups.releases.run(request_id);
    } catch (error) {
      this.#log.debug({ err: error, request_id }, 'a reservation could not be released yet');
      this.#heartbeat.doubt();
    } finally {
      if (ending !== undefined) this.#leases!.ended(ending);
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

  /** In leases where that can be, and else in the database, where it is waited for. */
  async #reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const leases = this.#leases;
    if (leases === undefined) return this.#batches.reserve(request);
    const parts = partsOf(request);
    const decision = (await this.#placeIn(leases, request, parts)) ?? (await this.#ask(leases, request, parts));
    leases.note(parts);
    return decision;
  }

  async #placeIn(
    leases: Leases,
    request: ReservationRequest,
    parts: readonly Part[],
  ): Promise<ReservationDecision | undefined> {
    const leased = await leases.place(request, parts);
    if (leased === undefined) return undefined;
    const { written, statuses } = leased;
    const open: Open = { parts, written };
    this.#open[request.request_id] = open;
    // A row that could not be written stays known as such.
    void written.then((is_written) => {
      if (is_written && this.#open[request.request_id] === open)
        this.#open[request.request_id] = { parts, written: undefined };
    });
    return { exceeded: [], shadows: [], statuses, unreserved: false };
  }

  async #ask(leases: Leases, request: ReservationRequest, parts: readonly Part[]): Promise<ReservationDecision> {
    const ask = () => this.#batches.reserve(request);
    const first = await ask();
    const decision = first.exceeded.length === 0 ? first : await leases.withoutLeases(first, ask, false);
    if (decision.exceeded.length > 0) return decision;
    this.#open[request.request_id] = { parts, written: undefined };
    return { ...decision, statuses: leases.learn(decision.statuses) };
  }

  /** Decides on a move, and again where it was refused for room that is leased; `undefined` where nothing is there to move. */
  async #move(move: Move): Promise<MoveDecision | undefined> {
    const decide = () => this.#groups.moves.run(move);
    const first = await decide();
    if (this.#leases === undefined || first === undefined || first.exceeded.length === 0) return first;
    const decision = await this.#leases.withoutLeases(first, async () => (await decide()) ?? GONE, true);
    return decision === GONE ? undefined : decision;
  }

  /** A request is over, with what it came to where it was forwarded; `Leases.ended` when that is written. */
  #over(request_id: string, settlement?: Settlement): Ending | undefined {
    const open = this.#open[request_id];
    if (open === undefined) return undefined;
    delete this.#open[request_id];
    const spent = open.parts.map(({ name }) => (settlement === undefined ? 0 : spentOn(name, settlement)));
    return this.#leases!.over(open.parts, spent);
  }

  async #settleUntilWritten(settlement: Settlement, ending?: Ending): Promise<void> {
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

/** What is told of a move of something that is not there any more. */
const GONE: MoveDecision = { exceeded: [], shadows: [], statuses: [] };

function spentOn({ unit, window }: CounterName, { cost_nano_usd, tokens }: Settlement): number {
  if (window === 'open') return 0;
  if (unit === 'nano_usd') return isCount(cost_nano_usd) ? cost_nano_usd : 0;
  if (unit === 'requests') return 1;
  return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
}

/** What a ledger does for many requests at once, beside reserving and settling. */
function createGroups(statements: LedgerStatements) {
  const batches = { max_items: MAX_BATCH, isolates: isPermanent };
  return {
    late: createGroupCommit({
      ...batches,
      lanes: LATE_LANES,
      execute: (late: readonly LateSettlement[]) => statements.settleLate(late),
    }),
    moves: createGroupCommit({
      ...batches,
      max_items: MOVES_MAX,
      lanes: 1,
      execute: (moves: readonly Move[]) => statements.move(moves),
    }),
    releases: createGroupCommit({
      ...{ ...batches, lanes: 1 },
      execute: async (ids: readonly string[]) => Array<void>(ids.length).fill(await statements.release(ids)),
    }),
    top_ups: createGroupCommit({
      ...{ ...batches, lanes: 1, patience_ms: TOP_UP_PATIENCE_MS },
      execute: async (top_ups: readonly TopUp[]) => Array<void>(top_ups.length).fill(await statements.topUp(top_ups)),
    }),
  };
}
