import type { OwnedFile } from './spool-files.ts';

/** What waits in spool files, oldest first, by the database it belongs to: nothing is ever written to another. */
export class ByDatabase<Item extends { readonly owned: OwnedFile }> {
  readonly #waiting = new Map<string, Set<Item>>();

  /** How many wait, for any database. */
  get size(): number {
    let size = 0;
    for (const items of this.#waiting.values()) size += items.size;
    return size;
  }

  sizeOf(database_id: string | undefined): number {
    return database_id === undefined ? 0 : this.of(database_id).size;
  }

  /** What waits for a database. Going through it sees what is added and leaves out what is deleted meanwhile. */
  of(database_id: string): ReadonlySet<Item> {
    return this.#itemsOf(database_id);
  }

  has(item: Item): boolean {
    return this.#itemsOf(item.owned.database_id).has(item);
  }

  add(item: Item): void {
    this.#itemsOf(item.owned.database_id).add(item);
  }

  delete(item: Item): void {
    this.#itemsOf(item.owned.database_id).delete(item);
  }

  #itemsOf(database_id: string): Set<Item> {
    const known = this.#waiting.get(database_id);
    if (known !== undefined) return known;
    const items = new Set<Item>();
    this.#waiting.set(database_id, items);
    return items;
  }
}
