import type {
  ChargedAttempt,
  Clock,
  CounterName,
  CounterStatus,
  LimitDemand,
  LimitStatus,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { PipelinedConnection, SentStatement } from '../../../base/store/postgres-client.ts';
import {
  byLatestReset,
  type CountedDemand,
  type CounterNumbers,
  counterText,
  isLimit,
  lackOf,
  limitsOn,
  neededIn,
  percentToPpm,
  statusesOf,
} from '../limits/headroom.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { addSpentByDay } from '../reports/spending.ts';
import { isCount } from './reservation.ts';

/** The database access of the ledger. */
export type LedgerStore = Pick<Database, 'query'>;

/** One batch of the group commit. */
export interface Batch {
  readonly settlements: readonly Settlement[];
  readonly requests: readonly ReservationRequest[];
  /** The settlements with their late fields, if they are late: all of one database, and in the same windows. */
  readonly late?: readonly LateSettlement[];
  /** Deadline of reservations, by the database's clock. */
  readonly valid_until?: Date | undefined;
  readonly lease_id?: string;
  /** Leases to return, and lots to take if the remaining headroom is at least `headroom_factor` times as large. */
  readonly returns?: readonly LeasePart[];
  readonly lots?: readonly Lot[];
  readonly headroom_factor?: number;
}

export interface BatchResult {
  /** Whether each settlement was written; false for one that was written before. */
  readonly written: readonly boolean[];
  /** `undefined` after the deadline: nothing was reserved. */
  readonly decisions: readonly ReservationDecision[] | undefined;
}

/** Receives all counters after a batch. @returns their state as reported to clients. */
type Learn = (names: readonly CounterName[], news: readonly BatchCounterState[]) => readonly CounterNumbers[];

/** A reservation with amounts from leases, in the order of its shares. */
export interface LeasedRow extends Omit<PlacedRequest, 'at'> {
  readonly lease_id: string;
  readonly leases: readonly { readonly counter_id: number }[];
}

/** A counter, the unplaced part of all leases on it, and whether a live process has one. */
export interface CounterSnapshot {
  readonly is_leased: boolean;
  readonly free: Amounts;
  readonly numbers: CounterNumbers;
}

/** A move of a reservation to another upstream; see `Reservation.move`. */
export interface Move {
  readonly request: ReservationRequest;
  readonly held: readonly ChargedAttempt[];
}

export interface TopUp {
  readonly request_id: string;
  readonly amount_nano_usd: number;
}

const SPEND = `call spend(${Array.from({ length: 17 }, (_, i) => `$${i + 1}`).join(', ')}, null)`;
const PLACE = 'call place_rows($1, $2, $3, $4, $5, $6)';
/** Every time zone starts its days at a quarter of an hour of UTC: times within one quarter share their windows. */
const SAME_WINDOWS_MS = 900_000;
const MAX_RECENT_COSTS = 20_000;

interface StatementOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}

/** The SQL statements of the ledger, most for many requests at once. Errors are the database's. */
export class LedgerStatements {
  readonly #options: StatementOptions;

  constructor(options: StatementOptions) {
    this.#options = options;
  }

  /** Settles, returns leases, reserves, then takes lots, in one transaction. */
  async spend(batch: Batch, learn: Learn = (_, news) => news.map(({ numbers }) => numbers)): Promise<BatchResult> {
    const { settlements, requests, late = [], valid_until = null, lease_id = null, returns = [], lots = [] } = batch;
    const { database, clock, time_zone, process_id } = this.#options;
    const counters = new CounterList();
    const [settled, notes] = settlementRows(settlements, counters, late);
    const { placed, rows, at, limits } = placeAll(requests, counters);
    const forwarded_at = late.length === 0 ? null : new Date(Math.min(...late.map(({ at_ms }) => at_ms)));
    const [row] = await database.query<{ answer: string | null }>('ledger_batch', SPEND, [
      ...[late[0]?.database_id ?? null, process_id, databaseTime(clock), time_zone(), valid_until, forwarded_at],
      ...[lease_id, lots.length > 0 ? batch.headroom_factor : null, leaseParts(returns), ...counters.parameters(lots)],
      ...[at, ...limits, notes, settled, rows],
    ]);
    const answer: BatchAnswer = row?.answer == null ? { repeated: [] } : JSON.parse(row.answer);
    const numbers = learn(counters.names, (answer.counters ?? NONE).map(unpackBatchCounter));
    const written = settlements.map(({ request_id }) => !answer.repeated.includes(request_id));
    if (answer.late === true) return { written, decisions: undefined };
    const remarks = Map.groupBy(answer.remarks ?? NONE, ([request]) => request);
    const decisions = placed.map((each, i) =>
      readDecision(each, remarks.get(i), answer.decided_at!, (share) => numbers[each.at[share]! - 1]),
    );
    return { written, decisions };
  }

  async settleLate(late: readonly LateSettlement[]): Promise<readonly boolean[]> {
    const together = Map.groupBy(
      late,
      ({ at_ms, database_id }) => `${database_id} ${Math.floor(at_ms / SAME_WINDOWS_MS)}`,
    );
    const written = new Map<LateSettlement, boolean>();
    for (const some of together.values()) {
      const settlements = some.map(({ settlement }) => ({ ...settlement, reserved: false }));
      const result = await this.spend({ settlements, requests: [], late: some });
      some.forEach((each, i) => {
        written.set(each, result.written[i]!);
      });
    }
    return late.map((each) => written.get(each)!);
  }

  /** Sends rows of leased reservations that share a lease id. */
  place(lane: PipelinedConnection, rows: readonly LeasedRow[]): SentStatement {
    return lane.send('place_rows', PLACE, this.#placed(rows));
  }

  async placeAgain(row: LeasedRow): Promise<void> {
    await this.#options.database.query('place_rows', PLACE, this.#placed([row]));
  }

  #placed(rows: readonly LeasedRow[]): readonly unknown[] {
    const leased = new Map<number, LeasePart>();
    for (const { shares, leases } of rows) {
      shares.forEach(({ amount, most, requests }, i) => {
        const { counter_id: id } = leases[i]!;
        const sum = leased.get(id);
        if (sum === undefined) leased.set(id, { id, amount, most, requests });
        else {
          sum.amount += amount;
          sum.most += most;
          sum.requests += requests;
        }
      });
    }
    const sums = [...leased.values()];
    const positions = new Map(sums.map(({ id }, i) => [id, i + 1]));
    const [requests, at] = requestRows(
      rows.map((row) => ({ ...row, at: row.leases.map(({ counter_id }) => positions.get(counter_id)!) })),
    );
    const { process_id, clock } = this.#options;
    return [process_id, rows[0]!.lease_id, databaseTime(clock), requests, at, leaseParts(sums)];
  }

  async returnLeases(but: string | null): Promise<void> {
    const { database, process_id } = this.#options;
    await database.query('return_all_leases', 'select return_all_leases(array[$1::uuid], $2)', [process_id, but]);
  }

  /** Returns all leases once all rows are written, and reverses estimates made for rows believed lost. */
  async endLeases(): Promise<void> {
    await this.returnLeases(null);
    const { database, clock, process_id } = this.#options;
    await database.query('correct_leases', 'select correct_leases($1, $2)', [databaseTime(clock), process_id]);
  }

  /** Reads counters without headroom, and requests all processes to return their leases on them. */
  recall(names: readonly CounterName[]): Promise<readonly CounterSnapshot[]> {
    return this.#readSnapshots('recall_leases', 'l.counters, recall_leases(l.ids)', names, (found) => found);
  }

  /** Reads counters in the order of `names`; equal names share the result of `read`. */
  async #readSnapshots<Read>(
    statement: string,
    columns: string,
    names: readonly CounterName[],
    read: (found: CounterSnapshot) => Read,
  ): Promise<readonly Read[]> {
    const counters = new CounterList();
    const positions = names.map((name) => counters.position(name));
    const [row] = await this.#options.database.query<{ counters: string }>(
      statement,
      `select ${columns} from snapshot_counters($1, $2, $3, $4) as l`,
      [databaseTime(this.#options.clock), this.#options.time_zone(), ...counters.parameters()],
    );
    const found = (JSON.parse(row!.counters) as CounterSnapshot[]).map(read);
    return positions.map((position) => found[position - 1]!);
  }

  async databaseId(): Promise<string> {
    const known = await this.#readId();
    if (known !== undefined) return known;
    // All tables were emptied: spooled rows now belong to another database.
    const text = 'insert into database_identity default values on conflict do nothing';
    await this.#options.database.query('database_identity_make', text, []);
    const made = await this.#readId();
    if (made === undefined) throw new Error('the table database_identity cannot be given a row');
    return made;
  }

  async #readId(): Promise<string | undefined> {
    const text = 'select id from database_identity';
    const [row] = await this.#options.database.query<{ id: string }>('database_identity', text, []);
    return row?.id;
  }

  /** Moves each reservation in full or not at all; `undefined` if it no longer exists. */
  async move(moves: readonly Move[]): Promise<readonly (MoveDecision | undefined)[]> {
    const counters = new CounterList();
    const requests = moves.map(({ request }) => request);
    const { placed, rows, at, limits } = placeAll(requests, counters);
    const held = moves.map((move) => (move.held.length > 0 ? move.held : null));
    const [row] = await this.#options.database.query<{ answer: string }>(
      'ledger_move',
      'select move_reservations($1, $2, $3, $4, $5, $6, $7, $8, $9) as answer',
      [
        ...[databaseTime(this.#options.clock), this.#options.time_zone(), ...counters.parameters()],
        ...[at, ...limits, storableJson(held), rows],
      ],
    );
    const { missing, remarks, counters: found, decided_at }: MovesAnswer = JSON.parse(row!.answer);
    const remarks_of = Map.groupBy(remarks, ([request]) => request);
    const counters_of = Map.groupBy(found, ([request]) => request);
    return placed.map((each, i) => {
      if (missing.includes(i)) return undefined;
      const own = counters_of.get(i) ?? NONE;
      const numbers = new Map(own.map(([, index, ...packed]) => [index, unpackCounter(packed)]));
      const { unreserved: _, ...decision } = readDecision(each, remarks_of.get(i), decided_at, (share) =>
        numbers.get(share),
      );
      return decision;
    });
  }

  /** @returns how many reservations existed. */
  async release(request_ids: readonly string[]): Promise<number> {
    const text = 'select release_batch($1) as released';
    const [row] = await this.#options.database.query<{ released: number }>('ledger_release', text, [request_ids]);
    return row?.released ?? 0;
  }

  async topUp(top_ups: readonly TopUp[]): Promise<void> {
    await this.#options.database.query('ledger_top_up', 'select top_up_batch($1, $2)', [
      top_ups.map(({ request_id }) => request_id),
      top_ups.map(({ amount_nano_usd }) => amount_nano_usd),
    ]);
  }

  /** The current status of the money counters of these demands, also without a limit. */
  async statuses(demands: readonly LimitDemand[]): Promise<CounterStatus[]> {
    const money = demands.filter(({ unit, shadow = false }) => unit === 'nano_usd' && !shadow);
    if (money.length === 0) return [];
    const counted = await this.#readSnapshots('ledger_statuses', 'counters', money, withoutFree);
    const statuses = statusesOf(money.map((demand, i) => [demand, counted[i]!]));
    const [now, time_zone] = [databaseTime(this.#options.clock), this.#options.time_zone()];
    return addSpentByDay(statuses, { database: this.#options.database, now, time_zone });
  }

  /** Costs above 0 that upstreams reported in the last 24 hours; the latest 20,000, oldest first. */
  async recentCosts() {
    const rows = await this.#options.database.query<Pick<Settlement, 'user' | 'model' | 'cost_nano_usd'>>(
      'recent_costs',
      `select user_email as "user", model, cost_nano_usd from ledger
       where settled_at > coalesce($1::timestamptz, now()) - interval '1 day'
         and kind = 'request' and provenance ->> 'cost' = 'upstream' and cost_nano_usd > 0
       order by settled_at desc limit ${MAX_RECENT_COSTS}`,
      [databaseTime(this.#options.clock)],
    );
    return rows.reverse();
  }
}

function leaseParts(parts: readonly LeasePart[]): string {
  return rowArray(parts.map(({ id, amount, most, requests }) => [id, amount, most, requests]));
}

/** The time parameter of a statement; `null` uses the database's clock, which all replicas share. */
export function databaseTime(clock: Pick<Clock, 'now' | 'frozen'>): Date | null {
  return clock.frozen ? new Date(clock.now()) : null;
}

type Cell = string | number | bigint | boolean | null;

const PLAIN = /^[\w@.:/+-]+$/;

/** Quotes a text inside a row of an array; characters that PostgreSQL cannot store are replaced. */
function quoted(text: string): string {
  const inner = storable(text).replace(/["\\]/g, (character) => (character === '"' ? '\\"\\"' : '\\\\\\\\'));
  return `\\"${inner}\\"`;
}

export function rowCell(row: readonly Cell[]): string {
  const cells = row.map((cell) => (typeof cell === 'string' ? `"${storable(cell).replace(/["\\]/g, '$&$&')}"` : cell));
  return `(${cells.join(',')})`;
}

/** Packs rows as an array of a composite type: PostgreSQL parses one such parameter faster than an array per column. */
export function rowArray(rows: readonly (readonly Cell[])[]): string {
  let text = '{';
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!;
    text += i === 0 ? '"(' : ',"(';
    for (let column = 0; column < row.length; column++) {
      const cell = row[column]!;
      if (column > 0) text += ',';
      if (cell === null) continue;
      text += typeof cell === 'string' && !PLAIN.test(cell) ? quoted(cell) : cell;
    }
    text += ')"';
  }
  return `${text}}`;
}

/** Counters of a batch, each once; a position counts from 1, like an SQL array. */
class CounterList {
  readonly names: CounterName[] = [];
  readonly windows: string[] = [];
  /** Per counter, the index of its window, from 1. */
  readonly window_ns: number[] = [];
  readonly #positions = new Map<string, number>();

  position(counter: CounterName, name = counterText(counter)): number {
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const { window } = counter;
    this.window_ns.push(this.windows.indexOf(window) + 1 || this.windows.push(window));
    const position = this.names.push(counter);
    this.#positions.set(name, position);
    return position;
  }

  /** Parameters of statements: the windows, and the packed counters with the lots to lease. */
  parameters(lots: readonly Lot[] = []): readonly [windows: readonly string[], counters: string] {
    const wanted = new Map(lots.map((lot) => [this.position(lot.name), lot]));
    const rows = this.names.map(({ scope, key, unit }, i) => {
      const { requests = 0, amount = 0, most = 0, limit = 0 } = wanted.get(i + 1) ?? {};
      return [scope, key, this.window_ns[i]!, unit, requests, amount, most, Number.isFinite(limit) ? limit : null];
    });
    return [this.windows, rowArray(rows)];
  }
}

/** Amounts on a counter in its unit: the reserved amount, the worst case (`most`), and the number of requests. */
export interface Amounts {
  amount: number;
  most: number;
  requests: number;
}

/** A part of the lease on a counter. */
export interface LeasePart extends Amounts {
  readonly id: number;
}

/** The share of a request on one of its counters. */
export interface CounterShare extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  readonly demands: LimitDemand[];
  /** The smallest of the enforced limits; `null` without one. */
  limit: number | null;
  shadow: number | null;
}

/** The shares of a request, one per counter, those of money first: the ledger row names their counters. */
export function sharesOf(request: ReservationRequest): readonly CounterShare[] {
  const shares: CounterShare[] = [];
  for (const demand of request.demands) {
    const counter = counterText(demand);
    let share = shares.find((each) => each.counter === counter);
    if (share === undefined) {
      const needed = { ...neededIn(demand.unit, request), requests: 1 };
      share = { counter, name: demand, demands: [], limit: null, shadow: null, ...needed };
      shares.push(share);
    }
    share.demands.push(demand);
    const mode = demand.shadow === true ? 'shadow' : 'limit';
    share[mode] = smaller(share[mode], demand.limit);
  }
  if (shares.every(isMoney)) return shares;
  return shares.toSorted((a, b) => Number(isMoney(b)) - Number(isMoney(a)));
}

function isMoney({ name }: CounterShare): boolean {
  return name.unit === 'nano_usd';
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/** A reservation request with the positions of its shares in a statement. */
interface PlacedRequest {
  readonly request: ReservationRequest;
  readonly shares: readonly CounterShare[];
  readonly at: readonly number[];
}

/** Packs reservation requests for statements: the rows, and the positions of their counters. */
function requestRows(placed: readonly PlacedRequest[]): readonly [rows: string, at: readonly number[]] {
  let counted = 0;
  const rows = placed.map(({ request, shares }): readonly Cell[] => {
    const { request_id, amount_nano_usd, most_nano_usd, tokens, overshoot_percent } = request;
    const { protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = request;
    const ppm = overshoot_percent === undefined ? null : percentToPpm(overshoot_percent);
    const first = counted + 1;
    counted += shares.length;
    return [
      ...[request_id, amount_nano_usd, most_nano_usd, tokens, protocol, principal_id, user, team, project, token_id],
      ...[model, upstream, upstream_model, ppm, first, first + shares.filter(isMoney).length, counted],
    ];
  });
  return [rowArray(rows), placed.flatMap(({ at }) => at)];
}

/** Adds the counters of requests to those of a statement, and packs the requests with their limits. */
function placeAll(requests: readonly ReservationRequest[], counters: CounterList) {
  const placed = requests.map((request): PlacedRequest => {
    const shares = sharesOf(request);
    return { request, shares, at: shares.map(({ name, counter }) => counters.position(name, counter)) };
  });
  const [rows, at] = requestRows(placed);
  const shares = placed.flatMap((each) => each.shares);
  const is_shadowed = shares.some(({ shadow }) => shadow !== null);
  const limits = [shares.map(({ limit }) => limit), is_shadowed ? shares.map(({ shadow }) => shadow) : null] as const;
  return { placed, rows, at, limits };
}

/** A settlement in the windows of an earlier time; see `DatabaseLedger.settleAt`. */
export interface LateSettlement {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  readonly at_ms: number;
  /** The database it belongs to; other databases reject it. */
  readonly database_id: string;
}

/** An attempt that counts on other money counters than its request. */
type CountedAttempt = ChargedAttempt & { readonly counters?: readonly CounterName[] };

/**
 * Packs settlements for `spend`. A row is written even with invalid numbers: invalid counts become 0, and an invalid cost
 * becomes the reserved amount.
 * @param late the same settlements with their late fields, if they are late
 * @returns the rows, and the values they share as JSON
 */
function settlementRows(
  settlements: readonly Settlement[],
  counters: CounterList,
  late: readonly LateSettlement[] = [],
): readonly [rows: string, notes: string] {
  const notes = new Map<string, number>();
  const rows = settlements.map((settlement, i): readonly Cell[] => {
    const { request_id, status, aborted, upstream_ms, upstream_request_id = null } = settlement;
    const { input, output, cache_read, cache_write_5m, cache_write_1h } = countsOf(settlement.tokens);
    const cost = isCount(settlement.cost_nano_usd) ? settlement.cost_nano_usd : null;
    const attempts = cost === null ? undefined : settlement.attempts;
    const note = noteOf(settlement);
    const note_n = notes.get(note) ?? notes.size;
    if (note_n === notes.size) notes.set(note, note_n);
    return [
      ...[request_id, Number.isInteger(status) ? status : null, aborted],
      ...[input, output, cache_read, cache_write_5m, cache_write_1h],
      ...[cost, Number.isFinite(upstream_ms) ? upstream_ms! : null, upstream_request_id, note_n],
      settlement.reserved && attempts === undefined ? null : restOf(settlement, counters, attempts, late[i]),
    ];
  });
  return [rowArray(rows), `[${[...notes.keys()].join(',')}]`];
}

/**
 * The extra fields of a settlement. With a reservation, identity and counters come from it; without one, they are here. The
 * last upstream is here after several attempts.
 */
function restOf(
  settlement: Settlement,
  counters: CounterList,
  attempts: readonly CountedAttempt[] | undefined,
  late: LateSettlement | undefined,
): string {
  const { upstream, upstream_model, protocol, principal_id, user, team, project, token_id, model } = settlement;
  const placed = attempts?.map(({ counters: apart, ...attempt }) =>
    apart === undefined ? attempt : { ...attempt, counters: apart.map((counter) => counters.position(counter)) },
  );
  const where = [upstream, upstream_model, placed === undefined ? null : storableJson(placed)];
  if (settlement.reserved) return rowCell([...where, ...Array<null>(9).fill(null)]);
  const money = late?.counters.filter(({ unit }) => unit === 'nano_usd') ?? [];
  const counted = money.length > 0 ? money : alwaysCounted(settlement);
  const positions = counted.map((counter) => counters.position(counter));
  return rowCell([
    ...[...where, protocol, principal_id, user, team, project, token_id, model, `{${positions.join(',')}}`],
    late === undefined ? null : new Date(late.at_ms).toISOString(),
  ]);
}

function noteOf(settlement: Settlement): string {
  const { server_tools, billed, cache_requested_ttl, cache_effective_ttl, possibly_billed_nano_usd } = settlement;
  const provenance = {
    ...settlement.provenance,
    ...(possibly_billed_nano_usd !== undefined && { possibly_billed_nano_usd }),
    ...(!isCount(settlement.cost_nano_usd) && { cost: 'estimate' }),
  };
  return storableJson({ provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl });
}

/** Token counts with 0 for invalid values. */
export function countsOf(tokens: TokenCounts): TokenCounts {
  const count = (value: number) => (isCount(value) ? value : 0);
  return {
    input: count(tokens.input),
    output: count(tokens.output),
    cache_read: count(tokens.cache_read),
    cache_write_5m: count(tokens.cache_write_5m),
    cache_write_1h: count(tokens.cache_write_1h),
  };
}

/** A lot to lease on a counter, in its unit; an infinite limit is not checked. */
export interface Lot extends Readonly<Amounts> {
  readonly name: CounterName;
  readonly limit: number;
}

type PackedCounter = readonly [
  spent: number,
  reserved: number,
  in_flight: number,
  most: number,
  set: number | null,
  granted: number | null,
  resets_at: number | null,
];

/**
 * Counters without headroom, by index of the request and of the counter among its own. Shadow mode adds the number of
 * counters to the index.
 */
type Remarks = readonly (readonly [request: number, index: number, ...PackedCounter])[];

interface BatchAnswer {
  readonly repeated: readonly string[];
  readonly late?: boolean;
  readonly remarks?: Remarks;
  readonly decided_at?: number;
  readonly counters?: readonly PackedBatchCounter[] | null;
}

type PackedBatchCounter = readonly [id: number, is_leased: boolean, ends_at: number | null, ...PackedCounter];

interface MovesAnswer {
  readonly missing: readonly number[];
  readonly remarks: Remarks;
  readonly counters: readonly (readonly [request: number, index: number, ...PackedCounter])[];
  readonly decided_at: number;
}

/** A counter after a batch, and whether a lot was leased on it. */
export interface BatchCounterState {
  readonly id: number;
  readonly numbers: CounterNumbers;
  readonly is_leased: boolean;
  /** When the lease expires, in milliseconds since the epoch; infinity if it does not. */
  readonly ends_at: number;
}

function unpackCounter(packed: PackedCounter): CounterNumbers {
  const [spent, reserved, in_flight, most, set, granted, resets_at] = packed;
  return { spent, reserved, in_flight, most, set, granted: granted ?? 0, resets_at };
}

function unpackBatchCounter([id, is_leased, ends_at, ...packed]: PackedBatchCounter): BatchCounterState {
  return { id, numbers: unpackCounter(packed), is_leased, ends_at: ends_at ?? Number.POSITIVE_INFINITY };
}

/** The numbers of a counter without the part of leases that no request has taken. */
export function withoutFree({ numbers, free }: Omit<CounterSnapshot, 'is_leased'>): CounterNumbers {
  return {
    ...numbers,
    reserved: Math.max(0, numbers.reserved - free.amount),
    most: Math.max(0, numbers.most - free.most),
    in_flight: Math.max(0, numbers.in_flight - free.requests),
  };
}

const NONE: readonly never[] = [];

/** @param numbersOf the numbers of a share's counter, by its index */
function readDecision(
  { request, shares }: PlacedRequest,
  remarks: Remarks | undefined,
  decided_at: number,
  numbersOf: (share: number) => CounterNumbers | undefined,
): ReservationDecision {
  if (remarks === undefined) {
    return { exceeded: NONE, shadows: NONE, statuses: moneyStatuses(shares, numbersOf), unreserved: false };
  }
  const exceeded: LimitStatus[] = [];
  const shadows: LimitStatus[] = [];
  for (const [, index, ...packed] of remarks) {
    const in_shadow = index >= shares.length;
    const limits = limitsOn(shares[index % shares.length]!.demands, unpackCounter(packed), in_shadow);
    const lacking = limits.filter((limit) => lackOf(limit, request) !== undefined);
    // Beyond 2^53 the exact decision is the database's: it found no headroom.
    (in_shadow ? shadows : exceeded).push(...(lacking.length > 0 ? lacking : limits));
  }
  exceeded.sort(byLatestReset);
  shadows.sort(byLatestReset);
  if (exceeded.length > 0) return { exceeded, shadows, statuses: NONE, unreserved: false, decided_at };
  return { exceeded, shadows, statuses: moneyStatuses(shares, numbersOf), unreserved: false };
}

/** The statuses of the money limits of a request. @param numbersOf the numbers of a share's counter, by its index */
export function moneyStatuses(
  shares: readonly CounterShare[],
  numbersOf: (share: number) => CounterNumbers | undefined,
): readonly LimitStatus[] {
  const counted: CountedDemand[] = [];
  for (let i = 0; i < shares.length && isMoney(shares[i]!); i++) {
    const numbers = numbersOf(i);
    if (numbers !== undefined) for (const demand of shares[i]!.demands) counted.push([demand, numbers]);
  }
  return counted.length === 0 ? NONE : statusesOf(counted).filter(isLimit);
}
