/**
 * Answers that are read on for their bill, although nobody gets them any more.
 * @module
 */
import type { StageError } from '../../base/contract/errors.ts';
import type { Clock, Timer } from '../../base/contract/services.ts';
import type { DrainLimits, Relay } from '../../base/contract/stage.ts';

/** An answer that may still come although the request has failed, and who gives up on it. */
export interface LateAnswer {
  readonly relay: Promise<Relay>;
  readonly cancel: (reason: StageError) => void;
}

/** The part of `DrainLimits.requests` that one caller can take, so that whoever leaves on purpose leaves room for others. */
const SHARE = 1 / 4;

/** Whether and how far the answer of one request is read on. */
export class RequestDrain {
  late: LateAnswer | undefined;
  /** Whether an upstream has the request. */
  is_forwarded = false;
  #limits: DrainLimits | undefined;
  /** Which limits count it and as whose, once the client has gone. */
  #reading: { readonly limits: DrainLimits; readonly caller: string; readonly timer: Timer } | undefined;
  #bytes = 0;

  /** Whether the answer is read on, or was. */
  get has_begun(): boolean {
    return this.#reading !== undefined;
  }

  /** See `StageContext.drainWithin`. */
  within(limits: DrainLimits | undefined): void {
    this.is_forwarded = true;
    this.#limits = limits;
  }

  /**
   * @param options.seconds at most, if the limits allow as many.
   * @returns false where nothing may be read on, or as much as may is already, over all or of this caller
   */
  begin(
    clock: Clock,
    options: { readonly caller: string; readonly seconds: number; readonly onTimeUp: () => void },
  ): boolean {
    const limits = this.#limits;
    if (limits === undefined || this.has_begun) return limits !== undefined;
    const { caller, seconds, onTimeUp } = options;
    const own = limits.running_of.get(caller) ?? 0;
    if (limits.running >= limits.requests || own >= Math.ceil(limits.requests * SHARE)) return false;
    limits.running++;
    limits.running_of.set(caller, own + 1);
    const timer = clock.after(Math.min(seconds, limits.seconds) * 1000, onTimeUp);
    this.#reading = { limits, caller, timer };
    return true;
  }

  /** Notes that bytes came. @returns whether more may come. */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#reading!.limits.bytes;
  }

  end(): void {
    this.is_forwarded = false;
    if (this.#reading === undefined) return;
    const { limits, caller, timer } = this.#reading;
    timer.close();
    limits.running--;
    const own = limits.running_of.get(caller)! - 1;
    if (own > 0) limits.running_of.set(caller, own);
    else limits.running_of.delete(caller);
  }
}
