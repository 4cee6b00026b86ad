import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../contract/services.ts';

/** Longer than most waits for a reservation, and shorter than a gateway that stops waits for its ledger. */
const PATIENCE_MS = 6500;
const STEP_MS = 50;

/** Knows how long the database may still make reservations that this process, which sends one batch at a time, has not heard of. */
export class UndecidedReservations {
  readonly #clock: Pick<Clock, 'monotonic' | 'frozen'>;
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic' | 'frozen'>) {
    this.#clock = clock;
  }

  /**
   * Sends a batch, and notes until when it may reserve something where no answer comes.
   * @param valid_until by the monotonic clock
   */
  async await<Answer>(valid_until: number, send: () => Promise<Answer>): Promise<Answer> {
    const former = this.#until;
    this.#until = Math.max(former, valid_until);
    const answer = await send();
    this.#until = former;
    return answer;
  }

  /** Resolves when nothing can be reserved any more, whether the database answers or not; at the latest after its patience. */
  async over(): Promise<void> {
    const clock = this.#clock;
    // A stopped clock never gets there.
    if (clock.frozen) return;
    const patience_ends = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < Math.min(this.#until, patience_ends)) await delay(STEP_MS);
  }
}
