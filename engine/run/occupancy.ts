/** How many requests are under way, by name: those of a caller, those that a limit on requests at once counts. */
export class Occupancy {
  readonly #counts = new Map<string, number>();

  /** Counts one in. @returns false, and counts nothing, when there are `most` already. */
  enter(name: string, most: number): boolean {
    const count = this.#counts.get(name) ?? 0;
    if (count >= most) return false;
    this.#counts.set(name, count + 1);
    return true;
  }

  /** Counts one out. */
  leave(name: string): void {
    const count = this.#counts.get(name)! - 1;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }

  count(name: string): number {
    return this.#counts.get(name) ?? 0;
  }
}
