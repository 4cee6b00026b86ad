import type {
  LimitDemand,
  LimitStatus,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
} from '../../contract/services.ts';
import {
  byLatestReset,
  type CountedDemand,
  type CounterNumbers,
  isLimit,
  lackOf,
  limitsOn,
  statusesOf,
} from '../limits/room.ts';

/** A reservation as the database is asked for it. */
export interface PackedReservation {
  readonly request: ReservationRequest;
  /** Those of money first, which the row counts on. */
  readonly demands: readonly LimitDemand[];
  /** Per demand, the index of its counter among those of the request. */
  readonly indexes: readonly number[];
  /** Positions of the request's counters in the batch. */
  readonly counters: readonly number[];
  /** How many of these are of money. */
  readonly money: number;
  /** Per counter, the smallest limit of its demands. */
  readonly limits: readonly (number | null)[];
  /** Likewise in shadow mode; `undefined` without any. */
  readonly shadow_limits: readonly (number | null)[] | undefined;
  /** By how many millionths of a limit all that is in flight may pass it; `undefined` where nothing may. */
  readonly ppm: number | undefined;
}

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

/** What the database tells of a batch. */
export interface BatchAnswer {
  /** Requests whose row was written before. */
  readonly repeated: readonly string[];
  /** By index of the request, and of the counter without room among its own; those in shadow mode count on from the last. */
  readonly remarks: readonly (readonly [request: number, index: number, ...PackedCounter])[];
  /** By position in the batch. */
  readonly statuses: readonly (readonly [position: number, ...PackedCounter])[];
  /** The reservations came too late, so that none was made. */
  readonly late?: boolean;
  /** By the database's clock, in milliseconds since the epoch; absent when there is nothing to tell. */
  readonly decided_at?: number;
}

const NOTHING_TO_TELL: BatchAnswer = { repeated: [], remarks: [], statuses: [] };

/** What `carry_batch` tells: counters as columns in place of `statuses`. */
interface ColumnAnswer extends BatchAnswer {
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
}

/**
 * Reads the answer to a batch; the database gives none when there is nothing to tell.
 * @param windows per counter, the index of its window, from 1
 */
export function parseAnswer(
  row: { readonly answer: string | null } | undefined,
  windows: readonly number[] = [],
): BatchAnswer {
  if (row?.answer == null) return NOTHING_TO_TELL;
  const answer: ColumnAnswer = { ...NOTHING_TO_TELL, ...JSON.parse(row.answer) };
  const [positions, spent, reserved, in_flight, most, set, granted] = answer.counters ?? [];
  if (positions == null) return answer;
  const statuses = positions.map((position, i) => {
    const changed = [set?.[position - 1] ?? null, granted?.[position - 1] ?? null] as const;
    const resets_at = answer.resets![windows[position - 1]! - 1]!;
    return [position, spent![i]!, reserved![i]!, in_flight![i]!, most![i]!, ...changed, resets_at] as const;
  });
  return { ...answer, statuses };
}

/** A counter by its numbers. */
export function unpackCounter(packed: PackedCounter): CounterNumbers {
  const [spent, reserved, in_flight, most, set, granted, resets_at] = packed;
  return { spent, reserved, in_flight, most, set, granted: granted ?? 0, resets_at };
}

/** Tells what was decided on each reservation of a batch. */
export function readDecisions(packed: readonly PackedReservation[], answer: BatchAnswer): ReservationDecision[] {
  const counters = new Map<number, CounterNumbers>();
  for (const [position, ...numbers] of answer.statuses) counters.set(position, unpackCounter(numbers));
  const remarks = Map.groupBy(answer.remarks, ([request]) => request);
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
  /** As in `BatchAnswer`. */
  readonly remarks: BatchAnswer['remarks'];
  /** Of the counters of money with a limit. */
  readonly statuses: BatchAnswer['remarks'];
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
  remarks: BatchAnswer['remarks'] | undefined,
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
