/**
 * Which limit is in force on a counter, and whether it has room. The database decides by the same rules (`has_room_for` and
 * `limit_in_force`): test/budget/limits/room.test.ts asks both the same questions.
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

/** A counter as it is, in its unit, and what was set and granted on it at run time. */
export interface CounterNumbers extends Pick<LimitStatus, 'spent' | 'reserved' | 'in_flight' | 'most' | 'resets_at'> {
  /** The limit that takes the place of the configured ones. */
  readonly set: number | null;
  readonly granted: number;
  /** Who set and granted it, where that was read as well. */
  readonly changes?: LimitChanges;
}

/** A demand and the counter it is about. Demands on one counter have the same object. */
export type CountedDemand = readonly [demand: LimitDemand, counter: CounterNumbers];

/** A limit as a request found it. */
export interface DemandStatus extends LimitDemand {
  /** The limit in force, where the demand has one: that of the demand or one set in its place, and what is granted on top. */
  readonly in_force: number | null;
  readonly spent: number;
  readonly reserved: number;
  readonly needed: number;
  /** Whether there is room for it; always where nothing limits it. */
  readonly room: boolean;
  readonly changes?: LimitChanges;
}

/** What a request needs of limits. */
export type Needs = Pick<ReservationRequest, 'amount_nano_usd' | 'most_nano_usd' | 'overshoot_percent' | 'tokens'>;

/**
 * Why a limit has no room for a request. `limit`: it is smaller than the request. `spent`: with what is spent, `reserved`: and
 * reserved, it is too little. `most`: it could be passed if everything in flight cost the most it can.
 */
export type Lack = 'limit' | 'spent' | 'reserved' | 'most';

/** The name of a limit that an administrator set: nobody knows it by a name of gateway.yaml, whose limits it replaces. */
export const RUN_TIME_RULE = 'set at run time';

const PPM_PER_PERCENT = 10_000;
const PPM = 1_000_000;

/** Percent as whole millionths, rounded down so that nothing passes what was promised. */
export function percentToPpm(percent: number): number {
  // 0.07 % is 700 millionths, although 0.07 * 10,000 is a little more and 0.29 * 10,000 a little less.
  return Math.floor(percent * PPM_PER_PERCENT + 1e-6);
}

/** By how much of its unit a limit may be passed by what is in flight, rounded down. Exact for limits below 2^53. */
export function overshootOf(limit: number, overshoot_percent: number): number {
  const ppm = percentToPpm(overshoot_percent);
  return Math.floor(limit / PPM) * ppm + Math.floor(((limit % PPM) * ppm) / PPM);
}

/** What a request needs in the unit of a counter, now and at most. */
export function neededIn(unit: LimitUnit, needs: Needs): { readonly amount: number; readonly most: number } {
  if (unit === 'nano_usd') return { amount: needs.amount_nano_usd, most: needs.most_nano_usd };
  const amount = unit === 'tokens' ? needs.tokens : 1;
  return { amount, most: amount };
}

/** The limit in force: the one that was set in place of what is configured, and what is granted on top; `null` without any. */
export function limitInForce(
  configured: number | null,
  { set, granted }: Pick<CounterNumbers, 'set' | 'granted'>,
): number | null {
  const base = set ?? configured;
  return base === null ? null : base + granted;
}

/** What is left of a limit. */
export function roomLeft({ limit, spent, reserved }: Pick<LimitStatus, 'limit' | 'spent' | 'reserved'>): number {
  return Math.max(0, limit - spent - reserved);
}

/**
 * What a limit lacks for a request; `undefined`: it has room. What is spent, reserved and needed must fit; so must the most
 * that the request and everything in flight can cost, which for a typical reservation may pass the limit by its share, or by
 * anything when nothing else is in flight.
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

/** The status of the limit of a demand. What is set and granted is no part of a limit in shadow mode. */
export function statusOf([demand, counter]: CountedDemand): CounterStatus {
  const { scope, key, window, unit, limit: configured, rule: written, shadow = false } = demand;
  const { spent, reserved, in_flight, most, resets_at, set, granted } = counter;
  const limit = shadow ? configured : limitInForce(configured, counter);
  const rule = set !== null && !shadow ? RUN_TIME_RULE : written;
  const status = { scope, key, window, unit, rule, limit, spent, reserved, in_flight, most, resets_at };
  return granted > 0 && limit !== null && !shadow ? { ...status, granted } : status;
}

/** The statuses of limits that can refuse. A limit that was set is one limit, whatever demands it takes the place of. */
export function statusesOf(demands: readonly CountedDemand[]): CounterStatus[] {
  const statuses: CounterStatus[] = [];
  for (let i = 0; i < demands.length; i++) {
    if (demands[i]![0].shadow !== true && isOneLimit(demands[i]!, i, demands)) statuses.push(statusOf(demands[i]!));
  }
  return statuses;
}

/** Whether a demand is not one of several that a limit set at run time takes the place of, but the first. */
function isOneLimit([{ shadow }, counter]: CountedDemand, i: number, demands: readonly CountedDemand[]): boolean {
  if (shadow === true || counter.set === null) return true;
  return demands.findIndex(([demand, other]) => other === counter && demand.shadow !== true) === i;
}

/** How the limits of demands stand for a request; nothing is reserved. */
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
 * The limits on one counter that can refuse a request, or those in shadow mode. One that was set refuses even where all that
 * it takes the place of are in shadow mode.
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

/** Whether something limits a counter. */
export function isLimit(status: CounterStatus): status is LimitStatus {
  return status.limit !== null;
}

/** Order in which exceeded limits are reported: the one that resets last first, of those that reset together the smallest. */
export function byLatestReset(a: LimitStatus, b: LimitStatus): number {
  return (b.resets_at ?? 0) - (a.resets_at ?? 0) || a.limit - b.limit;
}

/** What tells a counter from all others, as one text. */
export const counterId = ({ scope, key, window, unit }: CounterName): string =>
  JSON.stringify([scope, key, window, unit]);

/** What all grants add up to. */
export function grantedIn({ grants }: Pick<LimitChanges, 'grants'>): number {
  return grants.reduce((sum, { amount }) => sum + amount, 0);
}

/** What a counter holds in its current window; numbers in its unit. */
export interface Balance extends CounterName {
  readonly spent: number;
  readonly reserved: number;
  /** The most that what is reserved can come to; as much as is reserved where absent. */
  readonly most?: number;
  /** How many requests it is for; where absent one, or as many as are counted. */
  readonly in_flight?: number;
}

/** What a ledger counts, and the limits that were set and granted at run time; amounts in the unit of their counter. */
export interface Counted {
  readonly balances: readonly Balance[];
  readonly settings?: readonly (CounterName & Changed)[];
  /** `expires_at` in milliseconds since the epoch. */
  readonly grants?: readonly (CounterName & Changed & { readonly expires_at: number })[];
}

/** An amount that was set or granted; when (in milliseconds since the epoch) and by whom, where that is known. */
interface Changed {
  readonly amount: number;
  readonly changed?: { readonly at: number; readonly by: string };
}

const BY_NOBODY = { at: 0, by: 'nobody' };

/** Whether a counter holds something for the requests of a balance: one, or as many as are counted. */
export function inFlightOf({ in_flight, unit, reserved }: Balance): number {
  return in_flight ?? (unit === 'requests' ? reserved : Number(reserved > 0));
}

/** Demands with the numbers of their counters, at a moment in milliseconds since the epoch. */
export function withCounters(demands: readonly LimitDemand[], counted: Counted, now: number): CountedDemand[] {
  const { balances, settings = [], grants = [] } = counted;
  const active = grants.filter(({ expires_at }) => now < expires_at);
  const numbersOf = (id: string): CounterNumbers => {
    const held = balances.filter((balance) => counterId(balance) === id);
    const setting = settings.find((each) => counterId(each) === id);
    const changes: LimitChanges = {
      set: setting === undefined ? null : { amount: setting.amount, ...(setting.changed ?? BY_NOBODY) },
      grants: active
        .filter((grant) => counterId(grant) === id)
        .map(({ amount, expires_at, changed = BY_NOBODY }, i) => ({
          id: `grant ${i + 1}`,
          amount,
          expires_at,
          ...changed,
        }))
        .toSorted((a, b) => a.expires_at - b.expires_at),
    };
    const granted = grantedIn(changes);
    const sum = (of: (balance: Balance) => number) => held.reduce((all, balance) => all + of(balance), 0);
    return {
      spent: sum(({ spent }) => spent),
      reserved: sum(({ reserved }) => reserved),
      most: sum(({ most, reserved }) => most ?? reserved),
      in_flight: sum(inFlightOf),
      resets_at: null,
      set: setting?.amount ?? null,
      granted,
      ...((setting !== undefined || granted > 0) && { changes }),
    };
  };
  const known = new Map<string, CounterNumbers>();
  return demands.map((demand) => {
    const id = counterId(demand);
    const numbers = known.get(id) ?? numbersOf(id);
    known.set(id, numbers);
    return [demand, numbers];
  });
}
