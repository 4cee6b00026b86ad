/**
 * The limit in force on a counter, and its headroom for a request. The database applies the same rules (`has_room_for`,
 * `limit_in_force`); test/budget/limits/limit-settings.test.ts compares both.
 * @module
 */
import type {
  CounterName,
  CounterStatus,
  LimitChanges,
  LimitDemand,
  LimitStatus,
  LimitUnit,
  ReservationRequest,
} from '../../../base/contract/services.ts';

/** The numbers of a counter in its unit, with its limit and grants set at run time. */
export interface CounterNumbers extends Pick<LimitStatus, 'spent' | 'reserved' | 'in_flight' | 'most' | 'resets_at'> {
  readonly set: number | null;
  readonly granted: number;
  readonly changes?: LimitChanges;
}

/** A demand and its counter. Demands on one counter share the object. */
export type CountedDemand = readonly [demand: LimitDemand, counter: CounterNumbers];

/** A demand, with the state of its limit for a request. */
export interface DemandStatus extends LimitDemand {
  /** The limit in force: configured or set at run time, plus grants; `null` without one. */
  readonly in_force: number | null;
  readonly spent: number;
  readonly reserved: number;
  readonly needed: number;
  /** Whether the request fits; always `true` without a limit. */
  readonly room: boolean;
  readonly changes?: LimitChanges;
}

/** Amounts that a request needs. */
export type Needs = Pick<ReservationRequest, 'amount_nano_usd' | 'most_nano_usd' | 'overshoot_percent' | 'tokens'>;

/**
 * Why a request does not fit into a limit. `limit`: the limit is smaller than the request. `spent`, `reserved`: the remaining amount
 * is too small, after spending alone or after reservations. `most`: the highest costs of all requests in flight could exceed it.
 */
export type Lack = 'limit' | 'spent' | 'reserved' | 'most';

/** Rule name of a limit set at run time, which replaces those of gateway.yaml. */
export const RUN_TIME_RULE = 'set at run time';

const PPM_PER_PERCENT = 10_000;
const PPM = 1_000_000;

/** Percent as whole millionths, rounded down so that the bound is not exceeded. */
export function percentToPpm(percent: number): number {
  // 0.07 % is 700 millionths, although 0.07 * 10,000 is a little more and 0.29 * 10,000 a little less.
  return Math.floor(percent * PPM_PER_PERCENT + 1e-6);
}

/** How far requests in flight may exceed a limit, in its unit, rounded down. Exact for limits below 2^53. */
export function overshootOf(limit: number, overshoot_percent: number): number {
  const ppm = percentToPpm(overshoot_percent);
  return Math.floor(limit / PPM) * ppm + Math.floor(((limit % PPM) * ppm) / PPM);
}

/** The amounts that a request needs in the unit of a counter: expected and highest. */
export function neededIn(unit: LimitUnit, needs: Needs): { readonly amount: number; readonly most: number } {
  if (unit === 'nano_usd') return { amount: needs.amount_nano_usd, most: needs.most_nano_usd };
  const amount = unit === 'tokens' ? needs.tokens : 1;
  return { amount, most: amount };
}

/** The limit in force: set at run time or configured, plus grants; `null` without one. */
export function limitInForce(
  configured: number | null,
  { set, granted }: Pick<CounterNumbers, 'set' | 'granted'>,
): number | null {
  const base = set ?? configured;
  return base === null ? null : base + granted;
}

export function remainingOf({ limit, spent, reserved }: Pick<LimitStatus, 'limit' | 'spent' | 'reserved'>): number {
  return Math.max(0, limit - spent - reserved);
}

/**
 * Why a request does not fit into a limit; `undefined`: it fits. Spent, reserved and needed amounts must fit. So must the highest
 * costs of the request and of those in flight: under a typical reservation these may exceed the limit by its overshoot, and a
 * request that is alone may exceed it by any amount.
 */
export function lackOf(
  status: Omit<LimitStatus, 'scope' | 'key' | 'window' | 'rule' | 'resets_at'>,
  needs: Needs,
): Lack | undefined {
  const { unit, limit, spent, reserved, most, in_flight } = status;
  const needed = neededIn(unit, needs);
  if (spent + reserved + needed.amount > limit) {
    if (needed.amount > limit) return 'limit';
    return spent + needed.amount > limit ? 'spent' : 'reserved';
  }
  const { overshoot_percent: percent } = needs;
  if (percent !== undefined && in_flight === 0) return undefined;
  const bound = percent === undefined ? limit : limit + overshootOf(limit, percent);
  return spent + most + needed.most > bound ? 'most' : undefined;
}

/** The status of the limit of a demand. A limit in shadow mode ignores limits and grants set at run time. */
export function statusOf([demand, counter]: CountedDemand): CounterStatus {
  const { scope, key, window, unit, limit: configured, rule: written, shadow = false } = demand;
  const { spent, reserved, in_flight, most, resets_at, set, granted } = counter;
  const limit = shadow ? configured : limitInForce(configured, counter);
  const rule = set !== null && !shadow ? RUN_TIME_RULE : written;
  const status = { scope, key, window, unit, rule, limit, spent, reserved, in_flight, most, resets_at };
  return granted > 0 && limit !== null && !shadow ? { ...status, granted } : status;
}

/** The statuses of enforced limits. A limit set at run time counts once, though it replaces several. */
export function statusesOf(demands: readonly CountedDemand[]): CounterStatus[] {
  const statuses: CounterStatus[] = [];
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]![0].shadow !== true && isOneLimit(demands[i]!, i, demands)) statuses.push(statusOf(demands[i]!));
  }
  return statuses;
}

/** Whether a demand is the first of those that a limit set at run time replaces, or is not replaced. */
function isOneLimit([{ shadow }, counter]: CountedDemand, i: number, demands: readonly CountedDemand[]): boolean {
  if (shadow === true || counter.set === null) return true;
  return demands.findIndex(([demand, other]) => other === counter && demand.shadow !== true) === i;
}

/** The state of the limits of a request, without a reservation. */
export function demandStatuses(demands: readonly CountedDemand[], needs: Needs): DemandStatus[] {
  return demands.filter(isOneLimit).map((counted) => {
    const [demand, { changes }] = counted;
    const { limit: in_force, ...status } = statusOf(counted);
    const { rule, spent, reserved } = status;
    const room = in_force === null || lackOf({ ...status, limit: in_force }, needs) === undefined;
    const needed = neededIn(demand.unit, needs).amount;
    return { ...demand, rule, in_force, spent, reserved, needed, room, ...(changes !== undefined && { changes }) };
  });
}

/**
 * The enforced limits on one counter, or those in shadow mode. A limit set at run time is enforced even if all that it replaces are
 * in shadow mode.
 */
export function limitsOn(
  on_counter: readonly LimitDemand[],
  counter: CounterNumbers,
  in_shadow: boolean,
): LimitStatus[] {
  const there = on_counter.filter(({ shadow = false }) => shadow === in_shadow);
  const [first = { ...on_counter[0]!, limit: null, shadow: false }] = there;
  const meant = !in_shadow && counter.set !== null ? [first] : there;
  return meant.map((demand) => statusOf([demand, counter])).filter(isLimit);
}

/** Whether a counter has a limit. */
export function isLimit(status: CounterStatus): status is LimitStatus {
  return status.limit !== null;
}

/** Order of exceeded limits: the last to reset first, then the smallest. */
export function byLatestReset(a: LimitStatus, b: LimitStatus): number {
  return (b.resets_at ?? 0) - (a.resets_at ?? 0) || a.limit - b.limit;
}

/** Identity of a counter as a text. Only the key can contain blanks, so it comes last. */
export function counterText({ scope, key, window, unit }: CounterName): string {
  return `${scope} ${window} ${unit} ${key}`;
}

/** Sum of grants. */
export function grantedIn({ grants }: Pick<LimitChanges, 'grants'>): number {
  return grants.reduce((sum, { amount }) => sum + amount, 0);
}

/** The balance of a counter in its current window, in its unit. */
export interface Balance extends CounterName {
  readonly spent: number;
  readonly reserved: number;
  /** Highest cost of the reservations; absent: the reserved amount. */
  readonly most?: number;
  /** Requests in flight; absent: one, or the reserved number of requests. */
  readonly in_flight?: number;
}

/** Balances of a ledger, with limits and grants set at run time; amounts in the unit of their counter. */
export interface Counted {
  readonly balances: readonly Balance[];
  readonly changed?: readonly (CounterName & { readonly changes: LimitChanges })[];
}

/** No changes at run time. */
export const NO_CHANGES: LimitChanges = { set: null, grants: [] };

function inFlightOf({ in_flight, unit, reserved }: Balance): number {
  return in_flight ?? (unit === 'requests' ? reserved : Number(reserved > 0));
}

/** Pairs demands with the numbers of their counters. @param now milliseconds since the epoch */
export function withCounters(demands: readonly LimitDemand[], counted: Counted, now: number): CountedDemand[] {
  const { balances, changed = [] } = counted;
  const numbersOf = (id: string): CounterNumbers => {
    const own = balances.filter((balance) => counterText(balance) === id);
    const { set, grants } = changed.find((each) => counterText(each) === id)?.changes ?? NO_CHANGES;
    const changes: LimitChanges = { set, grants: grants.filter(({ expires_at }) => now < expires_at) };
    const granted = grantedIn(changes);
    const sum = (of: (balance: Balance) => number) => own.reduce((all, balance) => all + of(balance), 0);
    return {
      spent: sum(({ spent }) => spent),
      reserved: sum(({ reserved }) => reserved),
      most: sum(({ most, reserved }) => most ?? reserved),
      in_flight: sum(inFlightOf),
      resets_at: null,
      set: set?.amount ?? null,
      granted,
      ...((set !== null || granted > 0) && { changes }),
    };
  };
  const known = new Map<string, CounterNumbers>();
  return demands.map((demand) => {
    const id = counterText(demand);
    const numbers = known.get(id) ?? numbersOf(id);
    known.set(id, numbers);
    return [demand, numbers];
  });
}
