import type { LimitStatus, MoveDecision, ReservationDecision } from '../../../base/contract/services.ts';
import {
  byLatestReset,
  type CountedDemand,
  type CounterNumbers,
  isLimit,
  lackOf,
  limitsOn,
  statusesOf,
} from '../limits/room.ts';
import type { PackedReservation } from './batch-request.ts';

/** A counter as the database tells it. */
export type PackedCounter = readonly [
  spent: number,
  reserved: number,
  in_flight: number,
  most: number,
  set: number | null,
  granted: number | null,
  resets_at: number | null,
];

/** A counter as `look_at_counters` tells it. */
export type LookedAtCounter = readonly [
  ...PackedCounter,
  leased: number,
  leased_in_flight: number,
  leased_most: number,
  is_leased: boolean,
];

/** What the database tells of counters without room: by index of the request, and of the counter among its own; those in shadow mode count on from the last. */
type Remarks = readonly (readonly [request: number, index: number, ...PackedCounter])[];

/** What the database tells of a batch, where there is something to tell. */
export interface BatchAnswer {
  /** Requests whose row was written before. */
  readonly repeated: readonly string[];
  readonly remarks?: Remarks;
  /** Counters of money that something was reserved on, by position in the batch, as columns; the last two by position of all. */
  readonly counters?: readonly [
    positions: readonly number[] | null,
    spent: readonly number[],
    reserved: readonly number[],
    in_flight: readonly number[],
    most: readonly number[],
    set: readonly (number | null)[] | null,
    granted: readonly (number | null)[] | null,
  ];
  /** By window. */
  readonly resets?: readonly (number | null)[];
  /** The reservations came too late, so that none was made. */
  readonly late?: boolean;
  /** By the database's clock, in milliseconds since the epoch. */
  readonly decided_at?: number;
}

/** A counter by its numbers. */
export function unpackCounter(packed: PackedCounter): CounterNumbers {
  const [spent, reserved, in_flight, most, set, granted, resets_at] = packed;
  return { spent, reserved, in_flight, most, set, granted: granted ?? 0, resets_at };
}

/**
 * Tells what was decided on each reservation of a batch.
 * @param windows per counter, the index of its window, from 1
 */
export function readDecisions(
  packed: readonly PackedReservation[],
  answer: BatchAnswer,
  windows: readonly number[],
): ReservationDecision[] {
  const counters = new Map<number, CounterNumbers>();
  const [positions, spent, reserved, in_flight, most, set, granted] = answer.counters ?? [null];
  positions?.forEach((position, i) => {
    const resets_at = answer.resets![windows[position - 1]! - 1]!;
    const changed = [set?.[position - 1] ?? null, granted?.[position - 1] ?? null] as const;
    counters.set(
      position,
      unpackCounter([spent![i]!, reserved![i]!, in_flight![i]!, most![i]!, ...changed, resets_at]),
    );
  });
  const remarks = Map.groupBy(answer.remarks ?? NONE, ([request]) => request);
  const { decided_at } = answer;
  return packed.map((each, i) => {
    const { exceeded, shadows } = readRemarks(each, remarks.get(i));
    if (exceeded.length === 0) return { exceeded, shadows, statuses: statusesIn(each, counters), unreserved: false };
    return { exceeded, shadows, statuses: NONE, unreserved: false, ...(decided_at !== undefined && { decided_at }) };
  });
}

/** What the database tells of moves; both by index of the request, and of the counter among its own. */
export interface MovesAnswer {
  /** Requests that nothing is reserved for any more. */
  readonly missing: readonly number[];
  readonly remarks: Remarks;
  /** Of the counters of money with a limit. */
  readonly statuses: Remarks;
  readonly decided_at: number;
}

/** Tells what was decided on each move of several; `undefined` where nothing was there to move. */
export function readMoves(packed: readonly PackedReservation[], answer: MovesAnswer): (MoveDecision | undefined)[] {
  const remarks = Map.groupBy(answer.remarks, ([request]) => request);
  const statuses = Map.groupBy(answer.statuses, ([request]) => request);
  const { decided_at } = answer;
  return packed.map((each, i) => {
    if (answer.missing.includes(i)) return undefined;
    const told = new Map<number, CounterNumbers>();
    for (const [, index, ...numbers] of statuses.get(i) ?? []) told.set(each.counters[index]!, unpackCounter(numbers));
    const { exceeded, shadows } = readRemarks(each, remarks.get(i));
    return { exceeded, shadows, statuses: statusesIn(each, told), ...(exceeded.length > 0 && { decided_at }) };
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
    // Beyond 2^53 the database counts better, and it said that something is lacking.
    (in_shadow ? shadows : exceeded).push(...(lacking.length > 0 ? lacking : limits));
  }
  return { exceeded: exceeded.sort(byLatestReset), shadows: shadows.sort(byLatestReset) };
}

function statusesIn(
  { demands, indexes, counters }: PackedReservation,
  told: ReadonlyMap<number, CounterNumbers>,
): readonly LimitStatus[] {
  if (told.size === 0) return NONE;
  const counted: CountedDemand[] = [];
  for (let i = 0; i < demands.length; i++) {
    const counter = told.get(counters[indexes[i]!]!);
    if (counter !== undefined) counted.push([demands[i]!, counter]);
  }
  return statusesOf(counted).filter(isLimit);
}
