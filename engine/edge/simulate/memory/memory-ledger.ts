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
import { beginningOfWindow } from '../../../base/contract/windows.ts';
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
} from '../../../domain/budget/limits/headroom.ts';
import { alwaysCounted } from '../../../domain/budget/limits/spend-limits.ts';
import { isUncounted } from '../../../domain/budget/reports/spending.ts';

/** An attempted reservation: the request, the limits before, and the limits that refused it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly statuses: readonly DemandStatus[];
  readonly exceeded: readonly LimitStatus[];
}

/** A ledger row by column. */
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

/** A request in flight, with or without reservation. */
interface OpenRequest {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
  amount_nano_usd: number;
  /** Reserved costs of earlier attempts, with their spend counters. */
  readonly held: readonly {
    readonly n: number;
    readonly cost_nano_usd: number;
    readonly counters: readonly Counter[];
  }[];
  /** Whether it was sent without a reservation during an outage of the ledger. */
  readonly unreserved: boolean;
}

/** Author and time of a limit change, in milliseconds since the epoch. */
type ChangedBy = Pick<NonNullable<LimitChanges['set']>, 'at' | 'by'>;

/** In-memory ledger with the same rules as the database. */
export class MemoryLedger implements Ledger, Books {
  /** Attempted reservations, oldest first. */
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

  /** Opens an empty ledger. `isAway()` simulates an outage. */
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
    // A counter of both upstreams stays in the window in which the reservation began.
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
    // Costs of earlier attempts count before the new reservation is checked.
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

  /** There is no history. */
  typicalCost(): undefined {}

  async statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    if (this.#isAway()) throw away();
    return this.#statuses(demands).map((status) => this.#withSpentByDay(status));
  }

  /** Total reserved for requests in flight, in nano-USD. */
  reserved(): number {
    return [...this.#open.values()].reduce((sum, open) => sum + (open.unreserved ? 0 : open.amount_nano_usd), 0);
  }

  /** Balance of the current window. */
  balance(name: CounterName): Pick<LimitStatus, 'spent' | 'reserved' | 'most' | 'in_flight'> {
    const { spent, reserved, most, in_flight } = this.#at(name);
    return { spent, reserved, most, in_flight };
  }

  /** Adds to a counter. */
  put(balance: Balance): void {
    const { spent, reserved, most = reserved } = balance;
    const counter = this.#at(balance);
    counter.spent += spent;
    put([[counter, reserved, most, inFlightOf(balance)]], 1);
  }

  /** Imports the counters of another ledger. */
  count({ balances, settings = [], grants = [] }: Counted): void {
    for (const balance of balances) this.put(balance);
    for (const setting of settings) this.set(setting, setting.amount, setting.changed);
    for (const grant of grants) this.grant(grant, grant.amount, grant.expires_at, grant.changed);
  }

  /** Limit statuses for a request, without reserving. */
  look(demands: readonly LimitDemand[], needs: Needs): DemandStatus[] {
    return demandStatuses(this.#counted(demands), needs);
  }

  /** Overrides the configured limits of a counter; in its unit. */
  set(name: CounterName, amount: number, { at, by }: ChangedBy = this.#byNobody()): void {
    this.#settings.set(counterId(name), { amount, at, by });
  }

  /** Raises a limit until a time, in milliseconds since the epoch. */
  grant(name: CounterName, amount: number, expires_at: number, { at, by }: ChangedBy = this.#byNobody()): void {
    const others = this.#grants.get(counterId(name)) ?? [];
    const all = [...others, { id: `grant ${others.length + 1}`, amount, at, by, expires_at }];
    this.#grants.set(
      counterId(name),
      all.toSorted((a, b) => a.expires_at - b.expires_at),
    );
  }

  /** Override and grants of a counter. */
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

  /** The counter in its current window, created if necessary. */
  #at({ scope, key, window, unit }: CounterName): Counter {
    const name = { scope, key, window, unit };
    const { start, end } = windowAt(window, this.#clock.now(), this.#time_zone);
    const id = `${counterId(name)} ${start}`;
    const counter = this.#counters.get(id) ?? { name, resets_at: end, spent: 0, reserved: 0, most: 0, in_flight: 0 };
    this.#counters.set(id, counter);
    return counter;
  }

  /** Demands with their counters. */
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

  /** Exceeded limits by counter, spend counters first, as in the database. */
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

  /** Status of a user's uncounted week or month, from the days. */
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

/** Reservation on a counter: amount, maximum, number of requests. */
type Holding = readonly [counter: Counter, amount: number, most: number, in_flight: number];

/** Reserved costs of earlier attempts. */
function heldFor({ held }: OpenRequest): Holding[] {
  return held.flatMap(({ cost_nano_usd: cost, counters }) =>
    counters.map((counter): Holding => [counter, cost, cost, 0]),
  );
}

/** All reservations of a request, with earlier attempts. */
function holdingsOf(open: OpenRequest): Holding[] {
  const { request, counters, amount_nano_usd } = open;
  const own = counters.map((counter): Holding => {
    const { amount, most } = neededIn(counter.name.unit, { ...request, amount_nano_usd });
    return [counter, amount, most, 1];
  });
  return [...own, ...heldFor(open)];
}

/** Adds reservations to counters, or removes them. */
function put(holdings: readonly Holding[], sign: 1 | -1): void {
  for (const [counter, amount, most, in_flight] of holdings) {
    counter.reserved += sign * amount;
    counter.most += sign * most;
    counter.in_flight += sign * in_flight;
  }
}

/** Whether a moved reservation needs more of a counter than before. */
function needsMore(moved: OpenRequest, open: OpenRequest, counter: Counter): boolean {
  const [needed, had] = [moved, open].map((each) => holdingsOf(each).filter(([on]) => on === counter)) as [
    Holding[],
    Holding[],
  ];
  const sum = (all: readonly Holding[], which: 1 | 2) => all.reduce((total, holding) => total + holding[which], 0);
  return had.length === 0 || sum(needed, 1) > sum(had, 1) || sum(needed, 2) > sum(had, 2);
}

/** Counts a sent request on the per-upstream counters that it leaves. */
function countSent(open: OpenRequest, moved: OpenRequest): void {
  for (const counter of open.counters) {
    const { unit, window } = counter.name;
    if (unit === 'requests' && window !== 'open' && !moved.counters.includes(counter)) counter.spent++;
  }
}

/** Reserved cost of an earlier attempt, on its previous counters or the current ones. */
function hold({ held, counters }: OpenRequest, { n, cost_nano_usd }: ChargedAttempt): OpenRequest['held'][number] {
  const counts = counters.filter(({ name }) => cost_nano_usd > 0 && name.unit === 'nano_usd');
  return held.find((each) => each.n === n) ?? { n, cost_nano_usd, counters: counts };
}

/** Columns with the same name in a settlement. */
const SETTLED_COLUMNS = [
  ...(['server_tools', 'billed', 'cache_requested_ttl', 'cache_effective_ttl'] as const),
  ...(['upstream_ms', 'upstream_request_id'] as const),
];

/** Builds a row: the identity comes from the reservation, invalid counts become 0, an invalid cost the reserved amount. */
function rowOf(settlement: Settlement, open: OpenRequest | undefined): LedgerRow {
  const { attempts, upstream, upstream_model, status, aborted, cost_nano_usd, provenance } = settlement;
  const { user: user_email, ...identity } = ledgerIdentity(open?.request ?? settlement);
  const tokens = Object.entries(countsOf(settlement.tokens)).map(([kind, count]) => [`${kind}_tokens`, count]);
  const priced = isCount(cost_nano_usd);
  return {
    ...{ ...identity, user_email, ...(attempts !== undefined && { upstream, upstream_model }) },
    ...Object.fromEntries([...tokens, ...SETTLED_COLUMNS.map((name) => [name, settlement[name] ?? null])]),
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
 * Start and end of the window of a moment, in milliseconds since the epoch. The window `open` (concurrent requests) has no start and
 * the end `null`.
 */
function windowAt(kind: LimitWindow, at_ms: number, time_zone: string): { start: number; end: number | null } {
  if (kind === 'open') return { start: Number.NEGATIVE_INFINITY, end: null };
  if (kind === 'minute') {
    const start = Math.floor(at_ms / MINUTE_MS) * MINUTE_MS;
    return { start, end: start + MINUTE_MS };
  }
  const startOf = (moment: number, later: 0 | 1) =>
    momentOf(beginningOfWindow(kind, wallClock(moment, time_zone), later), time_zone);
  const start = startOf(at_ms, 0);
  // A day without midnight starts at one o'clock, but ends at midnight.
  return { start, end: startOf(start, 1) };
}
