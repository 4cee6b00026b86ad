/**
 * `on_client_abort: drain`: reads a response to its end after its client has gone, so that its usage is known. Providers
 * charge for it either way.
 * @module
 */
import type { StageError } from '../../base/contract/errors.ts';
import type { Clock, Timer } from '../../base/contract/services.ts';
import type { ReadToEndLimits, Relay } from '../../base/contract/stage.ts';

/** A response that may still arrive after its request has failed. */
export interface LateResponse {
  readonly relay: Promise<Relay>;
  readonly cancel: (reason: StageError) => void;
}

/** One caller's largest share of `ReadToEndLimits.requests`: clients that abort on purpose cannot use up the limit. */
const SHARE = 1 / 4;

/** The drain of one request's response, within the limits of its upstream. */
export class ResponseDrain {
  late: LateResponse | undefined;
  /** Whether an upstream has the request. */
  is_forwarded = false;
  #limits: ReadToEndLimits | undefined;
  /** Set once the client has gone: the limits that count this drain, and the caller they count it for. */
  #reading: { readonly limits: ReadToEndLimits; readonly caller: string; readonly timer: Timer } | undefined;
  #bytes = 0;

  get has_begun(): boolean {
    return this.#reading !== undefined;
  }

  /** See `StageContext.readToEndWithin`. */
  within(limits: ReadToEndLimits | undefined): void {
    this.is_forwarded = true;
    this.#limits = limits;
  }

  /**
   * @param options.seconds longest drain; the limits may set a shorter one
   * @returns false where draining is off, or the limit of concurrent drains is reached, in all or for this caller
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

  /** Counts bytes. @returns whether the limit allows more */
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
