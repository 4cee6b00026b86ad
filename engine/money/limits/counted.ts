import type { CounterName, LimitChanges, LimitDemand } from '../../contract/services.ts';
import { grantedIn } from './limits-in-force.ts';
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
    const setting = settings.find((each) => idOf(each) === id);
    const changes: LimitChanges = {
      set: setting === undefined ? null : { amount: setting.amount, ...(setting.changed ?? BY_NOBODY) },
      grants: active
        .filter((grant) => idOf(grant) === id)
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
    const id = idOf(demand);
    const numbers = known.get(id) ?? numbersOf(id);
    known.set(id, numbers);
    return [demand, numbers];
  });
}
