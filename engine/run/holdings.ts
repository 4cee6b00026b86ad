import type { HeldBytes } from './body-budget.ts';
import type { Lingerer, Occupancy, Waiter } from './occupancy.ts';

/** What a request has of its process while it is under way, beside its body: slots by name, and room for bytes. */
export class Holdings {
  readonly #under_way: Occupancy;
  #slots: string[] | undefined;
  #rooms: HeldBytes[] | undefined;

  constructor(under_way: Occupancy) {
    this.#under_way = under_way;
  }

  /** Takes a slot under a name; false when there are `most`. */
  occupy(name: string, most: number): boolean {
    return this.#under_way.enter(name, most) && this.#keepSlot(name);
  }

  /** The same, once there is one; false as soon as the request is over. */
  async occupyInTime(name: string, most: number, request: Waiter & Lingerer): Promise<boolean> {
    if (!(await this.#under_way.enterInTime(name, most, request))) return false;
    if (!request.is_over) return this.#keepSlot(name);
    this.#under_way.leave(name, request);
    return false;
  }

  #keepSlot(name: string): true {
    this.#slots = [...(this.#slots ?? []), name];
    return true;
  }

  addRoom(room: HeldBytes): HeldBytes {
    this.#rooms = [...(this.#rooms ?? []), room];
    return room;
  }

  /** The answer is only read on, as nobody waits for it. */
  linger(request: Lingerer): void {
    for (const name of this.#slots ?? []) this.#under_way.linger(name, request);
  }

  /** Gives everything back; more calls do nothing. */
  leave(request: Lingerer): void {
    for (const name of this.#slots ?? []) this.#under_way.leave(name, request);
    for (const room of this.#rooms ?? []) room.release();
    this.#slots = undefined;
    this.#rooms = undefined;
  }
}
