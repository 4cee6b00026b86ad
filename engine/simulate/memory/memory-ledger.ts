import type { Window } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
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
} from '../../contract/services.ts';
import { momentOf, wallClock } from '../../kit/zoned-time.ts';
import { countsOf } from '../../money/ledger/batch-request.ts';
import {
  assertReservable,
  BookedReservation,
  type Books,
  isCount,
  MOVED,
  nothingReserved,
} from '../../money/ledger/reservation.ts';
import {
  type Balance,
  byLatestReset,
  type Counted,
  type CountedDemand,
  type CounterNumbers,
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
} from '../../money/limits/room.ts';
import { alwaysCounted } from '../../money/limits/spend-limits.ts';
import { isUncounted } from '../../money/reports/spending.ts';

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

  /** Nobody has asked for anything before. */
  typicalCost(): undefined {}

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

/** A counter in its current window; numbers in its unit. */
interface Counter {
  readonly name: CounterName;
  readonly resets_at: number | null;
  spent: number;
  reserved: number;
  most: number;
  in_flight: number;
}

/** Counters in memory, what was set and granted on them, and the windows they count in. */
class Counters {
  readonly #now: () => number;
  readonly #time_zone: string;
  readonly #counters = new Map<string, Counter>();
  readonly #settings = new Map<string, NonNullable<LimitChanges['set']>>();
  readonly #grants = new Map<string, LimitChanges['grants'][number][]>();

  constructor(now: () => number, time_zone: string) {
    this.#now = now;
    this.#time_zone = time_zone;
  }

  /** The counter in its current window; opened where there is none. */
  at({ scope, key, window, unit }: CounterName): Counter {
    const name = { scope, key, window, unit };
    const { start, end } = windowAt(window, this.#now(), this.#time_zone);
    const id = `${idOf(name)} ${start}`;
    const fresh = { name, resets_at: end, spent: 0, reserved: 0, most: 0, in_flight: 0 };
    const counter = this.#counters.get(id) ?? fresh;
    this.#counters.set(id, counter);
    return counter;
  }

  /** Demands with the numbers of their counters. */
  counted(demands: readonly LimitDemand[]): CountedDemand[] {
    const known = new Map<Counter, CounterNumbers>();
    return demands.map((demand) => {
      const counter = this.at(demand);
      const numbers = known.get(counter) ?? this.#numbersOf(counter);
      known.set(counter, numbers);
      return [demand, numbers];
    });
  }

  #numbersOf(counter: Counter): CounterNumbers {
    const { name, ...numbers } = counter;
    const changes = this.changes(name);
    const set = changes.set?.amount ?? null;
    const granted = grantedIn(changes);
    return { ...numbers, set, granted, ...((set !== null || granted > 0) && { changes }) };
  }

  /** What was set and granted on a counter. */
  changes(name: CounterName): LimitChanges {
    const id = idOf(name);
    const grants = (this.#grants.get(id) ?? []).filter(({ expires_at }) => this.#now() < expires_at);
    return { set: this.#settings.get(id) ?? null, grants };
  }

  /** The status of a user's week or month that nothing limits with what the user spent on its days. */
  withSpentByDay(status: CounterStatus): CounterStatus {
    if (!isUncounted(status)) return status;
    const { start } = windowAt(status.window, this.#now(), this.#time_zone);
    const days = [...this.#counters.values()].filter(
      ({ name: { scope, key, window }, resets_at }) =>
        scope === 'user' && key === status.key && window === 'day' && resets_at! > start,
    );
    const spent = days.reduce((sum, day) => sum + day.spent, 0);
    return { ...status, spent: Math.max(status.spent, spent) };
  }

  /** Sets a limit in place of all configured ones on the counter; in its unit. */
  set(name: CounterName, amount: number, { at, by }: ChangedBy = this.#byNobody()): void {
    this.#settings.set(idOf(name), { amount, at, by });
  }

  #byNobody(): ChangedBy {
    return { at: this.#now(), by: 'nobody' };
  }

  /** Adds room until a moment, in milliseconds since the epoch. */
  grant(name: CounterName, amount: number, expires_at: number, { at, by }: ChangedBy = this.#byNobody()): void {
    const id = idOf(name);
    const others = this.#grants.get(id) ?? [];
    const one = { id: `grant ${others.length + 1}`, amount, at, by, expires_at };
    this.#grants.set(
      id,
      [...others, one].toSorted((a, b) => a.expires_at - b.expires_at),
    );
  }
}

/** Who changed a limit, and when, in milliseconds since the epoch. */
type ChangedBy = Pick<NonNullable<LimitChanges['set']>, 'at' | 'by'>;

function idOf({ scope, key, window, unit }: CounterName): string {
  return JSON.stringify([scope, key, window, unit]);
}

/** An earlier attempt, and the counters of money it counts on where it costs something. */
interface HeldAttempt {
  readonly n: number;
  readonly cost_nano_usd: number;
  readonly counters: readonly Counter[];
}

/** A reservation, or a request that went out without one. */
interface OpenRequest {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
  amount_nano_usd: number;
  /** Earlier attempts, where they count. */
  readonly held: readonly HeldAttempt[];
  /** Whether it went out with nothing reserved, because the ledger was away. */
  readonly unreserved: boolean;
}

/** Puts what is reserved for a request on its counters, or takes it off again. */
function put(open: OpenRequest, sign: 1 | -1): void {
  const { request, counters, amount_nano_usd } = open;
  for (const counter of counters) {
    const { amount, most } = neededIn(counter.name.unit, { ...request, amount_nano_usd });
    counter.reserved += sign * amount;
    counter.most += sign * most;
    counter.in_flight += sign;
  }
  putHeld(open, sign);
}

/** The same for what is held for earlier attempts. */
function putHeld({ held }: OpenRequest, sign: 1 | -1): void {
  for (const { cost_nano_usd, counters } of held) {
    for (const counter of counters) {
      counter.reserved += sign * cost_nano_usd;
      counter.most += sign * cost_nano_usd;
    }
  }
}

/** What a reservation has on a counter, now and at most. */
function partOf({ request, counters, amount_nano_usd, held }: OpenRequest, counter: Counter) {
  const own = neededIn(counter.name.unit, { ...request, amount_nano_usd });
  const [amount, most] = counters.includes(counter) ? [own.amount, own.most] : [0, 0];
  const there = held.filter((each) => each.counters.includes(counter));
  const kept = there.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0);
  return { on_it: counters.includes(counter) || there.length > 0, amount: amount + kept, most: most + kept };
}

/** Whether a reservation needs more of a counter than another one has on it. */
function needsMore(moved: OpenRequest, open: OpenRequest, counter: Counter): boolean {
  const [needed, before] = [partOf(moved, counter), partOf(open, counter)];
  return !before.on_it || needed.amount > before.amount || needed.most > before.most;
}

/** The counter on which a reservation is already, in the window it began in. */
function sharedCounter({ counters }: OpenRequest, { scope, key, window, unit }: CounterName): Counter | undefined {
  return counters.find(
    ({ name }) => name.scope === scope && name.key === key && name.window === window && name.unit === unit,
  );
}

/** Counts a request that was sent to an upstream which it leaves in the minute of that upstream. */
function countRequest(open: OpenRequest, moved: OpenRequest): void {
  for (const counter of open.counters) {
    const { unit, window } = counter.name;
    if (unit === 'requests' && window !== 'open' && !moved.counters.includes(counter)) counter.spent++;
  }
}

/** An earlier attempt as it is held: where it was before, or on the counters of the reservation as it is. */
function hold({ held, counters }: OpenRequest, { n, cost_nano_usd }: ChargedAttempt): HeldAttempt {
  const before = held.find((each) => each.n === n);
  const counts = cost_nano_usd > 0;
  return before ?? { n, cost_nano_usd, counters: counters.filter(({ name }) => counts && name.unit === 'nano_usd') };
}

/** A row of the ledger, by the names of its columns. */
export type LedgerRow = Readonly<Record<string, unknown>>;

const TOKEN_COLUMNS = [
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
];

/** What a request that is over adds to a counter; nothing where only what is under way counts. */
function spentOf({ name: { unit, window } }: Counter, row: LedgerRow, cost_apart: number): number {
  if (window === 'open') return 0;
  if (unit === 'requests') return 1;
  if (unit === 'tokens') return TOKEN_COLUMNS.reduce((sum, column) => sum + (row[column] as number), 0);
  return (row.cost_nano_usd as number) - cost_apart;
}

/** Who asked for what is known from the reservation; what is no count becomes 0, and such a cost what was reserved. */
function rowOf(settlement: Settlement, open: OpenRequest | undefined): LedgerRow {
  const { tokens, status, aborted, cost_nano_usd, provenance, server_tools, billed } = settlement;
  const { attempts, upstream, upstream_model, cache_requested_ttl, cache_effective_ttl } = settlement;
  const { upstream_ms, upstream_request_id } = settlement;
  const asked = open?.request ?? settlement;
  const identity = attempts === undefined ? asked : { ...asked, upstream, upstream_model };
  const { input, output, cache_read, cache_write_5m, cache_write_1h } = countsOf(tokens);
  const priced = isCount(cost_nano_usd);
  return {
    request_id: identity.request_id,
    protocol: identity.protocol,
    principal_id: identity.principal_id,
    user_email: identity.user,
    team: identity.team,
    project: identity.project,
    token_id: identity.token_id,
    model: identity.model,
    upstream: identity.upstream,
    upstream_model: identity.upstream_model,
    status: Number.isInteger(status) ? status : null,
    aborted,
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: cache_read,
    cache_write_5m_tokens: cache_write_5m,
    cache_write_1h_tokens: cache_write_1h,
    cost_nano_usd: priced ? cost_nano_usd : (open?.amount_nano_usd ?? 0),
    server_tools: server_tools ?? null,
    billed: billed ?? null,
    attempts: (priced && attempts) || null,
    cache_requested_ttl: cache_requested_ttl ?? null,
    cache_effective_ttl: cache_effective_ttl ?? null,
    upstream_ms: upstream_ms ?? null,
    upstream_request_id: upstream_request_id ?? null,
    kind: 'request',
    provenance: priced ? provenance : { ...provenance, cost: 'estimate' },
  };
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

const MINUTE_MS = 60_000;

function startOnWall(kind: Window, wall_ms: number): Date {
  const date = new Date(wall_ms);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (kind === 'month') return new Date(Date.UTC(year, month));
  const after_monday = kind === 'week' ? (date.getUTCDay() + 6) % 7 : 0;
  return new Date(Date.UTC(year, month, day - after_monday));
}

/**
 * When the window that a moment lies in began and ends, in milliseconds since the epoch; what is counted only while it is
 * under way began always, and its end is `null`.
 */
function windowAt(kind: LimitWindow, at_ms: number, time_zone: string): { start: number; end: number | null } {
  if (kind === 'open') return { start: Number.NEGATIVE_INFINITY, end: null };
  if (kind === 'minute') {
    const start = at_ms - (((at_ms % MINUTE_MS) + MINUTE_MS) % MINUTE_MS);
    return { start, end: start + MINUTE_MS };
  }
  const start = momentOf(startOnWall(kind, wallClock(at_ms, time_zone)).getTime(), time_zone);
  // Where a day has no midnight the clock shows one o'clock at the start, and the day ends at midnight all the same.
  const next = new Date(wallClock(start, time_zone));
  if (kind === 'month') next.setUTCMonth(next.getUTCMonth() + 1);
  else next.setUTCDate(next.getUTCDate() + (kind === 'day' ? 1 : 7));
  return { start, end: momentOf(startOnWall(kind, next.getTime()).getTime(), time_zone) };
}
