import type {
  CounterStatus,
  LimitDemand,
  LimitStatus,
  Reservation,
  ReservationRequest,
} from '../../contract/services.ts';
import { byLatestReset, lacksRoom } from '../limits/room.ts';

/** A reservation as the database is asked for it. */
export interface PackedReservation {
  readonly request: ReservationRequest;
  /** Demands in the order of their counters' positions below. */
  readonly demands: readonly LimitDemand[];
  /** Per demand, the place of its counter among those of the request, from 0. */
  readonly places: readonly number[];
  /** Positions of the request's counters in the batch. */
  readonly counters: readonly number[];
}

/** A counter as the database tells it. */
export type CounterNumbers = readonly [
  spent: number,
  reserved: number,
  in_flight: number,
  most: number,
  /** Limit set at run time. */
  set: number | null,
  granted: number | null,
  resets_at: number | null,
];

/** What the database tells of an exchange; see `settle_and_reserve`. */
export interface ExchangeAnswer {
  readonly repeated: readonly string[];
  /** By place of the request and of the counter without room among its own. */
  readonly remarks: readonly (readonly [request: number, place: number, ...CounterNumbers])[];
  /** By position in the batch. */
  readonly statuses: readonly (readonly [position: number, ...CounterNumbers])[];
  /** The reservations came too late, so that none was placed. */
  readonly late?: boolean;
  /** By the database's clock, in milliseconds since the epoch; absent when there is nothing to tell. */
  readonly decided_at?: number;
}

/** The answer when there is nothing to tell. */
export const NOTHING_TO_TELL: ExchangeAnswer = { repeated: [], remarks: [], statuses: [] };

/** Tells what came of each reservation of a batch. */
export function judge(holds: readonly PackedReservation[], answer: ExchangeAnswer): Reservation[] {
  const counters = new Map<number, CounterNumbers>();
  for (const [position, ...numbers] of answer.statuses) counters.set(position, numbers);
  const remarks = Map.groupBy(answer.remarks, ([request]) => request);
  return holds.map((hold, i) => {
    const { exceeded, shadows } = withoutRoom(hold, remarks.get(i));
    const statuses = exceeded.length > 0 ? [] : statusesOf(hold, counters);
    const { decided_at } = answer;
    const refused_at = exceeded.length > 0 && decided_at !== undefined ? { decided_at } : {};
    return { exceeded, shadows, statuses, unreserved: false, ...refused_at };
  });
}

/** The name of the limit a demand is about: that of its rule, unless gateway.yaml has none and one was set. */
export function limitName({ rule, limit }: Pick<LimitDemand, 'rule' | 'limit'>, set: number | null): string {
  return limit === null && set !== null ? 'set at run time' : rule;
}

/** A demand and its counter as they stand; the limit of a demand without one is `null` unless one was set. */
export function limit_status(demand: LimitDemand, numbers: CounterNumbers): CounterStatus {
  const { scope, key, window, unit, limit: configured, shadow = false } = demand;
  const [spent, reserved, in_flight, most, set, granted, resets_at] = numbers;
  const base = shadow ? configured : (set ?? configured);
  const limit = base === null || shadow ? base : base + (granted ?? 0);
  return { scope, key, window, unit, rule: limitName(demand, set), limit, spent, reserved, in_flight, most, resets_at };
}

const NONE: readonly never[] = [];

function withoutRoom(
  hold: PackedReservation,
  remarks: ExchangeAnswer['remarks'] | undefined,
): Pick<Reservation, 'exceeded' | 'shadows'> {
  if (remarks === undefined) return { exceeded: NONE, shadows: NONE };
  const exceeded: LimitStatus[] = [];
  const shadows: LimitStatus[] = [];
  const total = hold.counters.length;
  for (const [, place, ...numbers] of remarks) {
    const in_shadow = place >= total;
    const limits = limitsOn(hold, place % total, in_shadow, numbers);
    const lacking = limits.filter((limit) => lacksRoom(limit, hold.request));
    // Beyond 2^53 the database counts better, and it said that something is lacking.
    (in_shadow ? shadows : exceeded).push(...(lacking.length > 0 ? lacking : limits));
  }
  return { exceeded: exceeded.sort(byLatestReset), shadows: shadows.sort(byLatestReset) };
}

function limitsOn({ demands, places }: PackedReservation, place: number, in_shadow: boolean, numbers: CounterNumbers) {
  const on_counter = demands.filter((_, i) => places[i] === place);
  const there = on_counter.filter(({ shadow = false }) => shadow === in_shadow);
  // One that was set at run time is one limit, whatever demands it takes the place of; it refuses even where all of them are
  // in shadow mode.
  const [first = { ...on_counter[0]!, limit: null, shadow: false }] = there;
  const meant = !in_shadow && numbers[4] !== null ? [first] : there;
  return meant.map((demand) => limit_status(demand, numbers)).filter(isLimit);
}

function statusesOf(hold: PackedReservation, states: ReadonlyMap<number, CounterNumbers>): readonly LimitStatus[] {
  if (states.size === 0) return NONE;
  const { demands, places, counters } = hold;
  const statuses: LimitStatus[] = [];
  for (let i = 0; i < demands.length; i++) {
    const demand = demands[i]!;
    const place = places[i]!;
    const numbers = states.get(counters[place]!);
    if (numbers === undefined || demand.shadow === true) continue;
    if (numbers[4] !== null && isRepeated(hold, i)) continue;
    const stands = limit_status(demand, numbers);
    if (isLimit(stands)) statuses.push(stands);
  }
  return statuses;
}

/** Whether an earlier demand in force is on the same counter. */
function isRepeated({ demands, places }: PackedReservation, at: number): boolean {
  for (let i = 0; i < at; i++) if (places[i] === places[at] && demands[i]!.shadow !== true) return true;
  return false;
}

function isLimit(limit_status: CounterStatus): limit_status is LimitStatus {
  return limit_status.limit !== null;
}
