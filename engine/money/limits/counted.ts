import type { CounterName, LimitDemand } from '../../contract/services.ts';
import type { CountedDemand, CounterNumbers } from './room.ts';

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
  readonly settings?: readonly (CounterName & { readonly amount: number })[];
  /** `expires_at` in milliseconds since the epoch. */
  readonly grants?: readonly (CounterName & { readonly amount: number; readonly expires_at: number })[];
}

const idOf = ({ scope, key, window, unit }: CounterName): string => JSON.stringify([scope, key, window, unit]);

/** Whether a counter holds something for the requests of a balance: one, or as many as are counted. */
export function inFlightOf({ in_flight, unit, reserved }: Balance): number {
  return in_flight ?? (unit === 'requests' ? reserved : Number(reserved > 0));
}

/** Demands with the numbers of their counters, at a moment in milliseconds since the epoch. */
export function withCounters(demands: readonly LimitDemand[], counted: Counted, now: number): CountedDemand[] {
  const { balances, settings = [], grants = [] } = counted;
  const active = grants.filter(({ expires_at }) => now < expires_at);
  const numbersOf = (id: string): CounterNumbers => {
    const held = balances.filter((balance) => idOf(balance) === id);
    const sum = (of: (balance: Balance) => number) => held.reduce((all, balance) => all + of(balance), 0);
    return {
      spent: sum(({ spent }) => spent),
      reserved: sum(({ reserved }) => reserved),
      most: sum(({ most, reserved }) => most ?? reserved),
      in_flight: sum(inFlightOf),
      resets_at: null,
      set: settings.find((setting) => idOf(setting) === id)?.amount ?? null,
      granted: active.filter((grant) => idOf(grant) === id).reduce((all, { amount }) => all + amount, 0),
    };
  };
  const known = new Map<string, CounterNumbers>();
  return demands.map((demand) => {
    const id = idOf(demand);
    const numbers = known.get(id) ?? numbersOf(id);
    known.set(id, numbers);
    return [demand, numbers];
  });
}
