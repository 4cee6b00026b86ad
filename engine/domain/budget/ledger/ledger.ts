import { setTimeout as delay } from 'node:timers/promises';
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
import { createGroupCommit, type GroupCommit } from '../../../base/kit/group-commit.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { type GatewayProcess, ownProcess } from '../../../base/kit/process/gateway-process.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Database } from '../../../base/store/database.ts';
import { asStoreError, isPermanent, StoreTimeout } from '../../../base/store/store-errors.ts';
import { type FinishedRequest, type LeaseCounts, Leases, type LeasesOptions } from '../leases/leases.ts';
import { Heartbeat } from './heartbeat.ts';
import {
  type BatchResult,
  type CounterShare,
  type LateSettlement,
  LedgerStatements,
  type LedgerStore,
  type Move,
  sharesOf,
  type TopUp,
} from './ledger-statements.ts';
import { assertReservable, BookedReservation, type Books, isCount, nothingReserved } from './reservation.ts';

export interface LedgerOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly log: Log;
  /** IANA name; `spend_limits.time_zone`. Read on each use, because a reload can change it. */
  readonly time_zone?: () => string;
  /** Timeout of a reservation; `spend_limits.store_timeout_seconds`. Read on each use. */
  readonly reserve_timeout_ms?: () => number;
  readonly process?: GatewayProcess;
  readonly every?: Every;
  /** Budget leases; `spend_limits.lease`. Absent: each request waits for its own reservation. */
  readonly leases?: Pick<Database, 'lanes' | 'listen'> & Pick<LeasesOptions, 'is_on' | 'policy'>;
}

interface Open {
  readonly shares: readonly CounterShare[];
  written: Promise<boolean> | undefined;
  /** Whether a concurrency limit applies: its end frees a slot, so it is settled at once. */
  frees_slot: boolean;
  is_finished: boolean;
}

/** A request waiting for its reservation; `given_up` after the timeout, so that it is left out of the next batch. */
interface Waiting {
  readonly reserve: ReservationRequest;
  given_up: boolean;
}

interface Settling {
  readonly settle: Settlement;
  readonly finished: FinishedRequest | undefined;
}

/** Every batch carries lease changes; this entry only triggers a batch. */
const LEASE_CHANGES = { lease_changes: true } as const;
type Entry = Waiting | Settling | typeof LEASE_CHANGES;
/** Whether a settlement was written, or the decision on a reservation; `undefined` after its deadline. */
type EntryResult = ReservationDecision | boolean | undefined;

const CLOSE_TIMEOUT_MS = 3000;
/** Longer than the usual reservation timeout, and shorter than the time a stopping gateway waits for its ledger. */
const UNDECIDED_TIMEOUT_MS = 6500;
const STEP_MS = 50;
const LEAVE_TIMEOUT_MS = 500;
const RESERVE_TIMEOUT_MS = 5000;
const MAX_BATCH = 500;
/** How long entries without a waiting client, such as settlements, wait to share a statement. */
const DELAY_MS = 25;
/** Moves run one by one, and each version of a counter within a transaction makes the next one slower to find. */
const MOVES_MAX = 32;
/** Overlaps the disk write of one late settlement with the work of another. */
const LATE_LANES = 2;
const TOP_UP_DELAY_MS = 20;

/**
 * The ledger in the database. Any number of processes share it. Windows are calendar windows in `time_zone`, by the
 * database's clock. A request counts in the windows of its reservation, even if it is settled after their end.
 */
export class DatabaseLedger implements Ledger, Books {
  readonly #options: Required<Pick<LedgerOptions, 'clock' | 'log' | 'time_zone' | 'reserve_timeout_ms'>>;
  readonly #statements: LedgerStatements;
  readonly #heartbeat: Heartbeat;
  readonly #costs = new TypicalCosts();
  /** Not a Map: V8 keeps what a Map's outgrown tables refer to alive until the next full collection. */
  readonly #open: Record<string, Open> = Object.create(null);
  #unwritten = 0;
  /** Monotonic time of the last written settlement, or since when settlements wait. */
  #written_at = 0;
  #onAllWritten = () => {};
  readonly #retry = createRetryPause();
  /**
   * The group commit: settlements, lease changes and reservations in batches, one statement at a time, so that counters arrive
   * in commit order.
   */
  readonly #entries: GroupCommit<Entry, EntryResult>;
  /** Until this monotonic time the database may still make reservations without this process knowing. */
  #undecided_until = Number.NEGATIVE_INFINITY;
  readonly #leases: Leases | undefined;
  readonly #groups: ReturnType<typeof createGroups>;

  constructor(options: LedgerOptions) {
    const filled = {
      process: ownProcess(),
      process_id: crypto.randomUUID(),
      every: everyInBackground,
      time_zone: () => 'UTC',
      reserve_timeout_ms: () => RESERVE_TIMEOUT_MS,
      ...options,
    };
    const statements = new LedgerStatements(filled);
    this.#options = filled;
    this.#statements = statements;
    this.#heartbeat = new Heartbeat({
      ...filled,
      statements,
      isLive: (request_id) => request_id in this.#open,
      onFirstBeat: () => this.#learnRecentCosts(),
      onLapse: () => this.#leases?.lapse(),
      onDoubt: async () => this.#leases?.returnOthers(),
    });
    this.#leases =
      options.leases &&
      new Leases({
        ...{ ...filled, ...options.leases, database: options.leases, statements },
        heartbeat: this.#heartbeat,
        send: async (when) => {
          await this.#entries[when === 'now' ? 'run' : 'runSoon'](LEASE_CHANGES);
        },
        inTime: (sent) => this.#inTime(sent),
      });
    this.#entries = createGroupCommit({
      ...{ lanes: 1, max_items: MAX_BATCH, patience_ms: DELAY_MS, isolates: isPermanent },
      execute: (entries) => this.#execute(entries),
    });
    this.#groups = createGroups(statements);
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    assertReservable(request);
    const { request_id } = request;
    const shares = sharesOf(request);
    this.#open[request_id] = { shares, written: undefined, frees_slot: freesSlot(request), is_finished: false };
    try {
      const placed = this.#leases && (await this.#place(this.#leases, request, shares));
      const decision = placed ?? (await this.#decide(() => this.#reserve(request), false));
      if (decision.exceeded.length === 0)
        return { ...decision, reservation: new BookedReservation(this, request, true) };
      delete this.#open[request_id];
      return decision;
    } catch (error) {
      delete this.#open[request_id];
      // The commit may have succeeded although its reply was lost.
      if (!isPermanent(error)) this.#heartbeat.suspectUnknownReservations();
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
      this.#options.log.debug({ err: error, request_id }, 'could not top up a reservation');
    });
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision> {
    assertReservable(request);
    try {
      const moved = async () => {
        await this.#open[request.request_id]?.written;
        return this.#decide(() => this.#groups.moves.run({ request, held }), true);
      };
      const decision = await this.#inTime(moved());
      if (decision === undefined) throw nothingReserved();
      const open = this.#open[request.request_id];
      if (decision.exceeded.length === 0 && open !== undefined) open.frees_slot = freesSlot(request);
      return decision;
    } catch (error) {
      throw asStoreError(error);
    }
  }

  async settle(settlement: Settlement): Promise<void> {
    if (this.#unwritten++ === 0) this.#written_at = this.#options.clock.monotonic();
    const written = this.#open[settlement.request_id]?.written;
    const finished = this.#finish(settlement.request_id, settlement);
    try {
      // A request whose reservation row failed is settled anyway.
      const is_lost = written !== undefined && !(await written);
      await this.#settleUntilWritten(is_lost ? { ...settlement, reserved: false } : settlement, finished);
    } finally {
      if (finished !== undefined) this.#leases!.headroom.settled(finished);
      if (--this.#unwritten === 0) this.#onAllWritten();
    }
  }

  async release(request_id: string): Promise<void> {
    const written = this.#open[request_id]?.written;
    const finished = this.#finish(request_id);
    try {
      await written;
      await this.#groups.releases.run(request_id);
    } catch (error) {
      this.#options.log.debug({ err: error, request_id }, 'could not release a reservation yet');
      this.#heartbeat.suspectUnknownReservations();
    } finally {
      if (finished !== undefined) this.#leases!.headroom.settled(finished);
      delete this.#open[request_id];
    }
  }

  typicalCost(user: string, model: string): number | undefined {
    return this.#costs.of(user, model);
  }

  statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    return this.#statements.statuses(demands).catch(raiseStoreError);
  }

  /**
   * Writes the ledger row of a request forwarded without a reservation, as of `at_ms` (since the epoch): its cost counts on
   * these counters, in the windows of that time. No retries. If its reservation exists after all, that is settled. @returns
   * false if the row existed. Raises store_unavailable, also if the database is not `database_id`.
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

  get lag_ms(): number {
    return this.#unwritten === 0 ? 0 : this.#options.clock.monotonic() - this.#written_at;
  }

  get lease_counts(): LeaseCounts | undefined {
    return this.#leases?.counts;
  }

  get is_alive(): boolean {
    return this.#heartbeat.is_alive;
  }

  databaseId(): Promise<string> {
    return this.#statements.databaseId();
  }

  /**
   * Records that a request is forwarded although its reservation failed: if it exists after all, it is not released. Call it
   * in the same event-loop turn in which `reserve` failed.
   */
  keep(request_id: string): void {
    this.#open[request_id] = { shares: [], written: undefined, frees_slot: false, is_finished: false };
  }

  forget(request_id: string): void {
    delete this.#open[request_id];
    this.#heartbeat.suspectUnknownReservations();
  }

  /**
   * Sends a heartbeat. A timer calls it; tests may. The first one recovers the orphans of ended processes on this machine.
   * Raises store_unavailable.
   */
  beat(): Promise<void> {
    return this.#heartbeat.beat();
  }

  sayAlive(): Promise<void> {
    return this.#heartbeat.sayAlive();
  }

  /** Recovers the orphans of processes without a heartbeat for 30 s. @returns how many. Raises store_unavailable. */
  recover(): Promise<number> {
    return this.#heartbeat.recover();
  }

  /** Flushes settlements for at most 3 seconds and deregisters. Unwritten requests become orphans. */
  async close(): Promise<void> {
    this.#heartbeat.stop();
    const given_back = this.#leases?.close();
    const decided = this.#allDecided();
    if (this.#unwritten > 0) {
      const all_written = new Promise<void>((resolve) => {
        this.#onAllWritten = resolve;
      });
      await waitAtMost(CLOSE_TIMEOUT_MS, all_written);
    }
    await decided;
    this.#retry.end();
    this.#leases?.end();
    await waitAtMost(LEAVE_TIMEOUT_MS, given_back ?? Promise.resolve());
    if (this.#unwritten > 0) {
      const fields = { requests: this.#unwritten };
      this.#options.log.error(
        fields,
        'could not settle all requests before stopping; they will be recorded at their reserved amounts',
      );
    }
    await waitAtMost(LEAVE_TIMEOUT_MS, this.#heartbeat.leave());
  }

  async #place(
    leases: Leases,
    request: ReservationRequest,
    shares: readonly CounterShare[],
  ): Promise<ReservationDecision | undefined> {
    const leased = await leases.place(request, shares);
    if (leased === undefined) return undefined;
    const open = this.#open[request.request_id]!;
    open.written = leased.written;
    // A leased limit has ample headroom: no request waits for this one's slot.
    open.frees_slot = false;
    // If the write failed, `written` stays set.
    void leased.written.then((is_written) => {
      if (is_written) open.written = undefined;
    });
    return { exceeded: [], shadows: [], statuses: leased.statuses, unreserved: false };
  }

  /** Decides; recalls leases before a rejection. */
  async #decide<Decision extends Pick<MoveDecision, 'exceeded'> | undefined>(
    decide: () => Promise<Decision>,
    is_moved: boolean,
  ): Promise<Decision> {
    const first = await decide();
    if (this.#leases === undefined || first === undefined || first.exceeded.length === 0) return first;
    return this.#leases.recallAndDecide(first, decide, is_moved);
  }

  /** Reserves. Raises store_unavailable on timeout; a reservation that is made later is released. */
  async #reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const waiting: Waiting = { reserve: request, given_up: false };
    const decided = this.#entries.run(waiting) as Promise<ReservationDecision | undefined>;
    const decision = await this.#inTime(decided, () => {
      waiting.given_up = true;
      decided
        .then(async (late) => {
          const is_made = late !== undefined && late.exceeded.length === 0;
          if (is_made && !(request.request_id in this.#open)) await this.release(request.request_id);
        })
        .catch(() => {});
    });
    if (decision === undefined) throw new StoreTimeout();
    return decision;
  }

  async #inTime<Answer>(sent: Promise<Answer>, onGivenUp = () => {}): Promise<Answer> {
    const { promise: too_late, reject } = Promise.withResolvers<never>();
    let over = false;
    const giveUp = () => {
      if (over) return;
      onGivenUp();
      reject(new StoreTimeout());
    };
    // setImmediate: a reply that has arrived but is not processed yet, because this process is busy, is not late.
    const timer = this.#options.clock.after(this.#options.reserve_timeout_ms(), () => setImmediate(giveUp));
    try {
      return await Promise.race([sent, too_late]);
    } finally {
      over = true;
      timer.close();
    }
  }

  /** Resolves when no reservation can be made any more: all deadlines have passed, or the maximum wait is over. */
  async #allDecided(): Promise<void> {
    // A frozen clock never reaches the deadline.
    if (this.#options.clock.frozen) return;
    const deadline = this.#options.clock.monotonic() + UNDECIDED_TIMEOUT_MS;
    while (this.#options.clock.monotonic() < Math.min(this.#undecided_until, deadline)) await delay(STEP_MS);
  }

  async #execute(entries: readonly Entry[]): Promise<readonly EntryResult[]> {
    const settling = entries.filter((entry) => 'settle' in entry);
    const wanted = () => entries.filter((entry) => 'reserve' in entry).filter(({ given_up }) => !given_up);
    if (wanted().length > 0) await this.#heartbeat.register();
    const waiting = wanted();
    const { written, decisions } = await this.#spend(settling, waiting);
    let [settled, reserved] = [0, 0];
    return entries.map((entry) => {
      if ('settle' in entry) return written[settled++]!;
      return entry === waiting[reserved] ? decisions?.[reserved++] : undefined;
    });
  }

  async #spend(settling: readonly Settling[], waiting: readonly Waiting[]): Promise<BatchResult> {
    const leases = this.#leases;
    const changes = leases?.changes();
    if (settling.length + waiting.length === 0 && changes === undefined) return { written: [], decisions: [] };
    const valid_until =
      waiting.length > 0
        ? this.#options.clock.monotonic() + this.#options.reserve_timeout_ms()
        : Number.NEGATIVE_INFINITY;
    const undecided_until = this.#undecided_until;
    this.#undecided_until = Math.max(undecided_until, valid_until);
    for (const { finished } of settling) if (finished !== undefined) finished.sent = true;
    const zone = this.#options.time_zone();
    const batch = {
      settlements: settling.map(({ settle }) => settle),
      requests: waiting.map(({ reserve }) => reserve),
      ...(waiting.length > 0 && { valid_until: this.#heartbeat.databaseTimeOf(valid_until) }),
      ...changes,
    };
    try {
      const result = await this.#statements.spend(
        batch,
        leases && ((names, news) => leases.learn(names, news, changes?.lots)),
      );
      this.#undecided_until = undecided_until;
      if (changes !== undefined) leases!.done(zone);
      // The database's clock may have been changed: a heartbeat measures it again.
      if (result.decisions === undefined) this.#heartbeat.sayAlive().catch(() => {});
      return result;
    } catch (error) {
      for (const { finished } of settling) if (finished !== undefined) finished.sent = false;
      if (changes !== undefined) leases!.failed(error);
      throw error;
    }
  }

  /** Marks a request as finished, with its spending if it was forwarded; call `settled` after the settlement. */
  #finish(request_id: string, settlement?: Settlement): FinishedRequest | undefined {
    const open = this.#open[request_id];
    if (open === undefined || open.is_finished) return undefined;
    open.is_finished = true;
    const spent = open.shares.map(({ name }) => (settlement === undefined ? 0 : spentOn(name, settlement)));
    return this.#leases?.headroom.finish(open.shares, spent);
  }

  async #settleUntilWritten(settlement: Settlement, finished?: FinishedRequest): Promise<void> {
    const { request_id } = settlement;
    for (;;) {
      try {
        const run = this.#open[request_id]?.frees_slot === true ? 'run' : 'runSoon';
        const written = await this.#entries[run]({ settle: settlement, finished });
        this.#written_at = this.#options.clock.monotonic();
        this.#retry.reset();
        delete this.#open[request_id];
        if (written) this.#learn(settlement);
        else
          this.#options.log.warn(
            { request_id },
            'the ledger already has a row for this request; discarded its settlement',
          );
        return;
      } catch (error) {
        if (isPermanent(error)) {
          // Its reservation stays, and orphan recovery turns it into a ledger row after this process ends.
          this.#options.log.error({ err: error, request_id }, 'the database rejected the settlement of this request');
          throw error;
        }
        if (this.#retry.over) throw asStoreError(error);
        await this.#retry.wait();
      }
    }
  }

  #learn({ user, model, cost_nano_usd, provenance }: Settlement): void {
    // Token counting and upstream errors cost nothing: no sample for billed requests.
    if (provenance.cost === 'upstream' && isCount(cost_nano_usd) && cost_nano_usd > 0) {
      this.#costs.add(user, model, cost_nano_usd);
    }
  }

  async #learnRecentCosts(): Promise<void> {
    for (const { user, model, cost_nano_usd } of await this.#statements.recentCosts())
      this.#costs.add(user, model, cost_nano_usd);
  }
}

function freesSlot({ demands }: ReservationRequest): boolean {
  return demands.some(({ window }) => window === 'open');
}

function raiseStoreError(error: unknown): never {
  throw asStoreError(error);
}

function spentOn({ unit, window }: CounterName, { cost_nano_usd, tokens }: Settlement): number {
  if (window === 'open') return 0;
  if (unit === 'nano_usd') return isCount(cost_nano_usd) ? cost_nano_usd : 0;
  if (unit === 'requests') return 1;
  return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
}

function createGroups(statements: LedgerStatements) {
  const group = <Item, Result>(
    execute: (items: readonly Item[]) => Promise<readonly Result[]>,
    more: { readonly lanes?: number; readonly max_items?: number; readonly patience_ms?: number } = {},
  ) => createGroupCommit({ lanes: 1, max_items: MAX_BATCH, ...more, isolates: isPermanent, execute });
  const forAll =
    <Item>(run: (items: readonly Item[]) => Promise<unknown>) =>
    (items: readonly Item[]) =>
      run(items).then(() => items.map(() => undefined));
  return {
    late: group((late: readonly LateSettlement[]) => statements.settleLate(late), { lanes: LATE_LANES }),
    moves: group((moves: readonly Move[]) => statements.move(moves), { max_items: MOVES_MAX }),
    releases: group(forAll((ids: readonly string[]) => statements.release(ids))),
    top_ups: group(
      forAll((top_ups: readonly TopUp[]) => statements.topUp(top_ups)),
      { patience_ms: TOP_UP_DELAY_MS },
    ),
  };
}

const MAX_PAIRS = 5000;
const MAX_MODELS = 1000;
const MIN_SAMPLES = 20;
/** Decay: beyond this many samples all counts are halved, so that recent requests weigh more. */
const MAX_SAMPLES = 1000;
const SHARE = 0.95;

/** Buckets grow by 10 %; the last one counts everything above 2^53. */
const GROWTH = Math.log(1.1);
const BUCKETS = Math.ceil(Math.log(Number.MAX_SAFE_INTEGER) / GROWTH) + 1;

interface Histogram {
  readonly buckets: Uint16Array;
  samples: number;
}

const newHistogram = (): Histogram => ({ buckets: new Uint16Array(BUCKETS), samples: 0 });

/** Histograms of recent request costs by user and model, in one process. */
export class TypicalCosts {
  readonly #pairs = new LRUCache<string, Histogram>({ ...atMost(MAX_PAIRS), memoMethod: newHistogram });
  readonly #models = new LRUCache<string, Histogram>({ max: MAX_MODELS, memoMethod: newHistogram });

  add(user: string, model: string, cost_nano_usd: number): void {
    const bucket = bucketOf(cost_nano_usd);
    count(this.#pairs.memo(nameOf(user, model)), bucket);
    count(this.#models.memo(model), bucket);
  }

  /**
   * The 95th percentile of the user's costs for a model, up to 10 % too high. With too few samples that of all users;
   * `undefined` with too few of those as well.
   */
  of(user: string, model: string): number | undefined {
    return percentile(this.#pairs.get(nameOf(user, model))) ?? percentile(this.#models.get(model));
  }
}

function nameOf(user: string, model: string): string {
  // The length makes the key unambiguous for any characters.
  return `${user.length} ${user} ${model}`;
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
    // Rounded up: halving alone must not erase rare buckets.
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
