import { StageError } from '../../contract/errors.ts';
import type {
  ChargedAttempt,
  Clock,
  CounterName,
  CounterStatus,
  Ledger,
  LedgerIdentity,
  LimitDemand,
  LimitStatus,
  MoveDecision,
  Reservation,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../contract/services.ts';
import {
  assertReservable,
  BookedReservation,
  type Books,
  isCount,
  MOVED,
  nothingReserved,
} from '../../money/ledger/reservation.ts';
import { type Balance, type Counted, inFlightOf } from '../../money/limits/counted.ts';
import { alwaysCounted } from '../../money/limits/limit-demands.ts';
import {
  byLatestReset,
  type CountedDemand,
  type DemandStatus,
  demandStatuses,
  isLimit,
  lackOf,
  limitsOn,
  type Needs,
  statusesOf,
} from '../../money/limits/room.ts';
import { Counters } from './memory-counters.ts';
import { countRequest, hold, needsMore, type OpenRequest, put, putHeld, sharedCounter } from './memory-reservations.ts';
import { type LedgerRow, rowOf, spentOf } from './memory-rows.ts';

export type { LedgerRow };

/** An attempt to reserve: what was asked, the state of every limit before, and the limits that refused it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly statuses: readonly DemandStatus[];
  readonly exceeded: readonly LimitStatus[];
}

/** A ledger that lives as long as its process and follows the same rules as the one in the database. */
export class MemoryLedger implements Ledger, Books {
  /** Every reservation that was tried, oldest first. */
  readonly attempts: Attempt[] = [];
  /** Rows, oldest first. */
  readonly rows: LedgerRow[] = [];
  readonly counters: Counters;
  readonly #clock: Clock;
  readonly #isAway: () => boolean;
  readonly #open = new Map<string, OpenRequest>();
  readonly #typical = new Map<string, number>();

  /** Opens an empty ledger. While `isAway()` says so, it is out of reach like a database that does not answer. */
  constructor(options: {
    readonly clock: Clock;
    readonly time_zone?: string;
    readonly isAway?: () => boolean;
  }) {
    const { clock, time_zone = 'UTC', isAway = () => false } = options;
    this.#clock = clock;
    this.#isAway = isAway;
    this.counters = new Counters(() => clock.now(), time_zone);
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    assertReservable(request);
    const reservation = new BookedReservation(this, request, true);
    if (this.#isAway()) {
      if (request.on_store_error !== 'allow') throw away();
      this.#book(request, true);
      return { reservation, exceeded: [], shadows: [], statuses: [], unreserved: true };
    }
    const exceeded = this.#withoutRoom(request, false);
    this.attempts.push({ request, statuses: this.look(request.demands, request), exceeded });
    if (exceeded.length > 0) {
      return { exceeded, shadows: [], statuses: [], unreserved: false, decided_at: this.#clock.now() };
    }
    const shadows = this.#withoutRoom(request, true);
    this.#book(request, false);
    const statuses = statusesOf(this.counters.counted(inMoney(request.demands))).filter(isLimit);
    return { reservation, exceeded, shadows, statuses, unreserved: false };
  }

  unreserved(identity: LedgerIdentity): Reservation {
    return new BookedReservation(this, identity, false);
  }

  topUp(request_id: string, amount_nano_usd: number): void {
    const open = this.#open.get(request_id);
    if (open === undefined || open.unreserved) return;
    const raised = Math.min(amount_nano_usd, open.request.most_nano_usd);
    if (!(raised > open.amount_nano_usd)) return;
    put(open, -1);
    open.amount_nano_usd = raised;
    put(open, 1);
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision> {
    assertReservable(request);
    const open = this.#open.get(request.request_id);
    if (open === undefined) throw nothingReserved();
    if (this.#isAway() && !open.unreserved) throw away();
    const counters = request.demands.map((demand) => sharedCounter(open, demand) ?? this.counters.at(demand));
    const moved: OpenRequest = {
      ...{ request, counters: [...new Set(counters)], amount_nano_usd: request.amount_nano_usd },
      held: held.map((attempt) => hold(open, attempt)),
      unreserved: open.unreserved,
    };
    if (open.unreserved) {
      this.#open.set(request.request_id, moved);
      return MOVED;
    }
    put(open, -1);
    const growing = request.demands.filter((_, i) => needsMore(moved, open, counters[i]!));
    // What is held is there before the rest is asked for.
    putHeld(moved, 1);
    const [exceeded, shadows] = [false, true].map((in_shadow) =>
      this.#withoutRoom({ ...request, demands: growing }, in_shadow),
    ) as [LimitStatus[], LimitStatus[]];
    putHeld(moved, -1);
    const booked = exceeded.length === 0 ? moved : open;
    put(booked, 1);
    const { upstream } = open.request;
    if (booked === moved && held.some((attempt) => attempt.upstream === upstream && attempt.sends > 0))
      countRequest(open, moved);
    this.#open.set(request.request_id, booked);
    this.attempts.push({ request, statuses: this.look(request.demands, request), exceeded });
    if (exceeded.length > 0) return { exceeded, shadows: [], statuses: [], decided_at: this.#clock.now() };
    const statuses = statusesOf(this.counters.counted(inMoney(request.demands))).filter(isLimit);
    return { exceeded, shadows, statuses };
  }

  async settle(settlement: Settlement): Promise<void> {
    const { request_id, reserved } = settlement;
    const open = this.#end(request_id);
    if (open === undefined && (reserved || this.rows.some((row) => row.request_id === request_id))) return;
    const row = rowOf(settlement, open);
    this.rows.push(row);
    const counters = open?.counters ?? alwaysCounted(settlement).map((name) => this.counters.at(name));
    const held = new Map(open?.held.map((each) => [each.n, each]));
    const attempts = (isCount(settlement.cost_nano_usd) && settlement.attempts) || [];
    const apart = attempts.filter(({ n }) => held.has(n));
    const cost_apart = apart.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0);
    for (const counter of counters) counter.spent += spentOf(counter, row, cost_apart);
    for (const { n, cost_nano_usd } of apart)
      for (const counter of held.get(n)!.counters) counter.spent += cost_nano_usd;
  }

  async release(request_id: string): Promise<void> {
    this.#end(request_id);
  }

  typicalCost(user: string, model: string): number | undefined {
    return this.#typical.get(JSON.stringify([user, model]));
  }

  async statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    if (this.#isAway()) throw away();
    const statuses = statusesOf(this.counters.counted(inMoney(demands)));
    return statuses.map((status) => this.counters.withSpentByDay(status));
  }

  /** What is reserved for all requests under way, in nano-USD. */
  reserved(): number {
    return [...this.#open.values()].reduce((sum, open) => sum + (open.unreserved ? 0 : open.amount_nano_usd), 0);
  }

  /** What is counted in the current window. */
  balance(name: CounterName): Pick<LimitStatus, 'spent' | 'reserved' | 'most' | 'in_flight'> {
    const { spent, reserved, most, in_flight } = this.counters.at(name);
    return { spent, reserved, most, in_flight };
  }

  /** Puts something on a counter. */
  put(balance: Balance): void {
    const { spent, reserved, most = reserved, ...name } = balance;
    const counter = this.counters.at(name);
    counter.spent += spent;
    counter.reserved += reserved;
    counter.most += most;
    counter.in_flight += inFlightOf(balance);
  }

  /** Takes over what another ledger counts. */
  count({ balances, settings = [], grants = [] }: Counted): void {
    for (const balance of balances) this.put(balance);
    for (const { amount, changed, ...name } of settings) this.counters.set(name, amount, changed);
    for (const { amount, expires_at, changed, ...name } of grants) {
      this.counters.grant(name, amount, expires_at, changed);
    }
  }

  /** How the limits of demands would stand for a request; nothing is reserved. */
  look(demands: readonly LimitDemand[], needs: Needs): DemandStatus[] {
    return demandStatuses(this.counters.counted(demands), needs);
  }

  /** Says what requests of a caller to a model usually cost, in nano-USD. */
  teach(user: string, model: string, nano_usd: number): void {
    this.#typical.set(JSON.stringify([user, model]), nano_usd);
  }

  /** Counter by counter, those of money first, as the database looks at them. */
  #withoutRoom(request: ReservationRequest, in_shadow: boolean): LimitStatus[] {
    const others = request.demands.filter(({ unit }) => unit !== 'nano_usd');
    const counted = this.counters.counted([...inMoney(request.demands), ...others]);
    const by_counter = Map.groupBy(counted, ([, counter]) => counter);
    const limits = [...by_counter].flatMap(([counter, there]) => limitsOn(there.map(demandOf), counter, in_shadow));
    return limits.filter((limit) => lackOf(limit, request) !== undefined).toSorted(byLatestReset);
  }

  #book(request: ReservationRequest, unreserved: boolean): void {
    const counters = [...new Set(request.demands.map((demand) => this.counters.at(demand)))];
    const open = { request, counters, amount_nano_usd: request.amount_nano_usd, held: [], unreserved };
    if (!unreserved) put(open, 1);
    this.#open.set(request.request_id, open);
  }

  #end(request_id: string): OpenRequest | undefined {
    const open = this.#open.get(request_id);
    if (open === undefined) return undefined;
    this.#open.delete(request_id);
    if (!open.unreserved) put(open, -1);
    return open;
  }
}

function demandOf([demand]: CountedDemand): LimitDemand {
  return demand;
}

function away(): StageError {
  return new StageError('store_unavailable', 'The test says that the database is away.');
}

function inMoney(demands: readonly LimitDemand[]): LimitDemand[] {
  return demands.filter(({ unit }) => unit === 'nano_usd');
}
