import type { CounterName, CounterStatus, LimitDemand } from '../../contract/services.ts';
import { type CountedDemand, type CounterNumbers, limitInForce } from '../../money/limits/room.ts';
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

/** Counters in memory, what was set and granted on them, and the windows they count in. */
export class Counters {
  readonly #now: () => number;
  readonly #time_zone: string;
  readonly #counters = new Map<string, Counter>();
  readonly #settings = new Map<string, number>();
  readonly #grants = new Map<string, { readonly amount: number; readonly expires_at: number }[]>();

  constructor(now: () => number, time_zone: string) {
    this.#now = now;
    this.#time_zone = time_zone;
  }

  /** The counter in its current window; opened where there is none. */
  at({ scope, key, window, unit }: CounterName): Counter {
    const name = { scope, key, window, unit };
    const { start, end } = windowAt(window, this.#now(), this.#time_zone);
    const id = `${idOf(name)} ${start}`;
    const fresh = { name, resets_at: end, spent: 0, reserved: 0, most: 0, in_flight: 0 };
    const counter = this.#counters.get(id) ?? fresh;
    this.#counters.set(id, counter);
    return counter;
  }

  /** Demands with the numbers of their counters. */
  counted(demands: readonly LimitDemand[]): CountedDemand[] {
    const known = new Map<Counter, CounterNumbers>();
    return demands.map((demand) => {
      const counter = this.at(demand);
      const numbers = known.get(counter) ?? this.#numbersOf(counter);
      known.set(counter, numbers);
      return [demand, numbers];
    });
  }

  #numbersOf(counter: Counter): CounterNumbers {
    const { name, ...numbers } = counter;
    const id = idOf(name);
    const active = (this.#grants.get(id) ?? []).filter(({ expires_at }) => this.#now() < expires_at);
    const granted = active.reduce((sum, { amount }) => sum + amount, 0);
    return { ...numbers, set: this.#settings.get(id) ?? null, granted };
  }

  /** The amount in force on a counter that the configuration limits to `written`. */
  inForce(name: CounterName, written: number): number {
    return limitInForce(written, this.#numbersOf(this.at(name)))!;
  }

  /** The status of a user's week or month that nothing limits with what the user spent on its days. */
  withSpentByDay(status: CounterStatus): CounterStatus {
    if (!isUncounted(status)) return status;
    const { start } = windowAt(status.window, this.#now(), this.#time_zone);
    const days = [...this.#counters.values()].filter(
      ({ name: { scope, key, window }, resets_at }) =>
        scope === 'user' && key === status.key && window === 'day' && resets_at! > start,
    );
    const spent = days.reduce((sum, day) => sum + day.spent, 0);
    return { ...status, spent: Math.max(status.spent, spent) };
  }

  /** Sets a limit in place of all configured ones on the counter; in its unit. */
  set(name: CounterName, amount: number): void {
    this.#settings.set(idOf(name), amount);
  }

  /** Goes back to the configured limits. */
  unset(name: CounterName): void {
    this.#settings.delete(idOf(name));
  }

  /** Adds room until a moment, in milliseconds since the epoch. Returns what revokes it. */
  grant(name: CounterName, amount: number, expires_at: number): () => void {
    const id = idOf(name);
    const one = { amount, expires_at };
    this.#grants.set(id, [...(this.#grants.get(id) ?? []), one]);
    return () => {
      const others = this.#grants.get(id)!.filter((other) => other !== one);
      this.#grants.set(id, others);
    };
  }
}

function idOf({ scope, key, window, unit }: CounterName): string {
  return JSON.stringify([scope, key, window, unit]);
}
