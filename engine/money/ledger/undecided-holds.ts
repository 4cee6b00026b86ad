import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../contract/services.ts';

/** Knows how long the database may still make reservations that this process has not heard of. */
export interface UndecidedReservations {
  /**
   * Has holds placed, and notes until when that may happen where no answer comes.
   * @param valid_until by the monotonic clock
   */
  place<Answer>(valid_until: number, place: () => Promise<Answer>): Promise<Answer>;
  /** Resolves when no reservation can be placed any more, whether the database answers or not; at the latest after its patience. */
  over(): Promise<void>;
}

/** Longer than most waits for a reservation, and shorter than a gateway that stops waits for its ledger. */
const PATIENCE_MS = 6500;
const STEP_MS = 50;

/** Creates the knowledge of one process, which places one batch at a time. */
export function createUndecidedReservations(clock: Pick<Clock, 'monotonic' | 'frozen'>): UndecidedReservations {
  let until = Number.NEGATIVE_INFINITY;
  return {
    async place(valid_until, place) {
      const former = until;
      until = Math.max(until, valid_until);
      const answer = await place();
      until = former;
      return answer;
    },
    async over() {
      // A stopped clock never gets there.
      if (clock.frozen) return;
      const patience_ends = clock.monotonic() + PATIENCE_MS;
      while (clock.monotonic() < Math.min(until, patience_ends)) await delay(STEP_MS);
    },
  };
}
