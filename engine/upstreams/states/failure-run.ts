import type { Witness } from '../../contract/forwarding.ts';

/**
 * Failures in a row, by who saw them. One request that an upstream cannot take fails as often as it is sent, so each counts once, and
 * a caller counts for half of what opens a breaker at most. A failure without a witness says as much as one of a caller of its own.
 */
export class FailureRun {
  readonly #requests_of = new Map<string, Set<number>>();
  #unwitnessed = 0;

  add(witness: Witness | undefined): void {
    if (witness === undefined) {
      this.#unwitnessed += 1;
      return;
    }
    const requests = this.#requests_of.get(witness.caller) ?? new Set();
    this.#requests_of.set(witness.caller, requests);
    requests.add(witness.request);
  }

  clear(): void {
    this.#requests_of.clear();
    this.#unwitnessed = 0;
  }

  /** Whether they show a fault of the upstream: `failures` of them, of two callers at least. */
  shows(failures: number): boolean {
    if (this.#requests_of.size === 1 && this.#unwitnessed === 0) return false;
    const most_of_one = Math.ceil(failures / 2);
    let sum = this.#unwitnessed;
    for (const requests of this.#requests_of.values()) sum += Math.min(requests.size, most_of_one);
    return sum >= failures;
  }

  /** Whether so many requests of one caller failed. */
  isOf({ caller }: Witness, failures: number): boolean {
    return (this.#requests_of.get(caller)?.size ?? 0) >= failures;
  }
}
