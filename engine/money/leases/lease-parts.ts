import type { CounterName, ReservationRequest } from '../../contract/services.ts';
import { type CounterNumbers, neededIn } from '../limits/room.ts';
import type { Amounts } from './counter-use.ts';

/** Room on a counter that this process has taken and not yet placed. */
export interface Lease {
  readonly counter: string;
  readonly id: number;
  /** What is free. */
  readonly free: Amounts;
  /** The largest limit that some of it was taken under; requests under a smaller one do not use it. */
  limit: number;
  /** Milliseconds since the epoch by the database's clock; infinity where it never ends. */
  readonly ends_at: number;
  /** The counter, with what is leased, as far as this process knows. */
  numbers: { -readonly [Name in keyof CounterNumbers]: CounterNumbers[Name] };
  /** Monotonic. */
  used_at: number;
}

/** What a request takes of one counter. */
export interface Part extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  /** The smallest limit that the request comes under there, also in shadow mode; infinity without any. */
  limit: number;
  /** Whether one of them is in shadow mode. */
  is_shadowed: boolean;
}

/** A request that was placed in leases. */
export interface Placement {
  readonly request: ReservationRequest;
  readonly parts: readonly Part[];
  /** In the order of the parts. */
  readonly leases: readonly Lease[];
}

/** So much of a lease that is to be given back. */
export interface Return extends Amounts {
  readonly id: number;
}

/** So much that is to be leased. */
export interface Wish extends Amounts {
  readonly counter: string;
  readonly name: CounterName;
  readonly limit: number;
}

/** What became of a wish. */
export interface Granted {
  readonly taken: boolean;
  readonly id: number;
  readonly ends_at: number | null;
  readonly numbers: CounterNumbers;
}

/** A request that is over. */
export interface Ending {
  readonly parts: readonly Part[];
  /** In the unit of each part. */
  readonly spent: readonly number[];
  /** Whether what the database tells from now on includes it. */
  sent: boolean;
}

/** A moment by both clocks. */
export interface Moment {
  readonly monotonic: number;
  /** By the database's clock, in milliseconds since the epoch. */
  readonly database: number;
}

/** Tells a counter from all others. */
export function counterName({ scope, key, window, unit }: CounterName): string {
  // Nothing but the last part can have a blank.
  return `${scope} ${window} ${unit} ${key}`;
}

/** What a request takes of each of its counters. */
export function partsOf(request: ReservationRequest): Part[] {
  const parts: Part[] = [];
  for (const demand of request.demands) {
    const counter = counterName(demand);
    const limit = demand.limit ?? Number.POSITIVE_INFINITY;
    const { shadow: is_shadowed = false } = demand;
    const known = parts.find((part) => part.counter === counter);
    if (known === undefined) {
      parts.push({ counter, name: demand, limit, is_shadowed, ...neededIn(demand.unit, request), requests: 1 });
      continue;
    }
    known.limit = Math.min(known.limit, limit);
    known.is_shadowed ||= is_shadowed;
  }
  return parts;
}
