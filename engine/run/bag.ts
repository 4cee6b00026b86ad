/** Something that can be in one bag. */
export interface Bagged {
  /** Owned by the bag. */
  index_in_bag: number;
}

/**
 * An unordered collection with constant-time add and remove.
 * Not a Set: V8 chains a Set's outgrown tables, and under a request load the dead ones in the old generation keep
 * every request reachable until the next full collection (measured: 18 us of scavenging per request).
 */
export class Bag<T extends Bagged> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): void {
    item.index_in_bag = this.#items.push(item) - 1;
  }

  remove(item: T): void {
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.index_in_bag] = last;
    last.index_in_bag = item.index_in_bag;
  }

  /** What is in it now; safe against changes while it is walked. */
  items(): T[] {
    return [...this.#items];
  }
}
