/** Counters in memory, and the limits on them: the same rules as those of the database. */

import type { CounterName, CounterStatus, LimitDemand, LimitStatus } from '../../contract/services.ts';
import { limitName } from '../../money/ledger/ledger-decisions.ts';
import { isUncounted } from '../../money/reports/spent-by-day.ts';
import { windowAt } from '../calendar.ts';

/** A counter in its current window; numbers in its unit. */
export interface Counter {
  readonly name: CounterName;
  readonly resets_at: number | null;
  spent: number;
  reserved: number;
  most: number;
  in_flight: number;
}

/** A limit set at run time, and room granted on top of whatever limit is in force. */
export interface RunTimeLimits {
  /** Takes the place of all configured limits on the counter; in its unit. */
  set(name: CounterName, amount: number): void;
  /** Goes back to the configured limits. */
  unset(name: CounterName): void;
  /** Adds room until a moment, in milliseconds since the epoch. Returns what revokes it. */
  grant(name: CounterName, amount: number, expires_at: number): () => void;
}

/** The counters of one ledger. */
export interface Counters extends RunTimeLimits {
  /** The counter in its current window; opened where there is none. */
  at(name: CounterName): Counter;
  /**
   * How the limits of demands stand that are not in shadow mode; the limit is `null` where nothing limits one. A limit that was set at run
   * time is one limit, whatever demands on its counter it takes the place of.
   */
  inForce(demands: readonly LimitDemand[]): CounterStatus[];
  /** The status of a user's week or month that nothing limits with what the user spent on its days. */
  withSpentByDay(limit_status: CounterStatus): CounterStatus;
}

/** Opens counters. */
export function openCounters(now: () => number, time_zone: string): Counters {
  const counters = new Map<string, Counter>();
  const settings = new Map<string, number>();
  const grants = new Map<string, { readonly amount: number; readonly expires_at: number }[]>();

  function granted(name: string): number {
    const active = (grants.get(name) ?? []).filter(({ expires_at }) => now() < expires_at);
    return active.reduce((sum, { amount }) => sum + amount, 0);
  }

  function at(name: CounterName): Counter {
    const { start, end } = windowAt(name.window, now(), time_zone);
    const key = `${keyOf(name)} ${start}`;
    const fresh = { name: nameOf(name), resets_at: end, spent: 0, reserved: 0, most: 0, in_flight: 0 };
    const counter = counters.get(key) ?? fresh;
    counters.set(key, counter);
    return counter;
  }

  return {
    at,
    inForce(demands) {
      const enforced = demands.filter(({ shadow = false }) => !shadow);
      const names = enforced.map(keyOf);
      return enforced.flatMap((demand, i): CounterStatus[] => {
        const name = names[i]!;
        const setting = settings.get(name);
        if (setting !== undefined && names.indexOf(name) < i) return [];
        const base = setting ?? demand.limit;
        const limit = base === null ? null : base + granted(name);
        return [{ ...stateOf(at(demand)), rule: limitName(demand, setting ?? null), limit }];
      });
    },
    withSpentByDay(limit_status) {
      if (!isUncounted(limit_status)) return limit_status;
      const { start } = windowAt(limit_status.window, now(), time_zone);
      const days = [...counters.values()].filter(
        ({ name: { scope, key, window }, resets_at }) =>
          scope === 'user' && key === limit_status.key && window === 'day' && resets_at! > start,
      );
      const spent = days.reduce((sum, day) => sum + day.spent, 0);
      return { ...limit_status, spent: Math.max(limit_status.spent, spent) };
    },
    set: (name, amount) => void settings.set(keyOf(name), amount),
    unset: (name) => void settings.delete(keyOf(name)),
    grant(name, amount, expires_at) {
      const key = keyOf(name);
      const one = { amount, expires_at };
      grants.set(key, [...(grants.get(key) ?? []), one]);
      return () =>
        void grants.set(
          key,
          grants.get(key)!.filter((other) => other !== one),
        );
    },
  };
}

function nameOf({ scope, key, window, unit }: CounterName): CounterName {
  return { scope, key, window, unit };
}

function keyOf({ scope, key, window, unit }: CounterName): string {
  return JSON.stringify([scope, key, window, unit]);
}

/** How a counter stands, apart from its limit. */
export function stateOf({
  name,
  spent,
  reserved,
  most,
  in_flight,
  resets_at,
}: Counter): Omit<LimitStatus, 'rule' | 'limit'> {
  return { ...name, spent, reserved, in_flight, most, resets_at };
}
