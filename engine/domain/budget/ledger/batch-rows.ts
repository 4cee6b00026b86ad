import type {
  ChargedAttempt,
  CounterName,
  LimitDemand,
  LimitStatus,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import {
  byLatestReset,
  type CountedDemand,
  type CounterNumbers,
  isLimit,
  lackOf,
  limitsOn,
  neededIn,
  percentToPpm,
  statusesOf,
} from '../limits/headroom.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { isCount } from './reservation.ts';

type Cell = string | number | bigint | boolean | null;

/** Texts that need no quotes. */
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

/** A unique name of a counter. */
export function counterName({ scope, key, window, unit }: CounterName): string {
  // Only the key can contain blanks, so it comes last.
  return `${scope} ${window} ${unit} ${key}`;
}

/** Counters of a batch, each once; a position counts from 1, like an SQL array. */
export class CounterList {
  readonly names: CounterName[] = [];
  readonly windows: string[] = [];
  /** Per counter, the index of its window, from 1. */
  readonly window_ns: number[] = [];
  readonly #positions = new Map<string, number>();

  position(counter: CounterName, name = counterName(counter)): number {
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

/** The share of a request on one of its counters. */
export interface CounterShare extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  /** The limits of the request on the counter. */
  readonly demands: LimitDemand[];
  /** The smallest of the enforced limits; `null` without one. */
  limit: number | null;
  /** Likewise in shadow mode. */
  shadow: number | null;
}

/** The shares of a request, one per counter, those of money first: the ledger row names their counters. */
export function sharesOf(request: ReservationRequest): readonly CounterShare[] {
  const shares: CounterShare[] = [];
  for (const demand of request.demands) {
    const counter = counterName(demand);
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
export interface PlacedRequest {
  readonly request: ReservationRequest;
  readonly shares: readonly CounterShare[];
  readonly at: readonly number[];
}

/** Packs reservation requests for statements: the rows, and the positions of their counters. */
export function requestRows(placed: readonly PlacedRequest[]): readonly [rows: string, at: readonly number[]] {
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

/** The limits at each of these positions, and those in shadow mode; `null` without any. */
export function limitsAt(placed: readonly PlacedRequest[]) {
  const shares = placed.flatMap((each) => each.shares);
  const is_shadowed = shares.some(({ shadow }) => shadow !== null);
  return [shares.map(({ limit }) => limit), is_shadowed ? shares.map(({ shadow }) => shadow) : null] as const;
}

/** A settlement in the windows of an earlier time; see `DatabaseLedger.settleAt`. */
export interface LateSettlement {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  /** Milliseconds since the epoch. */
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
export function settlementRows(
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

/** Values that many rows share, so that they are sent and parsed once. */
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
export interface Lot {
  readonly name: CounterName;
  readonly amount: number;
  readonly most: number;
  readonly requests: number;
  /** The smallest limit of recent requests on the counter. */
  readonly limit: number;
}

/** A counter as SQL functions return it. */
type PackedCounter = readonly [
  spent: number,
  reserved: number,
  in_flight: number,
  most: number,
  set: number | null,
  granted: number | null,
  resets_at: number | null,
];

/** A counter as `look_at_counters` returns it. */
export type LookedAtCounter = readonly [
  ...PackedCounter,
  leased: number,
  leased_in_flight: number,
  leased_most: number,
  is_leased: boolean,
];

/**
 * Counters without headroom, by index of the request and of the counter among its own. Shadow mode adds the number of
 * counters to the index.
 */
type Remarks = readonly (readonly [request: number, index: number, ...PackedCounter])[];

/** The reply of `spend`. */
export interface BatchAnswer {
  /** Settlements whose row existed already. */
  readonly repeated: readonly string[];
  /** No reservation was made, because `valid_until` has passed. */
  readonly late?: boolean;
  readonly remarks?: Remarks;
  /** By the database's clock, in milliseconds since the epoch. */
  readonly decided_at?: number;
  /** The end of each window. */
  readonly resets?: readonly (number | null)[];
  /** By position in the batch, after all its changes. */
  readonly counters?: readonly PackedBatchCounter[] | null;
}

type PackedBatchCounter = readonly [
  ...[id: number, spent: number, reserved: number, in_flight: number, most: number],
  ...[set: number | null, granted: number | null, is_leased: boolean, grant_ends_at: number | null],
];

/** A counter after a batch, and whether a lot was leased on it. */
export interface BatchCounterState {
  readonly id: number;
  readonly numbers: CounterNumbers;
  readonly is_leased: boolean;
  /** When the lease expires, in milliseconds since the epoch; infinity if it does not. */
  readonly ends_at: number;
}

/** Names the columns of a packed counter. */
export function unpackCounter(packed: PackedCounter): CounterNumbers {
  const [spent, reserved, in_flight, most, set, granted, resets_at] = packed;
  return { spent, reserved, in_flight, most, set, granted: granted ?? 0, resets_at };
}

/**
 * Reads the counters of a batch's reply.
 * @param window_ns per counter, the index of its window, from 1
 */
export function readCounters({ counters, resets }: BatchAnswer, window_ns: readonly number[]): BatchCounterState[] {
  return (counters ?? NONE).map(([id, spent, reserved, in_flight, most, set, granted, is_leased, grant_ends_at], i) => {
    const resets_at = resets![window_ns[i]! - 1]!;
    const numbers = unpackCounter([spent, reserved, in_flight, most, set, granted, resets_at]);
    const never = Number.POSITIVE_INFINITY;
    return { id, numbers, is_leased, ends_at: Math.min(resets_at ?? never, grant_ends_at ?? never) };
  });
}

/**
 * Reads the decision on each request of a batch.
 * @param numbers the counters of the batch
 */
export function readDecisions(
  placed: readonly PlacedRequest[],
  { remarks: listed, decided_at }: BatchAnswer,
  numbers: readonly CounterNumbers[],
): ReservationDecision[] {
  const remarks = Map.groupBy(listed ?? NONE, ([request]) => request);
  return placed.map((each, i) => {
    const { exceeded, shadows } = readRemarks(each, remarks.get(i));
    if (exceeded.length > 0) return { exceeded, shadows, statuses: NONE, unreserved: false, decided_at: decided_at! };
    const statuses = moneyStatuses(each.shares, (share) => numbers[each.at[share]! - 1]);
    return { exceeded, shadows, statuses, unreserved: false };
  });
}

/** The reply of `move_reservations`. */
export interface MovesAnswer {
  /** Indexes of requests without a reservation. */
  readonly missing: readonly number[];
  /** The counters of the others with their new reservations, and whether a limit, or one in shadow mode, lacks headroom. */
  readonly counters: readonly (readonly [
    ...[request: number, index: number, lacks: boolean, lacks_in_shadow: boolean],
    ...PackedCounter,
  ])[];
  readonly decided_at: number;
}

/** Reads the decision on each move; `undefined` if the request has no reservation. */
export function readMoves(
  placed: readonly PlacedRequest[],
  { missing, counters, decided_at }: MovesAnswer,
): (MoveDecision | undefined)[] {
  const counters_of = Map.groupBy(counters, ([request]) => request);
  return placed.map((each, i) => {
    if (missing.includes(i)) return undefined;
    const own = counters_of.get(i) ?? NONE;
    const is_refused = own.some(([, , lacks]) => lacks);
    const remarks = own.flatMap(([request, index, lacks, lacks_in_shadow, ...packed]): Remarks => {
      if (!(is_refused ? lacks : lacks_in_shadow)) return NONE;
      const share = each.shares[index]!;
      const [spent, reserved, in_flight, most, ...more] = packed;
      const without = [spent, reserved - share.amount, in_flight - 1, most - share.most, ...more] as const;
      return [[request, is_refused ? index : index + each.shares.length, ...without]];
    });
    const numbers = new Map(own.map(([, index, , , ...packed]) => [index, unpackCounter(packed)]));
    const { exceeded, shadows } = readRemarks(each, remarks);
    const statuses = is_refused ? NONE : moneyStatuses(each.shares, (share) => numbers.get(share));
    return { exceeded, shadows, statuses, ...(is_refused && { decided_at }) };
  });
}

const NONE: readonly never[] = [];

function readRemarks(
  { request, shares }: PlacedRequest,
  remarks: Remarks | undefined,
): Pick<ReservationDecision, 'exceeded' | 'shadows'> {
  if (remarks === undefined) return { exceeded: NONE, shadows: NONE };
  const exceeded: LimitStatus[] = [];
  const shadows: LimitStatus[] = [];
  for (const [, index, ...packed] of remarks) {
    const in_shadow = index >= shares.length;
    const limits = limitsOn(shares[index % shares.length]!.demands, unpackCounter(packed), in_shadow);
    const lacking = limits.filter((limit) => lackOf(limit, request) !== undefined);
    // Beyond 2^53 the exact decision is the database's: it found no headroom.
    (in_shadow ? shadows : exceeded).push(...(lacking.length > 0 ? lacking : limits));
  }
  return { exceeded: exceeded.sort(byLatestReset), shadows: shadows.sort(byLatestReset) };
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
