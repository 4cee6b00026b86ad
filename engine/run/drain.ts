import type { StageError } from '../contract/errors.ts';
import type { Clock, Timer } from '../contract/services.ts';
import type { DrainLimits, Relay } from '../contract/stage.ts';

/** An answer that may still come although the request has failed, and who gives up on it. */
export interface LateAnswer {
  readonly relay: Promise<Relay>;
  readonly cancel: (reason: StageError) => void;
}

/** The part of `DrainLimits.requests` that one caller can take, so that whoever leaves on purpose leaves room for others. */
const SHARE = 1 / 4;

/** One answer that is read on for its bill, although nobody gets it any more. */
export class Drain {
  readonly #limits: DrainLimits;
  readonly #caller: string;
  readonly #timer: Timer;
  #bytes = 0;

  private constructor(limits: DrainLimits, caller: string, timer: Timer) {
    this.#limits = limits;
    this.#caller = caller;
    this.#timer = timer;
  }

  /**
   * Begins to drain; `undefined` when as many as may are drained already, over all or of this caller.
   * @param seconds at most, if the limits allow as many.
   */
  static begin(
    limits: DrainLimits,
    clock: Clock,
    options: { readonly caller: string; readonly seconds: number; readonly onTimeUp: () => void },
  ): Drain | undefined {
    const { caller, seconds, onTimeUp } = options;
    const own = limits.running_of.get(caller) ?? 0;
    if (limits.running >= limits.requests || own >= Math.ceil(limits.requests * SHARE)) return undefined;
    limits.running++;
    limits.running_of.set(caller, own + 1);
    return new Drain(limits, caller, clock.after(Math.min(seconds, limits.seconds) * 1000, onTimeUp));
  }

  /** Notes that bytes came. @returns whether more may come. */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#limits.bytes;
  }

  end(): void {
    this.#timer.close();
    this.#limits.running--;
    const own = this.#limits.running_of.get(this.#caller)! - 1;
    if (own > 0) this.#limits.running_of.set(this.#caller, own);
    else this.#limits.running_of.delete(this.#caller);
  }
}
