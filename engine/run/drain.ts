import type { Clock, DrainLimits, Relay, StageError, Timer } from '../api.ts';

/** An answer that may still come although the request has failed, and who gives up on it. */
export interface LateAnswer {
  readonly relay: Promise<Relay>;
  readonly cancel: (reason: StageError) => void;
}

/** One answer that is read on for its bill, although nobody gets it any more. */
export class Drain {
  readonly #limits: DrainLimits;
  readonly #timer: Timer;
  #bytes = 0;

  private constructor(limits: DrainLimits, timer: Timer) {
    this.#limits = limits;
    this.#timer = timer;
  }

  /**
   * Begins to drain; `undefined` when as many as may are drained already.
   * @param seconds at most, if the limits allow as many.
   */
  static begin(
    limits: DrainLimits,
    clock: Clock,
    { seconds, onTimeUp }: { readonly seconds: number; readonly onTimeUp: () => void },
  ): Drain | undefined {
    if (limits.running >= limits.requests) return undefined;
    limits.running++;
    return new Drain(limits, clock.after(Math.min(seconds, limits.seconds) * 1000, onTimeUp));
  }

  /** Notes that bytes came. @returns whether more may come. */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#limits.bytes;
  }

  end(): void {
    this.#timer.close();
    this.#limits.running--;
  }
}
