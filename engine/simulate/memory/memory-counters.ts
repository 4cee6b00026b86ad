import type { CounterName, CounterStatus, LimitChanges, LimitDemand } from '../../contract/services.ts';
import { grantedIn } from '../../money/limits/limits-in-force.ts';
import type { CountedDemand, CounterNumbers } from '../../money/limits/room.ts';
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
  readonly #settings = new Map<string, NonNullable<LimitChanges['set']>>();
  readonly #grants = new Map<string, LimitChanges['grants'][number][]>();

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
    const changes = this.changes(name);
    const set = changes.set?.amount ?? null;
    const granted = grantedIn(changes);
    return { ...numbers, set, granted, ...((set !== null || granted > 0) && { changes }) };
  }

  /** What was set and granted on a counter. */
  changes(name: CounterName): LimitChanges {
    const id = idOf(name);
    const grants = (this.#grants.get(id) ?? []).filter(({ expires_at }) => this.#now() < expires_at);
    return { set: this.#settings.get(id) ?? null, grants };
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
  set(name: CounterName, amount: number, { at, by }: ChangedBy = this.#byNobody()): void {
    this.#settings.set(idOf(name), { amount, at, by });
  }

  #byNobody(): ChangedBy {
    return { at: this.#now(), by: 'nobody' };
  }

  /** Goes back to the configured limits. */
  unset(name: CounterName): void {
    this.#settings.delete(idOf(name));
  }

  /** Adds room until a moment, in milliseconds since the epoch. Returns what revokes it. */
  grant(name: CounterName, amount: number, expires_at: number, { at, by }: ChangedBy = this.#byNobody()): () => void {
    const id = idOf(name);
    const others = this.#grants.get(id) ?? [];
    const one = { id: `grant ${others.length + 1}`, amount, at, by, expires_at };
    this.#grants.set(
      id,
      [...others, one].toSorted((a, b) => a.expires_at - b.expires_at),
    );
    return () => {
      const others = this.#grants.get(id)!.filter((other) => other !== one);
      this.#grants.set(id, others);
    };
  }
}

/** Who changed a limit, and when, in milliseconds since the epoch. */
type ChangedBy = Pick<NonNullable<LimitChanges['set']>, 'at' | 'by'>;

function idOf({ scope, key, window, unit }: CounterName): string {
  return JSON.stringify([scope, key, window, unit]);
}
