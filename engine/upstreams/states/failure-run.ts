import type { Witness } from '../../contract/forwarding.ts';

/**
 * Failures in a row, by who saw them. One request that an upstream cannot take fails as often as it is sent, so each counts once, and
 * a caller counts for half of what opens a breaker at most. A failure without a witness says as much as one of a caller of its own.
 */
export class FailureRun {
  /** By caller and request, how often it failed. */
  readonly #of = new Map<string, Map<number, number>>();
  #unwitnessed = 0;

  /** @param most of a caller's requests so many are told apart: more would show nothing else, and are not kept */
  add(witness: Witness | undefined, most: number): void {
    if (witness === undefined) {
      this.#unwitnessed += 1;
      return;
    }
    const { caller, request } = witness;
    const of_caller = this.#of.get(caller) ?? new Map<number, number>();
    this.#of.set(caller, of_caller);
    const times = of_caller.get(request);
    if (times !== undefined || of_caller.size < most) of_caller.set(request, (times ?? 0) + 1);
  }

  clear(): void {
    this.#of.clear();
    this.#unwitnessed = 0;
  }

  /** Whether they show a fault of the upstream: `failures` of them, of two callers at least. */
  shows(failures: number): boolean {
    if (this.#of.size === 1 && this.#unwitnessed === 0) return false;
    const most_of_one = Math.ceil(failures / 2);
    let sum = this.#unwitnessed;
    for (const requests of this.#of.values()) sum += Math.min(requests.size, most_of_one);
    return sum >= failures;
  }

  /** What else fails so often: requests of one caller, or one of them. */
  faultOf({ caller, request }: Witness, failures: number): 'caller' | 'request' | undefined {
    const of_caller = this.#of.get(caller);
    if (of_caller === undefined) return undefined;
    if (of_caller.size >= failures) return 'caller';
    return of_caller.get(request)! >= failures ? 'request' : undefined;
  }
}
