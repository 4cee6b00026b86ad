import { StageError } from '../../../base/contract/errors.ts';
import type {
  ChargedAttempt,
  Clock,
  CounterName,
  CounterStatus,
  Ledger,
  LedgerIdentity,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitWindow,
  MoveDecision,
  Reservation,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import { momentOf, wallClock } from '../../../base/kit/zoned-time.ts';
import { countsOf } from '../../../domain/budget/ledger/batch-request.ts';
import {
  assertReservable,
  BookedReservation,
  type Books,
  isCount,
  ledgerIdentity,
  MOVED,
  nothingReserved,
} from '../../../domain/budget/ledger/reservation.ts';
import {
  type Balance,
  byLatestReset,
  type Counted,
  type CountedDemand,
  type CounterNumbers,
  counterId,
  type DemandStatus,
  demandStatuses,
  grantedIn,
  inFlightOf,
  isLimit,
  lackOf,
  limitsOn,
  type Needs,
  neededIn,
  statusesOf,
} from '../../../domain/budget/limits/room.ts';
import { alwaysCounted } from '../../../domain/budget/limits/spend-limits.ts';
import { isUncounted } from '../../../domain/budget/reports/spending.ts';

/** An attempt to reserve: what was asked, the state of every limit before, and the limits that refused it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly statuses: readonly DemandStatus[];
  readonly exceeded: readonly LimitStatus[];
}

/** A row of the ledger, by the names of its columns. */
export type LedgerRow = Readonly<Record<string, unknown>>;

/** A counter in one window; numbers in its unit. */
interface Counter {
  readonly name: CounterName;
  readonly resets_at: number | null;
  spent: number;
  reserved: number;
  most: number;
  in_flight: number;
}

/** A reservation, or a request that went out without one. */
interface OpenRequest {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
  amount_nano_usd: number;
  /** Earlier attempts, with the counters of money they count on where they cost something. */
  readonly held: readonly {
    readonly n: number;
    readonly cost_nano_usd: number;
    readonly counters: readonly Counter[];
  }[];
  /** Whether it went out with nothing reserved, because the ledger was away. */
  readonly unreserved: boolean;
}

/** Who changed a limit, and when, in milliseconds since the epoch. */
type ChangedBy = Pick<NonNullable<LimitChanges['set']>, 'at' | 'by'>;

/** A ledger that lives as long as its process and follows the same rules as the one in the database. */
export class MemoryLedger implements Ledger, Books {
  /** Every reservation that was tried, oldest first. */
  readonly attempts: Attempt[] = [];
  /** Rows, oldest first. */
  readonly rows: LedgerRow[] = [];
  readonly #clock: Clock;
  readonly #time_zone: string;
  readonly #isAway: () => boolean;
  readonly #open = new Map<string, OpenRequest>();
  readonly #counters = new Map<string, Counter>();
  readonly #settings = new Map<string, NonNullable<LimitChanges['set']>>();
  readonly #grants = new Map<string, LimitChanges['grants']>();

  /** Opens an empty ledger. While `isAway()` says so, it is out of reach like a database that does not answer. */
  constructor(options: { readonly clock: Clock; readonly time_zone?: string; readonly isAway?: () => boolean }) {
    const { clock, time_zone = 'UTC', isAway = () => false } = options;
    this.#clock = clock;
    this.#time_zone = time_zone;
    this.#isAway = isAway;
  }

  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    assertReservable(request);
    const reservation = new BookedReservation(this, request, true);
    const unreserved = this.#isAway();
    if (unreserved && request.on_store_error !== 'allow') throw away();
    const counters = [...new Set(request.demands.map((demand) => this.#at(demand)))];
    const open = { request, counters, amount_nano_usd: request.amount_nano_usd, held: [], unreserved };
    if (unreserved) {
      this.#open.set(request.request_id, open);
      return { reservation, ...MOVED, unreserved };
    }
    const exceeded = this.#withoutRoom(request, false);
    this.attempts.push({ request, statuses: this.look(request.demands, request), exceeded });
    if (exceeded.length > 0) return { ...MOVED, exceeded, unreserved, decided_at: this.#clock.now() };
    const shadows = this.#withoutRoom(request, true);
    put(holdingsOf(open), 1);
    this.#open.set(request.request_id, open);
    return { reservation, exceeded, shadows, statuses: this.#statuses(request.demands).filter(isLimit), unreserved };
  }

  unreserved(identity: LedgerIdentity): Reservation {
    return new BookedReservation(this, identity, false);
  }

  topUp(request_id: string, amount_nano_usd: number): void {
    const open = this.#open.get(request_id);
    if (open === undefined || open.unreserved) return;
    const raised = Math.min(amount_nano_usd, open.request.most_nano_usd);
    if (!(raised > open.amount_nano_usd)) return;
    put(holdingsOf(open), -1);
    open.amount_nano_usd = raised;
    put(holdingsOf(open), 1);
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision> {
    assertReservable(request);
    const open = this.#open.get(request.request_id);
    if (open === undefined) throw nothingReserved();
    if (this.#isAway() && !open.unreserved) throw away();
    const { upstream } = open.request;
    // A counter that both come under is kept in the window in which the reservation began.
    const counters = request.demands.map(
      (demand) => open.counters.find(({ name }) => counterId(name) === counterId(demand)) ?? this.#at(demand),
    );
    const moved: OpenRequest = {
      ...{ request, counters: [...new Set(counters)], amount_nano_usd: request.amount_nano_usd },
      held: held.map((attempt) => hold(open, attempt)),
      unreserved: open.unreserved,
    };
    if (open.unreserved) {
      this.#open.set(request.request_id, moved);
      return MOVED;
    }
    put(holdingsOf(open), -1);
    const demands = request.demands.filter((_, i) => needsMore(moved, open, counters[i]!));
    // What is held is there before the rest is asked for.
    put(heldFor(moved), 1);
    const [exceeded, shadows] = [
      this.#withoutRoom({ ...request, demands }, false),
      this.#withoutRoom({ ...request, demands }, true),
    ];
    put(heldFor(moved), -1);
    const has_room = exceeded.length === 0;
    put(holdingsOf(has_room ? moved : open), 1);
    if (has_room) this.#open.set(request.request_id, moved);
    if (has_room && held.some((attempt) => attempt.upstream === upstream && attempt.sends > 0)) countSent(open, moved);
    this.attempts.push({ request, statuses: this.look(request.demands, request), exceeded });
    if (!has_room) return { ...MOVED, exceeded, decided_at: this.#clock.now() };
    return { exceeded, shadows, statuses: this.#statuses(request.demands).filter(isLimit) };
  }

  async settle(settlement: Settlement): Promise<void> {
    const { request_id, reserved } = settlement;
    const open = this.#end(request_id);
    if (open === undefined && (reserved || this.rows.some((row) => row.request_id === request_id))) return;
    const row = rowOf(settlement, open);
    this.rows.push(row);
    const counters = open?.counters ?? alwaysCounted(settlement).map((name) => this.#at(name));
    const apart = ((row.attempts as Settlement['attempts'] | null) ?? []).flatMap(({ n, cost_nano_usd }) => {
      const held = open?.held.find((each) => each.n === n);
      return held === undefined ? [] : { cost_nano_usd, counters: held.counters };
    });
    const cost = apart.reduce((left, { cost_nano_usd }) => left - cost_nano_usd, row.cost_nano_usd as number);
    const tokens = Object.values(countsOf(settlement.tokens)).reduce((sum, count) => sum + count, 0);
    for (const counter of counters) {
      const { unit, window } = counter.name;
      const needs = { amount_nano_usd: cost, most_nano_usd: cost, tokens };
      if (window !== 'open') counter.spent += neededIn(unit, needs).amount;
    }
    for (const { cost_nano_usd, counters } of apart) for (const counter of counters) counter.spent += cost_nano_usd;
  }

  async release(request_id: string): Promise<void> {
    this.#end(request_id);
  }

  /** Nobody has asked for anything before. */
  typicalCost(): undefined {}

  async statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    if (this.#isAway()) throw away();
    return this.#statuses(demands).map((status) => this.#withSpentByDay(status));
  }

  /** What is reserved for all requests under way, in nano-USD. */
  reserved(): number {
    return [...this.#open.values()].reduce((sum, open) => sum + (open.unreserved ? 0 : open.amount_nano_usd), 0);
  }

  /** What is counted in the current window. */
  balance(name: CounterName): Pick<LimitStatus, 'spent' | 'reserved' | 'most' | 'in_flight'> {
    const { spent, reserved, most, in_flight } = this.#at(name);
    return { spent, reserved, most, in_flight };
  }

  /** Puts something on a counter. */
  put(balance: Balance): void {
    const { spent, reserved, most = reserved } = balance;
    const counter = this.#at(balance);
    counter.spent += spent;
    put([[counter, reserved, most, inFlightOf(balance)]], 1);
  }

  /** Takes over what another ledger counts. */
  count({ balances, settings = [], grants = [] }: Counted): void {
    for (const balance of balances) this.put(balance);
    for (const setting of settings) this.set(setting, setting.amount, setting.changed);
    for (const grant of grants) this.grant(grant, grant.amount, grant.expires_at, grant.changed);
  }

  /** How the limits of demands would stand for a request; nothing is reserved. */
  look(demands: readonly LimitDemand[], needs: Needs): DemandStatus[] {
    return demandStatuses(this.#counted(demands), needs);
  }

  /** Sets a limit in place of all configured ones on the counter; in its unit. */
  set(name: CounterName, amount: number, { at, by }: ChangedBy = this.#byNobody()): void {
    this.#settings.set(counterId(name), { amount, at, by });
  }

  /** Adds room until a moment, in milliseconds since the epoch. */
  grant(name: CounterName, amount: number, expires_at: number, { at, by }: ChangedBy = this.#byNobody()): void {
    const others = this.#grants.get(counterId(name)) ?? [];
    const all = [...others, { id: `grant ${others.length + 1}`, amount, at, by, expires_at }];
    this.#grants.set(
      counterId(name),
      all.toSorted((a, b) => a.expires_at - b.expires_at),
    );
  }

  /** What was set and granted on a counter. */
  changes(name: CounterName): LimitChanges {
    const grants = this.#grants.get(counterId(name)) ?? [];
    return {
      set: this.#settings.get(counterId(name)) ?? null,
      grants: grants.filter(({ expires_at }) => this.#clock.now() < expires_at),
    };
  }

  #byNobody(): ChangedBy {
    return { at: this.#clock.now(), by: 'nobody' };
  }

  /** The counter in its current window; opened where there is none. */
  #at({ scope, key, window, unit }: CounterName): Counter {
    const name = { scope, key, window, unit };
    const { start, end } = windowAt(window, this.#clock.now(), this.#time_zone);
    const id = `${counterId(name)} ${start}`;
    const counter = this.#counters.get(id) ?? { name, resets_at: end, spent: 0, reserved: 0, most: 0, in_flight: 0 };
    this.#counters.set(id, counter);
    return counter;
  }

  /** Demands with the numbers of their counters. */
  #counted(demands: readonly LimitDemand[]): CountedDemand[] {
    const known = new Map<Counter, CounterNumbers>();
    return demands.map((demand) => {
      const counter = this.#at(demand);
      const { name, ...numbers } = counter;
      const changes = this.changes(name);
      const [set, granted] = [changes.set?.amount ?? null, grantedIn(changes)];
      const found = known.get(counter) ?? {
        ...numbers,
        set,
        granted,
        ...((set !== null || granted > 0) && { changes }),
      };
      known.set(counter, found);
      return [demand, found];
    });
  }

  #statuses(demands: readonly LimitDemand[]): CounterStatus[] {
    return statusesOf(this.#counted(demands.filter(({ unit }) => unit === 'nano_usd')));
  }

  /** Counter by counter, those of money first, as the database looks at them. */
  #withoutRoom(request: ReservationRequest, in_shadow: boolean): LimitStatus[] {
    const money_first = request.demands.toSorted(
      (a, b) => Number(b.unit === 'nano_usd') - Number(a.unit === 'nano_usd'),
    );
    const by_counter = Map.groupBy(this.#counted(money_first), ([, counter]) => counter);
    return [...by_counter]
      .flatMap(([counter, there]) =>
        limitsOn(
          there.map(([demand]) => demand),
          counter,
          in_shadow,
        ),
      )
      .filter((limit) => lackOf(limit, request) !== undefined)
      .toSorted(byLatestReset);
  }

  /** The status of a user's week or month that nothing limits with what the user spent on its days. */
  #withSpentByDay(status: CounterStatus): CounterStatus {
    if (!isUncounted(status)) return status;
    const { start } = windowAt(status.window, this.#clock.now(), this.#time_zone);
    const spent = [...this.#counters.values()].reduce((sum, { name: { scope, key, window }, resets_at, spent }) => {
      return scope === 'user' && key === status.key && window === 'day' && resets_at! > start ? sum + spent : sum;
    }, 0);
    return { ...status, spent: Math.max(status.spent, spent) };
  }

  #end(request_id: string): OpenRequest | undefined {
    const open = this.#open.get(request_id);
    this.#open.delete(request_id);
    if (open !== undefined && !open.unreserved) put(holdingsOf(open), -1);
    return open;
  }
}

/** What a request has on a counter: reserved, at most, and how many requests it is. */
type Holding = readonly [counter: Counter, amount: number, most: number, in_flight: number];

/** What is held for earlier attempts. */
function heldFor({ held }: OpenRequest): Holding[] {
  return held.flatMap(({ cost_nano_usd: cost, counters }) =>
    counters.map((counter): Holding => [counter, cost, cost, 0]),
  );
}

/** That, and what is reserved. */
function holdingsOf(open: OpenRequest): Holding[] {
  const { request, counters, amount_nano_usd } = open;
  const own = counters.map((counter): Holding => {
    const { amount, most } = neededIn(counter.name.unit, { ...request, amount_nano_usd });
    return [counter, amount, most, 1];
  });
  return [...own, ...heldFor(open)];
}

/** Puts something on counters, or takes it off again. */
function put(holdings: readonly Holding[], sign: 1 | -1): void {
  for (const [counter, amount, most, in_flight] of holdings) {
    counter.reserved += sign * amount;
    counter.most += sign * most;
    counter.in_flight += sign * in_flight;
  }
}

/** Whether a reservation needs more of a counter than another one has on it. */
function needsMore(moved: OpenRequest, open: OpenRequest, counter: Counter): boolean {
  const [needed, had] = [moved, open].map((each) => holdingsOf(each).filter(([on]) => on === counter)) as [
    Holding[],
    Holding[],
  ];
  const sum = (all: readonly Holding[], which: 1 | 2) => all.reduce((total, holding) => total + holding[which], 0);
  return had.length === 0 || sum(needed, 1) > sum(had, 1) || sum(needed, 2) > sum(had, 2);
}

/** Counts a request that was sent to an upstream which it leaves in the minute of that upstream. */
function countSent(open: OpenRequest, moved: OpenRequest): void {
  for (const counter of open.counters) {
    const { unit, window } = counter.name;
    if (unit === 'requests' && window !== 'open' && !moved.counters.includes(counter)) counter.spent++;
  }
}

/** An earlier attempt as it is held: where it was before, or on the counters of the reservation as it is. */
function hold({ held, counters }: OpenRequest, { n, cost_nano_usd }: ChargedAttempt): OpenRequest['held'][number] {
  const counts = counters.filter(({ name }) => cost_nano_usd > 0 && name.unit === 'nano_usd');
  return held.find((each) => each.n === n) ?? { n, cost_nano_usd, counters: counts };
}

/** Columns of a row that a settlement has by the same name. */
const TOLD = [
  ...(['server_tools', 'billed', 'cache_requested_ttl', 'cache_effective_ttl'] as const),
  ...(['upstream_ms', 'upstream_request_id'] as const),
];

/** Who asked for what is known from the reservation; what is no count becomes 0, and such a cost what was reserved. */
function rowOf(settlement: Settlement, open: OpenRequest | undefined): LedgerRow {
  const { attempts, upstream, upstream_model, status, aborted, cost_nano_usd, provenance } = settlement;
  const { user: user_email, ...identity } = ledgerIdentity(open?.request ?? settlement);
  const tokens = Object.entries(countsOf(settlement.tokens)).map(([kind, count]) => [`${kind}_tokens`, count]);
  const priced = isCount(cost_nano_usd);
  return {
    ...{ ...identity, user_email, ...(attempts !== undefined && { upstream, upstream_model }) },
    ...Object.fromEntries([...tokens, ...TOLD.map((name) => [name, settlement[name] ?? null])]),
    status: Number.isInteger(status) ? status : null,
    aborted,
    cost_nano_usd: priced ? cost_nano_usd : (open?.amount_nano_usd ?? 0),
    attempts: (priced && attempts) || null,
    kind: 'request',
    provenance: priced ? provenance : { ...provenance, cost: 'estimate' },
  };
}

function away(): StageError {
  return new StageError('store_unavailable', 'The test says that the database is away.');
}

const MINUTE_MS = 60_000;

/**
 * When the window that a moment lies in began and ends, in milliseconds since the epoch; what is counted only while it is
 * under way began always, and its end is `null`.
 */
function windowAt(kind: LimitWindow, at_ms: number, time_zone: string): { start: number; end: number | null } {
  if (kind === 'open') return { start: Number.NEGATIVE_INFINITY, end: null };
  if (kind === 'minute') {
    const start = Math.floor(at_ms / MINUTE_MS) * MINUTE_MS;
    return { start, end: start + MINUTE_MS };
  }
  /** The window so many after the one that a moment lies in. */
  const startOf = (moment: number, after: 0 | 1): number => {
    const date = new Date(wallClock(moment, time_zone));
    const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
    const monday = kind === 'week' ? day - ((date.getUTCDay() + 6) % 7) : day;
    const days = Date.UTC(year, month, monday + after * (kind === 'week' ? 7 : 1));
    return momentOf(kind === 'month' ? Date.UTC(year, month + after) : days, time_zone);
  };
  const start = startOf(at_ms, 0);
  // Where a day has no midnight the clock shows one o'clock at the start, and the day ends at midnight all the same.
  return { start, end: startOf(start, 1) };
}
