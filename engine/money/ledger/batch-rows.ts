import type { Settlement } from '../../contract/services.ts';
import { storableJson } from '../../kit/storable.ts';
import { type Cell, rowArray } from '../../store/row-array.ts';
import type { PackedReservation } from './batch-answer.ts';
import { type CounterList, countsOf } from './batch-request.ts';
import { isCount } from './reservation.ts';

/** Whether a settlement is one of nearly all: with a reservation, and without attempts that did not serve. */
export function isPlain(settlement: Settlement): boolean {
  return settlement.reserved && (settlement.attempts === undefined || !isCount(settlement.cost_nano_usd));
}

/**
 * Plain settlements as `carry_batch` takes them. A row must be written whatever a number looks like, as in `packSettlement`.
 * @returns the rows, and what they have in common as JSON.
 */
export function settlementRows(settlements: readonly Settlement[]): readonly [rows: string, notes: string] {
  const notes = new Map<string, number>();
  const rows = settlements.map((settlement): readonly Cell[] => {
    const { request_id, status, aborted, cost_nano_usd, upstream_ms, upstream_request_id = null } = settlement;
    const { input, output, cache_read, cache_write_5m, cache_write_1h } = countsOf(settlement.tokens);
    const note = noteOf(settlement);
    const note_n = notes.get(note) ?? notes.size;
    if (note_n === notes.size) notes.set(note, note_n);
    return [
      ...[request_id, Number.isInteger(status) ? status : null, aborted],
      ...[input, output, cache_read, cache_write_5m, cache_write_1h],
      ...[isCount(cost_nano_usd) ? cost_nano_usd : null, Number.isFinite(upstream_ms) ? upstream_ms! : null],
      ...[upstream_request_id, note_n],
    ];
  });
  return [rowArray(rows), `[${[...notes.keys()].join(',')}]`];
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

/** What the reservations of a batch ask of one counter together. */
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

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
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

/** Reservations as `carry_batch` takes them: rows, their counters, and what is needed where there is no room for all. */
export function reservationRows(
  packed: readonly PackedReservation[],
): readonly [rows: string, at: readonly number[], limits: string] {
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
  const limits = packed.map(({ counters, money, limits, shadow_limits, ppm }) => {
    return { counters, money, limits, shadow_limits, ppm };
  });
  return [rowArray(rows), packed.flatMap(({ counters }) => counters), JSON.stringify(limits)];
}
