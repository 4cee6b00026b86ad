import type {
  ChargedAttempt,
  CounterName,
  LimitDemand,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import { percentToPpm } from '../limits/headroom.ts';
import { alwaysCounted } from '../limits/spend-limits.ts';
import { isCount } from './reservation.ts';

/** A column value of a packed row. */
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

/** Counters of a batch, each once, as parallel columns; a position counts from 1, like an SQL array. */
export class CounterList {
  readonly names: CounterName[] = [];
  /** Each window once. */
  readonly windows: string[] = [];
  /** Per counter, the index of its window, from 1. */
  readonly window_ns: number[] = [];
  readonly #positions = new Map<string, number>();

  /** Columns: scopes, keys, windows, units. */
  get columns(): readonly [string[], string[], string[], string[]] {
    const column = (of: 'scope' | 'key' | 'window' | 'unit') => this.names.map((name) => storable(name[of]));
    return [column('scope'), column('key'), column('window'), column('unit')];
  }

  position(counter: CounterName): number {
    const name = counterName(counter);
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const { window } = counter;
    this.window_ns.push(this.windows.indexOf(window) + 1 || this.windows.push(window));
    const position = this.names.push(counter);
    this.#positions.set(name, position);
    return position;
  }
}

/** A reservation request, packed for the database. */
export interface PackedReservation {
  readonly request: ReservationRequest;
  /** Money demands first: the ledger row names their counters. */
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
  /** By how many millionths requests in flight may exceed a limit; `undefined` if they may not. */
  readonly ppm: number | undefined;
}

/** Packs a request. It counts once per counter, and the smallest limit on the counter decides. */
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

/** Ledger rows name money counters only, so these come first. */
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

/** Packs the counters of a batch for `spend`, with the lots to lease. */
export function counterRows(lots: readonly Lot[], counters: CounterList): string {
  const wanted = new Map(lots.map((lot) => [counters.position(lot.name), lot]));
  return rowArray(
    counters.names.map(({ scope, key, unit }, i) => {
      const { requests = 0, amount = 0, most = 0, limit = 0 } = wanted.get(i + 1) ?? {};
      return [scope, key, counters.window_ns[i]!, unit, requests, amount, most, Number.isFinite(limit) ? limit : null];
    }),
  );
}

/** Reservation requests for `spend` and `place_rows`: the rows, the positions of their counters, and the limits at each. */
export interface RequestRows {
  readonly rows: string;
  readonly at: readonly number[];
  readonly limits: readonly (number | null)[];
  readonly shadows: readonly (number | null)[] | null;
}

/** Packs reservation requests for `spend` and `place_rows`. */
export function reservationRows(
  packed: readonly (Pick<PackedReservation, 'request' | 'counters' | 'money'> & Partial<PackedReservation>)[],
): RequestRows {
  let counted = 0;
  const rows = packed.map(({ request, counters, money, ppm = null }): readonly Cell[] => {
    const { request_id, amount_nano_usd, most_nano_usd, tokens } = request;
    const { protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = request;
    const first = counted + 1;
    counted += counters.length;
    return [
      ...[request_id, amount_nano_usd, most_nano_usd, tokens, protocol, principal_id, user, team, project, token_id],
      ...[model, upstream, upstream_model, ppm, first, first + money, counted],
    ];
  });
  const is_shadowed = packed.some(({ shadow_limits }) => shadow_limits !== undefined);
  return {
    rows: rowArray(rows),
    at: packed.flatMap(({ counters }) => counters),
    limits: packed.flatMap(({ limits = [] }) => limits),
    shadows: is_shadowed
      ? packed.flatMap(({ counters, shadow_limits }) => counters.map((_, i) => shadow_limits?.[i] ?? null))
      : null,
  };
}
