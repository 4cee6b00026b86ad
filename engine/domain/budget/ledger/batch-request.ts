import type {
  ChargedAttempt,
  CounterName,
  LimitDemand,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import { percentToPpm } from '../limits/room.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { isCount } from './reservation.ts';

/** What a row can have in a column. */
type Cell = string | number | bigint | boolean | null;

/** Texts that are written as they are. */
const PLAIN = /^[\w@.:/+-]+$/;

/** Within a quoted row in an array: what PostgreSQL can't store is replaced. */
function quoted(text: string): string {
  const inner = storable(text).replace(/["\\]/g, (character) => (character === '"' ? '\\"\\"' : '\\\\\\\\'));
  return `\\"${inner}\\"`;
}

export function rowCell(row: readonly Cell[]): string {
  const cells = row.map((cell) => (typeof cell === 'string' ? `"${storable(cell).replace(/["\\]/g, '$&$&')}"` : cell));
  return `(${cells.join(',')})`;
}

/** Rows as a parameter that is an array of a composite type: PostgreSQL reads one faster than an array for each column. */
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

/** Tells a counter from all others. */
export function counterName({ scope, key, window, unit }: CounterName): string {
  // Nothing but the last part can have a blank.
  return `${scope} ${window} ${unit} ${key}`;
}

/** Counters of a batch, each once, as parallel columns; a position counts from 1, like an SQL array. */
export class CounterList {
  /** Scopes, keys, windows, units. */
  readonly columns: readonly [string[], string[], string[], string[]] = [[], [], [], []];
  /** Each window once. */
  readonly windows: string[] = [];
  /** Per counter, the index of its window, from 1. */
  readonly window_ns: number[] = [];
  readonly #positions = new Map<string, number>();

  position(counter: CounterName): number {
    const { scope, key, window, unit } = counter;
    const name = counterName(counter);
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const [scopes, keys, windows, units] = this.columns;
    scopes.push(scope);
    keys.push(storable(key));
    windows.push(window);
    this.window_ns.push(this.windows.indexOf(window) + 1 || this.windows.push(window));
    const position = units.push(unit);
    this.#positions.set(name, position);
    return position;
  }
}

/** A reservation as the database is asked for it. */
export interface PackedReservation {
  readonly request: ReservationRequest;
  /** Those of money first, which the row counts on. */
  readonly demands: readonly LimitDemand[];
  /** Per demand, the index of its counter among those of the request. */
  readonly indexes: readonly number[];
  /** Positions of the request's counters in the batch. */
  readonly counters: readonly number[];
  readonly money: number;
  /** Per counter, the smallest limit of its demands. */
  readonly limits: readonly (number | null)[];
  /** Likewise in shadow mode; `undefined` without any. */
  readonly shadow_limits: readonly (number | null)[] | undefined;
  /** By how many millionths of a limit all that is in flight may pass it; `undefined` where nothing may. */
  readonly ppm: number | undefined;
}

/** A request counts once on each counter, however many demands it has on it, and the smallest limit decides. */
export function packReservation(request: ReservationRequest, counters: CounterList): PackedReservation {
  const demands = moneyFirst(request.demands);
  const indexes: number[] = [];
  const positions: number[] = [];
  const limits: (number | null)[] = [];
  let shadow_limits: (number | null)[] | undefined;
  let money = 0;
  for (const demand of demands) {
    const position = counters.position(demand);
    let index = positions.indexOf(position);
    if (index < 0) {
      index = positions.push(position) - 1;
      limits.push(null);
      if (demand.unit === 'nano_usd') money++;
    }
    indexes.push(index);
    if (demand.shadow === true) {
      shadow_limits ??= [];
      shadow_limits[index] = smaller(shadow_limits[index] ?? null, demand.limit);
    } else {
      limits[index] = smaller(limits[index]!, demand.limit);
    }
  }
  const { overshoot_percent: percent } = request;
  const ppm = percent === undefined ? undefined : percentToPpm(percent);
  return { request, demands, indexes, counters: positions, money, limits, shadow_limits, ppm };
}

/** Ledger rows name the counters of money only, which therefore come first. */
function moneyFirst(demands: readonly LimitDemand[]): readonly LimitDemand[] {
  if (demands.every(({ unit }) => unit === 'nano_usd')) return demands;
  return demands.toSorted((a, b) => Number(a.unit !== 'nano_usd') - Number(b.unit !== 'nano_usd'));
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/** A settlement in the windows of an earlier time; see `DatabaseLedger.settleAt`. */
export interface LateSettlement {
  readonly settlement: Settlement;
  readonly counters: readonly CounterName[];
  /** Milliseconds since the epoch. */
  readonly at_ms: number;
  /** The database it belongs to; nothing is written in any other. */
  readonly database_id: string;
}

/** Where the counters of money are that an attempt counts on, if not where its request does. */
type CountedAttempt = ChargedAttempt & { readonly counters?: readonly CounterName[] };

/**
 * Settlements as `carry_batch` takes them. A row must be written whatever a number looks like: what is no count becomes 0, and a
 * cost that is none the reserved amount.
 * @param late where they are settled late, the same ones with what only these have
 * @returns the rows, and what they have in common as JSON.
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

/** Who asked for what, and what it counts on, is in the reservation, where there is one; not where it went last, after several attempts. */
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

/** What many rows have in common, so that it is sent and parsed once. */
function noteOf(settlement: Settlement): string {
  const { server_tools, billed, cache_requested_ttl, cache_effective_ttl, possibly_billed_nano_usd } = settlement;
  const provenance = {
    ...settlement.provenance,
    ...(possibly_billed_nano_usd !== undefined && { possibly_billed_nano_usd }),
    ...(!isCount(settlement.cost_nano_usd) && { cost: 'estimate' }),
  };
  return storableJson({ provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl });
}

/** Token counts with 0 for what is no count. */
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

interface Asked {
  requests: number;
  amount: number | bigint;
  most: number | bigint;
  tokens: number | bigint;
  limit: number | null;
  shadow_limit: number | null;
  ppm: number | null;
}

/** Beyond 2^53 a number would lose money. */
function plus(a: number | bigint, b: number): number | bigint {
  if (typeof a === 'bigint') return a + BigInt(b);
  const sum = a + b;
  return Number.isSafeInteger(sum) ? sum : BigInt(a) + BigInt(b);
}

/** Of a counter that nothing limits. */
const UNLIMITED = 2n ** 63n - 1n;

/** How far a limit may be passed by what is in flight, as `bound_of` has it. */
function boundOf(limit: number, ppm: number): number | bigint {
  if (ppm === 0) return limit;
  const [whole, rest] = [BigInt(limit) / 1_000_000n, BigInt(limit) % 1_000_000n];
  return BigInt(limit) + whole * BigInt(ppm) + (rest * BigInt(ppm)) / 1_000_000n;
}

function askedOf(packed: readonly PackedReservation[], counters: number): readonly Asked[] {
  const asked: Asked[] = Array.from({ length: counters }, () => {
    return { requests: 0, amount: 0, most: 0, tokens: 0, limit: null, shadow_limit: null, ppm: null };
  });
  for (const { request, counters: positions, limits, shadow_limits, ppm = 0 } of packed) {
    for (let index = 0; index < positions.length; index++) {
      const counter = asked[positions[index]! - 1]!;
      counter.requests++;
      counter.amount = plus(counter.amount, request.amount_nano_usd);
      counter.most = plus(counter.most, request.most_nano_usd);
      counter.tokens = plus(counter.tokens, request.tokens);
      counter.limit = smaller(counter.limit, limits[index]!);
      counter.shadow_limit = smaller(counter.shadow_limit, shadow_limits?.[index] ?? null);
      counter.ppm = smaller(counter.ppm, ppm);
    }
  }
  return asked;
}

/** The counters of a batch as `carry_batch` takes them, and what is asked of each. */
export function counterRows(
  packed: readonly PackedReservation[],
  counters: CounterList,
): readonly [rows: string, asked: string] {
  const [scopes, keys, , units] = counters.columns;
  const asked = askedOf(packed, scopes.length);
  const rows = asked.map(({ limit, shadow_limit, ppm }, i): readonly Cell[] => [
    ...[scopes[i]!, keys[i]!, counters.window_ns[i]!, units[i]!, limit, shadow_limit, ppm],
  ]);
  const least = asked.map(({ limit, shadow_limit }) => smaller(limit, shadow_limit));
  const columns = [
    ...(['requests', 'amount', 'most', 'tokens'] as const).map((name) => asked.map((counter) => counter[name])),
    least.map((limit) => limit ?? UNLIMITED),
    least.map((limit, i) => (limit === null ? UNLIMITED : boundOf(limit, asked[i]!.ppm ?? 0))),
  ];
  return [rowArray(rows), `(${columns.map((column) => `"{${column.join(',')}}"`).join(',')})`];
}

/** Reservations as `carry_batch` and `place_rows` take them: rows and, for all together, the positions of their counters. */
export function reservationRows(
  packed: readonly Pick<PackedReservation, 'request' | 'counters' | 'money'>[],
): readonly [rows: string, at: readonly number[]] {
  let counted = 0;
  const rows = packed.map(({ request, counters, money }): readonly Cell[] => {
    const { request_id, amount_nano_usd, most_nano_usd, tokens } = request;
    const { protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = request;
    const first = counted + 1;
    counted += counters.length;
    return [
      ...[request_id, amount_nano_usd, most_nano_usd, tokens, protocol, principal_id, user, team, project, token_id],
      ...[model, upstream, upstream_model, first, first + money, counted],
    ];
  });
  return [rowArray(rows), packed.flatMap(({ counters }) => counters)];
}
