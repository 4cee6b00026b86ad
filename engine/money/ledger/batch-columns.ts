import type { ReservationRequest, Settlement } from '../../contract/services.ts';
import { storableJson } from '../../kit/storable.ts';
import { ArrayColumn } from '../../store/array-column.ts';
import type { PackedReservation } from './batch-answer.ts';
import { type CounterList, countsOf } from './batch-request.ts';
import { isCount } from './reservation.ts';

/** Settlements of reservations that nothing but the first attempt counts in, in columns: nearly all of them. */
export class SettlementColumns {
  readonly #request_ids = new ArrayColumn();
  readonly #statuses = new ArrayColumn();
  readonly #aborted = new ArrayColumn();
  readonly #tokens = Array.from({ length: 5 }, () => new ArrayColumn());
  readonly #costs = new ArrayColumn();
  readonly #upstream_ms = new ArrayColumn();
  readonly #upstream_request_ids = new ArrayColumn();
  readonly #note_ns = new ArrayColumn();
  readonly #notes = new Map<string, number>();

  /** Whether a settlement can be a row of columns. */
  static takes(settlement: Settlement): boolean {
    return settlement.reserved && (settlement.attempts === undefined || !isCount(settlement.cost_nano_usd));
  }

  /** A row must be written whatever a number looks like, as in `packSettlement`. */
  add(settlement: Settlement): void {
    const { request_id, status, aborted, cost_nano_usd, upstream_ms, upstream_request_id } = settlement;
    const { input, output, cache_read, cache_write_5m, cache_write_1h } = countsOf(settlement.tokens);
    this.#request_ids.addText(request_id);
    this.#statuses.add(Number.isInteger(status) ? status : null);
    this.#aborted.add(aborted);
    const [inputs, outputs, cache_reads, cache_writes_5m, cache_writes_1h] = this.#tokens;
    inputs!.add(input);
    outputs!.add(output);
    cache_reads!.add(cache_read);
    cache_writes_5m!.add(cache_write_5m);
    cache_writes_1h!.add(cache_write_1h);
    this.#costs.add(isCount(cost_nano_usd) ? cost_nano_usd : null);
    this.#upstream_ms.add(Number.isFinite(upstream_ms) ? upstream_ms! : null);
    this.#upstream_request_ids.addText(upstream_request_id ?? null);
    this.#note_ns.add(this.#noteOf(settlement));
  }

  /** What many rows have in common is sent and parsed once. */
  #noteOf(settlement: Settlement): number {
    const { server_tools, billed, cache_requested_ttl, cache_effective_ttl, possibly_billed_nano_usd } = settlement;
    const provenance = {
      ...settlement.provenance,
      ...(possibly_billed_nano_usd !== undefined && { possibly_billed_nano_usd }),
      ...(!isCount(settlement.cost_nano_usd) && { cost: 'estimate' }),
    };
    const note = storableJson({ provenance, server_tools, billed, cache_requested_ttl, cache_effective_ttl });
    const known = this.#notes.get(note);
    if (known !== undefined) return known;
    this.#notes.set(note, this.#notes.size);
    return this.#notes.size - 1;
  }

  /** In the order of the parameters of `run_columns`. */
  get values(): readonly string[] {
    const columns = [
      ...[this.#request_ids, this.#statuses, this.#aborted, ...this.#tokens, this.#costs],
      ...[this.#upstream_ms, this.#upstream_request_ids, this.#note_ns],
    ];
    return [...columns.map(({ literal }) => literal), `[${[...this.#notes.keys()].join(',')}]`];
  }
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
  const sum = typeof a === 'number' ? a + b : 0;
  return typeof a === 'number' && Number.isSafeInteger(sum) ? sum : BigInt(a) + BigInt(b);
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/** What is asked of each counter of a batch, in the order of its positions. */
export function askedColumns(packed: readonly PackedReservation[], counters: CounterList): readonly string[] {
  const asked: Asked[] = counters.columns[0].map(() => {
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
  const fields = ['requests', 'amount', 'most', 'tokens', 'limit', 'shadow_limit', 'ppm'] as const;
  return fields.map((field) => {
    const column = new ArrayColumn();
    for (const counter of asked) column.add(counter[field]);
    return column.literal;
  });
}

const TEXTS = [
  ...(['protocol', 'principal_id', 'user', 'team', 'project', 'token_id'] as const),
  ...(['model', 'upstream', 'upstream_model'] as const),
] satisfies readonly (keyof ReservationRequest)[];

/** Reservations in columns, in the order of the parameters of `run_columns`. */
export function reservationColumns(packed: readonly PackedReservation[]): readonly string[] {
  const request_ids = new ArrayColumn();
  const numbers = (['amount_nano_usd', 'most_nano_usd', 'tokens'] as const).map(
    (name) => [name, new ArrayColumn()] as const,
  );
  const texts = TEXTS.map((name) => [name, new ArrayColumn()] as const);
  const [at, first, rates, last] = [new ArrayColumn(), new ArrayColumn(), new ArrayColumn(), new ArrayColumn()];
  let counted = 0;
  for (const { request, counters, money } of packed) {
    request_ids.addText(request.request_id);
    for (const [name, column] of numbers) column.add(request[name]);
    for (const [name, column] of texts) column.addText(request[name]);
    for (const position of counters) at.add(position);
    first.add(counted + 1);
    rates.add(counted + money + 1);
    counted += counters.length;
    last.add(counted);
  }
  const columns = [
    request_ids,
    ...numbers.map(([, column]) => column),
    ...texts.map(([, column]) => column),
    at,
    first,
    rates,
    last,
  ];
  const limits = packed.map(({ counters, money, limits, shadow_limits, ppm }) => {
    return { counters, money, limits, shadow_limits, ppm };
  });
  return [...columns.map(({ literal }) => literal), JSON.stringify(limits)];
}
