import type {
  ChargedAttempt,
  CounterName,
  LimitDemand,
  ReservationRequest,
  Settlement,
  TokenCounts,
} from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import { alwaysCounted } from '../limits/limit-demands.ts';
import { percentToPpm } from '../limits/room.ts';
import type { PackedReservation } from './batch-answer.ts';
import { isCount, ledgerIdentity } from './reservation.ts';

/** Counters of a batch, each once, as parallel columns; a position counts from 1, like an SQL array. */
export class CounterList {
  /** Scopes, keys, windows, units. */
  readonly columns: readonly [string[], string[], string[], string[]] = [[], [], [], []];
  /** Each window once. */
  readonly windows: string[] = [];
  /** Per counter, the index of its window, from 1. */
  readonly window_ns: number[] = [];
  readonly #positions = new Map<string, number>();

  position({ scope, key, window, unit }: CounterName): number {
    // Nothing but the last part can have a blank.
    const name = `${scope} ${window} ${unit} ${key}`;
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

/** A reservation as `move_reservations` takes it. */
export function reservationRow(packed: PackedReservation): object {
  const { request, counters, money, limits, shadow_limits, ppm } = packed;
  const { amount_nano_usd, most_nano_usd, tokens } = request;
  const needs = { amount_nano_usd, most_nano_usd, tokens, ppm };
  return { ...ledgerIdentity(request), ...needs, counters, money, limits, shadow_limits };
}

/** Ledger rows name the counters of money only, which therefore come first. */
function moneyFirst(demands: readonly LimitDemand[]): readonly LimitDemand[] {
  if (demands.every(({ unit }) => unit === 'nano_usd')) return demands;
  return demands.toSorted((a, b) => Number(a.unit !== 'nano_usd') - Number(b.unit !== 'nano_usd'));
}

function smaller(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

/** Where the counters of money are that an attempt counts on, if not where its request does. */
export type CountedAttempt = ChargedAttempt & { readonly counters?: readonly CounterName[] };

/**
 * A row must be written whatever a number looks like: what is no count becomes 0, and a cost that is none the reserved
 * amount. Who asked for what, and what it counts on, is in the reservation already, where there is one; not where it went last,
 * should it have been several upstreams.
 */
export function packSettlement(
  settlement: Settlement,
  counters: CounterList,
  counted?: readonly CounterName[],
): Readonly<Record<string, unknown>> {
  const { tokens, cost_nano_usd, status, request_id, reserved, aborted, server_tools, billed } = settlement;
  const { possibly_billed_nano_usd, upstream, upstream_model, cache_requested_ttl, cache_effective_ttl } = settlement;
  const { upstream_ms, upstream_request_id } = settlement;
  const cost_is_known = isCount(cost_nano_usd);
  const attempts = cost_is_known ? (settlement.attempts as readonly CountedAttempt[] | undefined) : undefined;
  return {
    ...(!reserved && {
      ...ledgerIdentity(settlement),
      counters: (counted ?? alwaysCounted(settlement)).map((counter) => counters.position(counter)),
    }),
    request_id,
    reserved,
    aborted,
    ...countsOf(tokens),
    status: Number.isInteger(status) ? status : null,
    cost_nano_usd: cost_is_known ? cost_nano_usd : null,
    ...(server_tools !== undefined && { server_tools }),
    ...(billed !== undefined && { billed }),
    ...(cache_requested_ttl !== undefined && { cache_requested_ttl }),
    ...(cache_effective_ttl !== undefined && { cache_effective_ttl }),
    ...(Number.isFinite(upstream_ms) && { upstream_ms }),
    ...(upstream_request_id !== undefined && { upstream_request_id }),
    ...(attempts !== undefined && {
      ...{ upstream, upstream_model },
      attempts: attempts.map(({ counters: apart, ...attempt }) =>
        apart === undefined ? attempt : { ...attempt, counters: apart.map((counter) => counters.position(counter)) },
      ),
    }),
    provenance: {
      ...settlement.provenance,
      ...(possibly_billed_nano_usd !== undefined && { possibly_billed_nano_usd }),
      ...(!cost_is_known && { cost: 'estimate' }),
    },
  };
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
