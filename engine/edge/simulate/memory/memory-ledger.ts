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
import { beginningOfWindow, LIMIT_WINDOWS } from '../../../base/contract/windows.ts';
import { momentOf, wallClock } from '../../../base/kit/zoned-time.ts';
import { countsOf } from '../../../domain/budget/ledger/ledger-statements.ts';
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
  counterText,
  type DemandStatus,
  demandStatuses,
  isLimit,
  lackOf,
  limitsOn,
  NO_CHANGES,
  neededIn,
  statusesOf,
  withCounters,
} from '../../../domain/budget/limits/headroom.ts';
import { alwaysCounted } from '../../../domain/budget/limits/spend-limits.ts';
import { isUncounted } from '../../../domain/budget/reports/spending.ts';

/** An attempted reservation: the request, the limits before, and the limits that rejected it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly statuses: readonly DemandStatus[];
  readonly exceeded: readonly LimitStatus[];
}

/** A ledger row by column. */
export type LedgerRow = Readonly<Record<string, unknown>>;

/** A counter in one window, in milliseconds since the epoch; `end` is `null` for concurrent requests. */
interface Place extends CounterName {
  readonly start: number;
  readonly end: number | null;
}

interface OpenRequest {
  readonly request: ReservationRequest;
  readonly places: readonly Place[];
  amount_nano_usd: number;
  readonly held: readonly { readonly n: number; readonly cost_nano_usd: number; readonly places: readonly Place[] }[];
  /** Whether it was sent without a reservation during an outage of the ledger. */
  readonly unreserved: boolean;
}

/** In-memory ledger with the same rules as the database. Reservations of requests in flight are added up on demand. */
export class MemoryLedger implements Ledger, Books {
  readonly attempts: Attempt[] = [];
  readonly rows: LedgerRow[] = [];
  readonly #clock: Clock;
  readonly #time_zone: string;
  readonly #isAway: () => boolean;
  readonly #open = new Map<string, OpenRequest>();
  readonly #entries: (Place & Balance)[] = [];
  readonly #changed = new Map<string, NonNullable<Counted['changed']>[number]>();

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
    if (unreserved && request.on_store_error !== 'allow') throw storeUnavailableError();
    const places = distinct(request.demands.map((demand) => this.#at(demand)));
    const open = { request, places, amount_nano_usd: request.amount_nano_usd, held: [], unreserved };
    if (unreserved) {
      this.#open.set(request.request_id, open);
      return { reservation, ...MOVED, unreserved };
    }
    const exceeded = this.#withoutRoom(request, false);
    this.attempts.push({ request, statuses: this.#look(request), exceeded });
    if (exceeded.length > 0) return { ...MOVED, exceeded, unreserved, decided_at: this.#clock.now() };
    const shadows = this.#withoutRoom(request, true);
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
    if (raised > open.amount_nano_usd) open.amount_nano_usd = raised;
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision> {
    assertReservable(request);
    const { request_id } = request;
    const open = this.#open.get(request_id);
    if (open === undefined) throw nothingReserved();
    if (this.#isAway() && !open.unreserved) throw storeUnavailableError();
    // A counter of both upstreams stays in the window in which the reservation began.
    const places = request.demands.map(
      (demand) => open.places.find((place) => counterText(place) === counterText(demand)) ?? this.#at(demand),
    );
    const moved: OpenRequest = {
      ...{ request, places: distinct(places), amount_nano_usd: request.amount_nano_usd },
      held: held.map((attempt) => hold(open, attempt)),
      unreserved: open.unreserved,
    };
    if (open.unreserved) {
      this.#open.set(request_id, moved);
      return MOVED;
    }
    const demands = request.demands.filter((_, i) => needsMore(moved, open, places[i]!));
    // Costs of earlier attempts count before the new reservation is checked.
    this.#open.set(request_id, { ...moved, places: [] });
    const exceeded = this.#withoutRoom({ ...request, demands }, false);
    const shadows = this.#withoutRoom({ ...request, demands }, true);
    const has_room = exceeded.length === 0;
    this.#open.set(request_id, has_room ? moved : open);
    const was_sent = held.some(({ upstream, sends }) => upstream === open.request.upstream && sends > 0);
    // The per-upstream counters that it leaves count what was sent.
    const left = has_room && was_sent ? open.places.filter((place) => !moved.places.includes(place)) : [];
    for (const place of left) if (place.unit === 'requests' && place.window !== 'open') this.#spend(place, 1);
    this.attempts.push({ request, statuses: this.#look(request), exceeded });
    if (!has_room) return { ...MOVED, exceeded, decided_at: this.#clock.now() };
    return { exceeded, shadows, statuses: this.#statuses(request.demands).filter(isLimit) };
  }

  async settle(settlement: Settlement): Promise<void> {
    const { request_id, reserved } = settlement;
    const open = this.#open.get(request_id);
    this.#open.delete(request_id);
    if (open === undefined && (reserved || this.rows.some((row) => row.request_id === request_id))) return;
    const row = rowOf(settlement, open);
    this.rows.push(row);
    const places = open?.places ?? alwaysCounted(settlement).map((name) => this.#at(name));
    const apart = ((row.attempts as Settlement['attempts'] | null) ?? []).flatMap(({ n, cost_nano_usd }) => {
      const held = open?.held.find((each) => each.n === n);
      return held === undefined ? [] : { cost_nano_usd, places: held.places };
    });
    const cost = apart.reduce((left, { cost_nano_usd }) => left - cost_nano_usd, row.cost_nano_usd as number);
    const tokens = Object.values(countsOf(settlement.tokens)).reduce((sum, count) => sum + count, 0);
    const needs = { amount_nano_usd: cost, most_nano_usd: cost, tokens };
    for (const place of places) {
      if (place.window !== 'open') this.#spend(place, neededIn(place.unit, needs).amount);
    }
    for (const { cost_nano_usd, places } of apart) for (const place of places) this.#spend(place, cost_nano_usd);
  }

  async release(request_id: string): Promise<void> {
    this.#open.delete(request_id);
  }

  typicalCost(): undefined {}

  async statuses(demands: readonly LimitDemand[]): Promise<readonly CounterStatus[]> {
    if (this.#isAway()) throw storeUnavailableError();
    return this.#statuses(demands).map((status) => this.#withSpentByDay(status));
  }

  reserved(): number {
    return [...this.#open.values()].reduce((sum, open) => sum + (open.unreserved ? 0 : open.amount_nano_usd), 0);
  }

  balance(name: CounterName): Pick<LimitStatus, 'spent' | 'reserved' | 'most' | 'in_flight'> {
    const { spent, reserved, most, in_flight } = this.#numbers(name);
    return { spent, reserved, most, in_flight };
  }

  put(balance: Balance): void {
    this.#entries.push({ ...balance, ...this.#at(balance) });
  }

  count({ balances, changed = [] }: Counted): void {
    for (const balance of balances) this.put(balance);
    for (const each of changed) this.#changed.set(counterText(each), each);
  }

  /** Overrides the configured limits of a counter; in its unit. */
  set(name: CounterName, amount: number): void {
    this.#change(name, { set: { amount, at: this.#clock.now(), by: 'nobody' } });
  }

  /** Raises a limit until a time, in milliseconds since the epoch. */
  grant(name: CounterName, amount: number, expires_at: number): void {
    const { grants } = this.#changesOf(name);
    const grant = { id: `grant ${grants.length + 1}`, amount, expires_at, at: this.#clock.now(), by: 'nobody' };
    this.#change(name, { grants: [...grants, grant].toSorted((a, b) => a.expires_at - b.expires_at) });
  }

  #change(name: CounterName, changes: Partial<LimitChanges>): void {
    this.#changed.set(counterText(name), { ...name, changes: { ...this.#changesOf(name), ...changes } });
  }

  changes(name: CounterName): LimitChanges {
    return this.#numbers(name).changes ?? NO_CHANGES;
  }

  #changesOf(name: CounterName): LimitChanges {
    return this.#changed.get(counterText(name))?.changes ?? NO_CHANGES;
  }

  #spend(place: Place, spent: number): void {
    this.#entries.push({ ...place, spent, reserved: 0 });
  }

  #at({ scope, key, window, unit }: CounterName): Place {
    return { scope, key, window, unit, ...windowAt(window, this.#clock.now(), this.#time_zone) };
  }

  #numbers({ scope, key, window, unit }: CounterName): CounterNumbers {
    return this.#counted([{ scope, key, window, unit, limit: null, rule: '' }])[0]![1];
  }

  #counted(demands: readonly LimitDemand[]): CountedDemand[] {
    const now = this.#clock.now();
    const windows = new Map(LIMIT_WINDOWS.map((window) => [window, windowAt(window, now, this.#time_zone)]));
    const balances = [...this.#entries, ...[...this.#open.values()].flatMap(holdingsOf)].filter(
      ({ window, start }) => windows.get(window)!.start === start,
    );
    const known = { balances, changed: [...this.#changed.values()] };
    const counted = withCounters(demands, known, now);
    const dated = new Map(
      counted.map(([{ window }, counter]) => [counter, { ...counter, resets_at: windows.get(window)!.end }]),
    );
    return counted.map(([demand, counter]) => [demand, dated.get(counter)!]);
  }

  #look(request: ReservationRequest): DemandStatus[] {
    return demandStatuses(this.#counted(request.demands), request);
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
    const { start } = this.#at(status);
    const spent = this.#entries
      .filter(({ scope, key, window }) => scope === 'user' && key === status.key && window === 'day')
      .reduce((sum, { end, spent }) => (end! > start ? sum + spent : sum), 0);
    return { ...status, spent: Math.max(status.spent, spent) };
  }
}

const placeId = (place: Place): string => `${counterText(place)} ${place.start}`;

function distinct(places: readonly Place[]): Place[] {
  return [...new Map(places.map((place) => [placeId(place), place])).values()];
}

function holdingsOf({ request, places, amount_nano_usd, held, unreserved }: OpenRequest): (Place & Balance)[] {
  if (unreserved) return [];
  const own = places.map((place) => {
    const { amount, most } = neededIn(place.unit, { ...request, amount_nano_usd });
    return { ...place, spent: 0, reserved: amount, most, in_flight: 1 };
  });
  const earlier = held.flatMap(({ cost_nano_usd, places }) =>
    places.map((place) => ({ ...place, spent: 0, reserved: cost_nano_usd, in_flight: 0 })),
  );
  return [...own, ...earlier];
}

function needsMore(moved: OpenRequest, open: OpenRequest, place: Place): boolean {
  const on = (request: OpenRequest) => holdingsOf(request).filter((each) => placeId(each) === placeId(place));
  const [needed, had] = [on(moved), on(open)];
  const sum = (all: typeof had, of: (each: Balance) => number) => all.reduce((total, each) => total + of(each), 0);
  const most = (each: Balance) => each.most ?? each.reserved;
  const reserved = (each: Balance) => each.reserved;
  return had.length === 0 || sum(needed, reserved) > sum(had, reserved) || sum(needed, most) > sum(had, most);
}

/** Reserved cost of an earlier attempt, on its previous counters or the current ones. */
function hold({ held, places }: OpenRequest, { n, cost_nano_usd }: ChargedAttempt): OpenRequest['held'][number] {
  const spending = places.filter(({ unit }) => cost_nano_usd > 0 && unit === 'nano_usd');
  return held.find((each) => each.n === n) ?? { n, cost_nano_usd, places: spending };
}

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

function storeUnavailableError(): StageError {
  return new StageError('store_unavailable', 'The database is away in this test.');
}

const MINUTE_MS = 60_000;

/** Start and end of the window of a moment, in ms since the epoch. Of concurrent requests (`open`): no start, end `null`. */
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
