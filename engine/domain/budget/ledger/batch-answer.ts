import type { LimitStatus, MoveDecision, ReservationDecision } from '../../../base/contract/services.ts';
import {
  byLatestReset,
  type CountedDemand,
  type CounterNumbers,
  isLimit,
  lackOf,
  limitsOn,
  statusesOf,
} from '../limits/headroom.ts';
import type { PackedReservation } from './batch-request.ts';

/** A counter as SQL functions return it. */
export type PackedCounter = readonly [
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
  packed: readonly PackedReservation[],
  { remarks: listed, decided_at }: BatchAnswer,
  numbers: readonly CounterNumbers[],
): ReservationDecision[] {
  const remarks = Map.groupBy(listed ?? NONE, ([request]) => request);
  return packed.map((each, i) => {
    const { exceeded, shadows } = readRemarks(each, remarks.get(i));
    if (exceeded.length > 0) return { exceeded, shadows, statuses: NONE, unreserved: false, decided_at: decided_at! };
    return { exceeded, shadows, statuses: statusesIn(each, (position) => numbers[position - 1]), unreserved: false };
  });
}

/** The reply of `move_reservations`. */
export interface MovesAnswer {
  /** Indexes of requests without a reservation. */
  readonly missing: readonly number[];
  readonly remarks: Remarks;
  /** The money counters with a limit. */
  readonly statuses: Remarks;
  readonly decided_at: number;
}

/** Reads the decision on each move; `undefined` if the request has no reservation. */
export function readMoves(packed: readonly PackedReservation[], answer: MovesAnswer): (MoveDecision | undefined)[] {
  const remarks = Map.groupBy(answer.remarks, ([request]) => request);
  const statuses_of = Map.groupBy(answer.statuses, ([request]) => request);
  const { decided_at } = answer;
  return packed.map((each, i) => {
    if (answer.missing.includes(i)) return undefined;
    const numbers = new Map<number, CounterNumbers>();
    for (const [, index, ...packed] of statuses_of.get(i) ?? [])
      numbers.set(each.counters[index]!, unpackCounter(packed));
    const { exceeded, shadows } = readRemarks(each, remarks.get(i));
    const statuses = statusesIn(each, (position) => numbers.get(position));
    return { exceeded, shadows, statuses, ...(exceeded.length > 0 && { decided_at }) };
  });
}

const NONE: readonly never[] = [];

function readRemarks(
  { request, demands, indexes, counters }: PackedReservation,
  remarks: Remarks | undefined,
): Pick<ReservationDecision, 'exceeded' | 'shadows'> {
  if (remarks === undefined) return { exceeded: NONE, shadows: NONE };
  const exceeded: LimitStatus[] = [];
  const shadows: LimitStatus[] = [];
  for (const [, index, ...packed] of remarks) {
    const in_shadow = index >= counters.length;
    const on_counter = demands.filter((_, i) => indexes[i] === index % counters.length);
    const limits = limitsOn(on_counter, unpackCounter(packed), in_shadow);
    const lacking = limits.filter((limit) => lackOf(limit, request) !== undefined);
    // Beyond 2^53 the exact decision is the database's: it found no headroom.
    (in_shadow ? shadows : exceeded).push(...(lacking.length > 0 ? lacking : limits));
  }
  return { exceeded: exceeded.sort(byLatestReset), shadows: shadows.sort(byLatestReset) };
}

/** Statuses of money limits. */
function statusesIn(
  { demands, indexes, counters }: PackedReservation,
  numbersAt: (position: number) => CounterNumbers | undefined,
): readonly LimitStatus[] {
  const counted: CountedDemand[] = [];
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]!.unit !== 'nano_usd') continue;
    const numbers = numbersAt(counters[indexes[i]!]!);
    if (numbers !== undefined) counted.push([demands[i]!, numbers]);
  }
  return counted.length === 0 ? NONE : statusesOf(counted).filter(isLimit);
}
