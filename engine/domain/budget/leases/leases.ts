import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type {
  Clock,
  CounterName,
  LimitStatus,
  Log,
  MoveDecision,
  ReservationRequest,
} from '../../../base/contract/services.ts';
import type { Every } from '../../../base/kit/clock.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { createRetryPause } from '../../../base/kit/retry-pause.ts';
import type { Database } from '../../../base/store/database.ts';
import type { PipelinedConnections, SentStatement } from '../../../base/store/postgres-client.ts';
import { isPermanent } from '../../../base/store/store-errors.ts';
import type { Heartbeat } from '../ledger/heartbeat.ts';
import {
  type Amounts,
  type Batch,
  type BatchCounterState,
  type CounterShare,
  type CounterSnapshot,
  type LeasedRow,
  type LeasePart,
  type LedgerStatements,
  type Lot,
  moneyStatuses,
  withoutFree,
} from '../ledger/ledger-statements.ts';
import { type CounterNumbers, counterText } from '../limits/headroom.ts';

const LEASES_CHANNEL = 'appscli_leases';

const TICK_MS = 500;
/** Pauses between decisions while leases are recalled, in milliseconds; the sum is the longest delay of a rejection. */
const RECALL_PAUSES_MS = [2, 5, 10, 20, 40, 80, 160, 320, 320];

export interface LeasesOptions {
  readonly database: Pick<Database, 'lanes' | 'listen'>;
  readonly statements: Pick<
    LedgerStatements,
    'place' | 'placeAgain' | 'release' | 'returnLeases' | 'endLeases' | 'recall'
  >;
  readonly heartbeat: Pick<Heartbeat, 'isFresh' | 'databaseNow' | 'suspectUnknownReservations' | 'sayAlive'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every: Every;
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

/**
 * Counts since the start: reservations with and without a lease, lots taken and denied, and rounds of recalls. A lot is the
 * amount of headroom that one refill of a lease takes from the shared counter. One round recalls the leases of all exceeded limits.
 */
export interface LeaseCounts {
  leased: number;
  waited: number;
  taken: number;
  refused: number;
  recalled: number;
}

type LeaseChanges = Required<Pick<Batch, 'lease_id' | 'returns' | 'lots' | 'headroom_factor'>>;

/**
 * The budget leases of one process: reserves from them, refills them in lots, and returns them when they are idle or
 * recalled.
 */
export class Leases {
  readonly counts: LeaseCounts = { leased: 0, waited: 0, taken: 0, refused: 0, recalled: 0 };
  readonly #options: LeasesOptions;
  readonly headroom: LeasedHeadroom;
  readonly #headroom_factor: number;
  readonly #sender: RowSender;
  readonly #retry = createRetryPause();
  readonly #stopTimer: () => void;
  #lease_id = crypto.randomUUID() as string;
  #starting_over: Promise<void> | undefined;
  #under_way = 0;
  #closed = false;
  /** Unset before the first use: leases are opened before the configuration is loaded. */
  #time_zone: string | undefined;

  constructor(options: LeasesOptions) {
    const { database, statements, log, every, policy = LEASE_POLICY } = options;
    this.#options = options;
    this.headroom = new LeasedHeadroom(policy);
    this.#headroom_factor = policy.headroom_factor;
    const onFailure = (error: unknown) => this.#startOver(error);
    const mayBeSent = () => options.heartbeat.isFresh();
    this.#sender = new RowSender({ lanes: database.lanes, statements, log, mayBeSent, onFailure });
    this.#stopTimer = every(TICK_MS, () => this.#tick());
    void database.listen(
      LEASES_CHANNEL,
      (ids) => {
        this.headroom.recall(ids.split(',').map(Number), options.clock.monotonic());
        this.#sendChanges('now');
      },
      () => {
        // A recall may have been missed while the listener was disconnected.
        this.headroom.returnAll();
        this.#sendChanges('now');
      },
    );
  }

  async place(request: ReservationRequest, shares: readonly CounterShare[]): Promise<Leased | undefined> {
    const leased = await this.#place(request, shares);
    this.counts[leased === undefined ? 'waited' : 'leased']++;
    return leased;
  }

  async #place(request: ReservationRequest, shares: readonly CounterShare[]): Promise<Leased | undefined> {
    this.#checkTimeZone();
    // Leases need a pipelined connection: there is none behind a connection pooler, or while the server is out of connections.
    if (!this.#is_usable || shares.length === 0 || !this.#sender.is_healthy) return undefined;
    const at = this.#options.heartbeat.isFresh() ? this.#moment() : undefined;
    const placement = at && this.headroom.place(request, shares, at);
    this.headroom.record(shares, this.#options.clock.monotonic());
    if (placement === undefined) return undefined;
    this.#sendChanges('soon');
    const statuses = this.headroom.statuses(placement);
    const lease_id = this.#lease_id;
    const sent = await this.#sender.send({ lease_id, ...placement });
    if (sent === undefined) {
      if (lease_id === this.#lease_id) this.headroom.undo(placement);
      return undefined;
    }
    const is_sure = sent.is_handed && this.#options.heartbeat.isFresh();
    const was_taken_back = !is_sure && (await this.#options.inTime(this.#takeBack(request, sent)));
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
    if (this.#starting_over !== undefined || this.#closed || !this.headroom.has_changes) return undefined;
    const returns = this.headroom.takeReturns();
    const lots = this.#is_usable ? this.headroom.takeLots(this.#options.clock.monotonic()) : [];
    if (returns.length + lots.length === 0) return undefined;
    this.#under_way++;
    return { lease_id: this.#lease_id, returns, lots, headroom_factor: this.#headroom_factor };
  }

  /** Must run right after the batch's reply, so that later settlements are not part of the counters. */
  learn(
    names: readonly CounterName[],
    news: readonly BatchCounterState[],
    lots: readonly Lot[] = [],
  ): readonly CounterNumbers[] {
    const counters = names.map(counterText);
    for (const lot of this.#starting_over === undefined ? lots : []) {
      const state = news[counters.indexOf(counterText(lot.name))]!;
      this.counts[state.is_leased ? 'taken' : 'refused']++;
      this.headroom.granted(lot, state, this.#options.clock.monotonic());
    }
    return news.map(({ numbers }, i) => this.headroom.learn(counters[i]!, numbers));
  }

  done(time_zone: string): void {
    this.#under_way--;
    if (time_zone !== this.#options.time_zone()) this.headroom.returnAll();
    this.#sendChanges('now');
  }

  failed(error: unknown): void {
    this.#under_way--;
    this.#startOver(error);
  }

  /**
   * Recalls the leases on limits without headroom and decides again: until there is headroom, no process has a lease, or the
   * pauses are used up. Raises store_unavailable.
   * @param is_moved whether the statuses exclude the request's own reservation (a move), so that they cannot be compared
   */
  async recallAndDecide<Decision extends Pick<MoveDecision, 'exceeded'> | undefined>(
    first: Decision,
    decide: () => Promise<Decision>,
    is_moved: boolean,
  ): Promise<Decision> {
    let decision = first;
    // Once no leases are left, one more decision is enough: other requests may take freed headroom again and again.
    let was_leased = true;
    for (const pause_ms of RECALL_PAUSES_MS) {
      if (decision === undefined || decision.exceeded.length === 0) break;
      const { exceeded } = decision;
      const own = exceeded.filter((limit) =>
        this.headroom.returnLease(counterText(limit), this.#options.clock.monotonic()),
      );
      if (own.length > 0) await this.#options.send('now');
      const snapshots = await this.#options.statements.recall(exceeded);
      const is_leased = snapshots.some((counter) => counter.is_leased);
      const has_changed = is_moved || snapshots.some((counter, i) => hasMoreHeadroom(counter, exceeded[i]!));
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
    this.headroom.forget();
    await this.#options.send('now').catch(() => {});
    while (this.#sender.unwritten > 0 && !this.#retry.over) await this.#retry.wait();
    if (this.#sender.unwritten === 0) await this.#options.statements.endLeases().catch(() => {});
  }

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
    if (!is_first) this.headroom.returnAll();
  }

  #moment(): Moment | undefined {
    const database = this.#options.heartbeat.databaseNow();
    return database === undefined ? undefined : { database, monotonic: this.#options.clock.monotonic() };
  }

  #tick(): void {
    if (!this.#options.is_on()) this.headroom.returnAll();
    this.#checkTimeZone();
    const at = this.#moment();
    if (at !== undefined) this.headroom.returnIdle(at);
    this.#sendChanges('now');
  }

  #sendChanges(when: 'now' | 'soon'): void {
    if (this.headroom.has_changes && this.#starting_over === undefined) this.#options.send(when).catch(() => {});
  }

  #startOver(error: unknown): void {
    if (this.#starting_over !== undefined || this.#closed) return;
    this.#options.log.debug({ err: error }, 'returning all leases');
    this.headroom.forget();
    this.#sender.discardQueue();
    this.#options.heartbeat.suspectUnknownReservations();
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

function hasMoreHeadroom({ numbers }: CounterSnapshot, decided: LimitStatus): boolean {
  return (
    numbers.spent + numbers.reserved < decided.spent + decided.reserved ||
    numbers.spent + numbers.most < decided.spent + decided.most ||
    numbers.in_flight < decided.in_flight
  );
}

/** When a process takes a lease on a counter, and how large the lot is. */
export interface LeasePolicy {
  /** A counter with this many requests in a second gets a lease. */
  readonly busy_per_second: number;
  readonly seconds: number;
  /** A lot covers this many `seconds` of the recent rate, and at least this many requests of the largest recent size. */
  readonly requests: number;
  /** A lot is taken only if the remaining headroom is at least this many times as large. */
  readonly headroom_factor: number;
}

export const LEASE_POLICY: LeasePolicy = { busy_per_second: 4, seconds: 2, requests: 4, headroom_factor: 16 };

/** A budget lease: headroom on a counter that this process took in advance. `free` is the part that no request has taken yet. */
interface Lease {
  readonly counter: string;
  readonly counter_id: number;
  readonly free: Amounts;
  /** The largest limit that any lot was taken under; requests with a smaller limit do not use the lease. */
  limit: number;
  /** Milliseconds since the epoch by the database's clock; infinity if the lease does not expire. */
  readonly ends_at: number;
  numbers: { -readonly [Name in keyof CounterNumbers]: CounterNumbers[Name] };
  used_at: number;
}

/** A request whose amounts were taken from leases; `leases` has the order of `shares`. */
export interface Placement {
  readonly request: ReservationRequest;
  readonly shares: readonly CounterShare[];
  readonly leases: readonly Lease[];
}

/** A finished request, and what it spent per share, in the unit of the counter. */
export interface FinishedRequest {
  readonly shares: readonly CounterShare[];
  readonly spent: readonly number[];
  /** Whether the settlement was sent, so that counters read from now on include it. */
  sent: boolean;
}

/** The same moment by both clocks, in milliseconds. */
export interface Moment {
  readonly monotonic: number;
  readonly database: number;
}

const SECOND_MS = 1000;
const MAX_COUNTERS = 20_000;

interface Second extends Amounts {
  largest: number;
  largest_most: number;
  limit: number;
}

interface Use {
  second: number;
  now: Second;
  before: Second;
  backoff_until: number;
}

const nothing = (): Second => {
  return { amount: 0, most: 0, requests: 0, largest: 0, largest_most: 0, limit: Number.POSITIVE_INFINITY };
};

/** The recent demand per counter in this process, which decides the size of lots. */
class CounterUse {
  readonly #policy: LeasePolicy;
  readonly #uses = new LRUCache<string, Use>(atMost(MAX_COUNTERS));

  constructor(policy: LeasePolicy) {
    this.#policy = policy;
  }

  /** Records the demand of a request. @returns whether the counter is busy enough for a lease, and not in backoff. */
  record(share: CounterShare, monotonic: number): boolean {
    const { counter, amount, most } = share;
    const { now, before, backoff_until } = this.#at(counter, monotonic);
    now.amount += amount;
    now.most += most;
    now.requests++;
    now.largest = Math.max(now.largest, before.largest, amount);
    now.largest_most = Math.max(now.largest_most, before.largest_most, most);
    now.limit = Math.min(now.limit, smallestLimit(share));
    return Math.max(now.requests, before.requests) >= this.#policy.busy_per_second && backoff_until <= monotonic;
  }

  wanted(counter: string, monotonic: number): Amounts & { readonly limit: number } {
    const { now, before } = this.#at(counter, monotonic);
    const { seconds, requests } = this.#policy;
    const want = (of: keyof Amounts, largest: number) =>
      Math.min(Number.MAX_SAFE_INTEGER, Math.max(Math.max(now[of], before[of]) * seconds, largest * requests));
    return {
      amount: want('amount', Math.max(now.largest, before.largest)),
      most: want('most', Math.max(now.largest_most, before.largest_most)),
      requests: want('requests', 1),
      limit: Math.min(now.limit, before.limit),
    };
  }

  backOff(counter: string, monotonic: number, milliseconds: number): void {
    const use = this.#at(counter, monotonic);
    use.backoff_until = Math.max(use.backoff_until, monotonic + milliseconds);
  }

  isBackingOff(counter: string, monotonic: number): boolean {
    return (this.#uses.get(counter)?.backoff_until ?? 0) > monotonic;
  }

  #at(counter: string, monotonic: number): Use {
    const second = Math.floor(monotonic / SECOND_MS);
    let use = this.#uses.get(counter);
    if (use === undefined) {
      use = { second, now: nothing(), before: nothing(), backoff_until: 0 };
      this.#uses.set(counter, use);
    }
    if (use.second !== second) {
      use.before = use.second + 1 === second ? use.now : nothing();
      use.now = nothing();
      use.second = second;
    }
    return use;
  }
}

/** Safety margin before a window or a grant ends: the database's clock is known to about this much. */
const MARGIN_MS = 2000;
const IDLE_MS = 2000;
const REFUSED_MS = 1000;
const RECALLED_MS = 5000;

/** The leases of a process, in memory: like local token buckets that are refilled in lots from the shared counters. */
export class LeasedHeadroom {
  readonly #use: CounterUse;
  readonly #leases = new Map<string, Lease>();
  readonly #low = new Map<string, CounterName>();
  readonly #finished = new Set<FinishedRequest>();
  /** Recalled counters by id, with the monotonic end of their backoff. */
  readonly #recalled = new Map<number, number>();
  #returns: LeasePart[] = [];

  constructor(policy: LeasePolicy = LEASE_POLICY) {
    this.#use = new CounterUse(policy);
  }

  get has_changes(): boolean {
    return this.#low.size > 0 || this.#returns.length > 0;
  }

  /**
   * Records the demand of a request, whether a lease had headroom or not. If all its counters are busy, queues refills for
   * those that run low.
   */
  record(shares: readonly CounterShare[], monotonic: number): void {
    let is_busy = true;
    for (const share of shares) is_busy = this.#use.record(share, monotonic) && is_busy;
    if (!is_busy) return;
    for (const share of shares) if (this.#isLow(share, monotonic)) this.#low.set(share.counter, share.name);
  }

  /** Takes the amounts of a request from leases: on all its counters or none. */
  place(request: ReservationRequest, shares: readonly CounterShare[], at: Moment): Placement | undefined {
    const leases: Lease[] = [];
    for (const share of shares) {
      const lease = this.#leases.get(share.counter);
      if (lease === undefined || !hasHeadroom(lease, share, at.database)) return undefined;
      leases.push(lease);
    }
    for (let i = 0; i < shares.length; i++) {
      add(leases[i]!.free, shares[i]!, -1);
      leases[i]!.used_at = at.monotonic;
    }
    return { request, shares, leases };
  }

  undo({ shares, leases }: Placement): void {
    for (let i = 0; i < shares.length; i++) {
      const [lease, share] = [leases[i]!, shares[i]!];
      if (this.#leases.get(lease.counter) === lease) add(lease.free, share, 1);
      else this.#returns.push({ id: lease.counter_id, ...amountsOf(share) });
    }
  }

  /** The status of every money limit of a request, including the request, excluding the free part of leases. */
  statuses({ shares, leases }: Placement): readonly LimitStatus[] {
    return moneyStatuses(shares, (share) => withoutFree(leases[share]!));
  }

  /** Updates the known state of a counter. @returns the state without the free part of this process's lease. */
  learn(counter: string, numbers: CounterNumbers): CounterNumbers {
    const lease = this.#leases.get(counter);
    if (lease === undefined) return numbers;
    this.#update(lease, numbers);
    return withoutFree(lease);
  }

  /**
   * Applies a finished request to the known counters at once, and to every state read from the database until the settlement is
   * `sent`; the caller reports the settlement with `settled`.
   */
  finish(shares: readonly CounterShare[], spent: readonly number[]): FinishedRequest {
    const finished: FinishedRequest = { shares, spent, sent: false };
    this.#finished.add(finished);
    for (let i = 0; i < shares.length; i++) this.#apply(finished, i);
    return finished;
  }

  /** The settlement was written, or failed for good. */
  settled(finished: FinishedRequest): void {
    this.#finished.delete(finished);
  }

  takeLots(monotonic: number): Lot[] {
    const lots: Lot[] = [];
    for (const [counter, name] of this.#low) {
      if (this.#use.isBackingOff(counter, monotonic)) continue;
      const { limit, ...wanted } = this.#use.wanted(counter, monotonic);
      const free = this.#leases.get(counter)?.free;
      if (free !== undefined) add(wanted, free, -1);
      const amount = Math.max(0, wanted.amount);
      // The reserved amount never exceeds the worst case.
      lots.push({ name, limit, amount, most: Math.max(amount, wanted.most), requests: Math.max(1, wanted.requests) });
    }
    this.#low.clear();
    return lots;
  }

  takeReturns(): readonly LeasePart[] {
    return this.#returns.splice(0);
  }

  granted(lot: Lot, { is_leased, id, ends_at, numbers }: BatchCounterState, monotonic: number): void {
    const counter = counterText(lot.name);
    const known = this.#leases.get(counter);
    if (!is_leased) {
      this.#use.backOff(counter, monotonic, REFUSED_MS);
      return;
    }
    // The lease was recalled while the statement was in flight.
    if (this.#use.isBackingOff(counter, monotonic) || (this.#recalled.get(id) ?? 0) > monotonic) {
      this.#returns.push({ id, ...amountsOf(lot) });
      return;
    }
    if (known?.counter_id === id) {
      add(known.free, lot, 1);
      known.limit = Math.max(known.limit, lot.limit);
      return;
    }
    if (known !== undefined) this.#close(known);
    const lease: Lease = {
      ...{ counter, counter_id: id, limit: lot.limit, used_at: monotonic, ends_at },
      ...{ free: amountsOf(lot), numbers },
    };
    this.#leases.set(counter, lease);
    this.#update(lease, numbers);
  }

  recall(ids: readonly number[], monotonic: number): void {
    for (const id of ids) this.#recalled.set(id, monotonic + RECALLED_MS);
    for (const lease of [...this.#leases.values()])
      if (ids.includes(lease.counter_id)) this.returnLease(lease.counter, monotonic);
  }

  /** Returns the lease on a counter, and starts its backoff. @returns whether there was a lease. */
  returnLease(counter: string, monotonic: number): boolean {
    this.#use.backOff(counter, monotonic, RECALLED_MS);
    const lease = this.#leases.get(counter);
    if (lease !== undefined) this.#close(lease);
    return lease !== undefined;
  }

  returnIdle(at: Moment): void {
    for (const [id, until] of this.#recalled) if (until <= at.monotonic) this.#recalled.delete(id);
    for (const lease of [...this.#leases.values()]) {
      const is_idle = at.monotonic - lease.used_at > IDLE_MS;
      if (is_idle || lease.ends_at - MARGIN_MS <= at.database) this.#close(lease);
    }
  }

  returnAll(): void {
    for (const lease of [...this.#leases.values()]) this.#close(lease);
    this.#low.clear();
  }

  /** Drops all state; the caller returns the leases as a whole in the database. */
  forget(): void {
    this.#leases.clear();
    this.#returns = [];
    this.#low.clear();
  }

  /** Stores a state from the database, and applies the finished requests it does not include yet. */
  #update(lease: Lease, numbers: CounterNumbers): void {
    lease.numbers = { ...numbers };
    for (const finished of this.#finished) {
      if (finished.sent) continue;
      const at = finished.shares.findIndex(({ counter }) => counter === lease.counter);
      if (at >= 0) this.#apply(finished, at);
    }
  }

  #apply({ shares, spent }: FinishedRequest, at: number): void {
    const { counter, amount, most, requests } = shares[at]!;
    const numbers = this.#leases.get(counter)?.numbers;
    if (numbers === undefined) return;
    numbers.spent += spent[at]!;
    numbers.reserved = Math.max(0, numbers.reserved - amount);
    numbers.most = Math.max(0, numbers.most - most);
    numbers.in_flight = Math.max(0, numbers.in_flight - requests);
  }

  #close(lease: Lease): void {
    this.#leases.delete(lease.counter);
    // An empty lease is returned as well, because that deletes its row.
    this.#returns.push({ id: lease.counter_id, ...amountsOf(lease.free) });
  }

  #isLow({ counter }: CounterShare, monotonic: number): boolean {
    const free = this.#leases.get(counter)?.free;
    if (free === undefined) return true;
    const wanted = this.#use.wanted(counter, monotonic);
    return free.requests * 2 < wanted.requests || free.amount * 2 < wanted.amount || free.most * 2 < wanted.most;
  }
}

function hasHeadroom({ free, limit, ends_at, numbers }: Lease, share: CounterShare, now: number): boolean {
  return (
    // A run-time limit or grant may exceed the limit in shadow mode, and the lease follows the former: ask the database.
    (share.shadow === null || (numbers.set === null && numbers.granted === 0)) &&
    free.requests >= share.requests &&
    free.amount >= share.amount &&
    free.most >= share.most &&
    limit <= smallestLimit(share) &&
    now < ends_at - MARGIN_MS
  );
}

/** The smallest limit of a request on a counter, shadow mode included; infinity without a limit. */
function smallestLimit({ limit, shadow }: CounterShare): number {
  return Math.min(limit ?? Number.POSITIVE_INFINITY, shadow ?? Number.POSITIVE_INFINITY);
}

function amountsOf({ amount, most, requests }: Amounts): Amounts {
  return { amount, most, requests };
}

function add(to: Amounts, { amount, most, requests }: Amounts, times: 1 | -1): void {
  to.amount += times * amount;
  to.most += times * most;
  to.requests += times * requests;
}

/** A row that reaches the database even if this process is killed. */
interface SentRow {
  readonly is_handed: boolean;
  /** Resolves with whether the row was written; retried until it is, or fails for good. Never rejects. */
  readonly written: Promise<boolean>;
}

/** A row on its way; `sent` resolves with `undefined` if it was not sent. */
interface Outgoing {
  readonly row: LeasedRow;
  /** Milliseconds of `performance.now()`; the ledger's clock may be frozen. */
  readonly since: number;
  readonly sent: PromiseWithResolvers<SentRow | undefined>;
  readonly written: PromiseWithResolvers<boolean>;
}

interface RowSenderOptions {
  lanes(): Pick<PipelinedConnections, 'free'>;
  readonly statements: Pick<LedgerStatements, 'place' | 'placeAgain'>;
  readonly log: Log;
  /** Checked right before rows are sent: whether this process may still use its leases. */
  mayBeSent(): boolean;
  onFailure(error: unknown): void;
}

/** Milliseconds to wait for a free connection. Also the age of an unanswered statement at which leases are no longer used. */
const OVERDUE_MS = 250;
const MAX_ROWS = 500;
/** With more unanswered rows than this, new rows wait and share a statement. */
const FEW = 8;

/** Sends the rows of leased reservations over pipelined connections, and retries them until they are written. */
export class RowSender {
  readonly #options: RowSenderOptions;
  readonly #queue: Outgoing[] = [];
  readonly #sent = new Set<{ readonly at: number }>();
  readonly #again: Outgoing[] = [];
  readonly #retry = createRetryPause();
  #unanswered = 0;
  #unwritten = 0;
  #scheduled = false;
  #timeout: NodeJS.Timeout | undefined;
  #trying = false;

  constructor(options: RowSenderOptions) {
    this.#options = options;
  }

  get unwritten(): number {
    return this.#unwritten;
  }

  /** Whether the database confirms rows in time, so that more may be sent. */
  get is_healthy(): boolean {
    if (this.#again.length > 0) return false;
    const late = performance.now() - OVERDUE_MS;
    for (const { at } of this.#sent) if (at < late) return false;
    return this.#sent.size > 0 || this.#options.lanes().free() !== undefined;
  }

  /**
   * Resolves when the operating system has the row, or its connection broke while sending. Resolves with `undefined` if no
   * connection was free in time: the row is then never sent.
   */
  send(row: LeasedRow): Promise<SentRow | undefined> {
    const sent = Promise.withResolvers<SentRow | undefined>();
    this.#queue.push({ row, since: performance.now(), sent, written: Promise.withResolvers() });
    this.#schedule();
    return sent.promise;
  }

  discardQueue(): void {
    for (const { sent } of this.#queue.splice(0)) sent.resolve(undefined);
  }

  end(): void {
    this.#retry.end();
    this.discardQueue();
  }

  // Rows of one event-loop turn share a statement.
  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (!this.#options.mayBeSent()) this.discardQueue();
    while (this.#queue.length > 0) {
      const lane = this.#unanswered > FEW ? undefined : this.#options.lanes().free();
      if (lane === undefined) {
        this.#watch();
        return;
      }
      const batch = this.#queue.splice(0, MAX_ROWS);
      this.#unwritten += batch.length;
      const statement = this.#options.statements.place(
        lane,
        batch.map(({ row }) => row),
      );
      void this.#follow(statement, batch);
    }
  }

  async #follow({ handed, answered }: SentStatement, batch: readonly Outgoing[]): Promise<void> {
    const in_flight = { at: performance.now() };
    this.#sent.add(in_flight);
    this.#unanswered += batch.length;
    // The first report counts.
    const report = (is_handed: boolean) => {
      for (const { sent, written } of batch) sent.resolve({ is_handed, written: written.promise });
    };
    if (handed === undefined) report(true);
    handed?.then(
      () => report(true),
      () => {},
    );
    try {
      await answered;
      report(true);
      this.#unwritten -= batch.length;
      for (const { written } of batch) written.resolve(true);
    } catch (error) {
      // The row may have been sent in part: it is retried, and the caller releases it.
      report(false);
      this.#options.onFailure(error);
      this.#again.push(...batch);
      void this.#tryAgain();
    } finally {
      this.#sent.delete(in_flight);
      this.#unanswered -= batch.length;
      this.#schedule();
    }
  }

  #watch(): void {
    this.#timeout ??= setTimeout(() => {
      this.#timeout = undefined;
      const late = performance.now() - OVERDUE_MS;
      while (this.#queue.length > 0 && this.#queue[0]!.since <= late) this.#queue.shift()!.sent.resolve(undefined);
      if (this.#queue.length > 0) this.#watch();
    }, OVERDUE_MS);
  }

  /** Retries one row at a time: some may exist already, and one may be the cause of the error. */
  async #tryAgain(): Promise<void> {
    if (this.#trying) return;
    this.#trying = true;
    while (this.#again.length > 0) {
      const { row, written } = this.#again[0]!;
      try {
        await this.#options.statements.placeAgain(row);
        this.#retry.reset();
        written.resolve(true);
      } catch (err) {
        if (!isPermanent(err)) {
          if (!this.#retry.over) {
            await this.#retry.wait();
            continue;
          }
          // The row counts as unwritten, so that the lease is not returned and orphan recovery finds it.
          this.#unwritten++;
        }
        const { request_id } = row.request;
        this.#options.log.error({ err, request_id }, 'the reservation of a forwarded request could not be written');
        written.resolve(false);
      }
      this.#again.shift();
      this.#unwritten--;
    }
    this.#trying = false;
  }
}
