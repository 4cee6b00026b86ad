import type { HeldBytes } from './body-budget.ts';

/** Memory for a body of unknown length begins with this and doubles. */
const FIRST_BYTES = 65_536;

/** Memory of one body that grows as the body comes: its pages are touched as they are filled, and go back when it is dropped. */
export class BodyMemory {
  readonly #room: HeldBytes;
  readonly #max_bytes: number;
  readonly #tooLarge: () => Error;
  /** Bytes taken from the room. */
  #taken: number;
  #memory: Buffer | undefined;
  #size = 0;

  /**
   * @param length is taken from the room at once; 0 where nobody knows it. Raises what the room raises.
   * @param max_bytes more than this raises what `tooLarge` creates
   */
  constructor(room: HeldBytes, length: number, max_bytes: number, tooLarge: () => Error) {
    this.#room = room;
    this.#max_bytes = max_bytes;
    this.#tooLarge = tooLarge;
    room.takeForBody(length);
    this.#taken = length;
  }

  /** Bytes of the body so far. */
  get size(): number {
    return this.#size;
  }

  /** Raises what `tooLarge` creates and what the room raises. @returns whether the chunk was copied, and can go */
  append(chunk: Buffer): boolean {
    const size = this.#size + chunk.length;
    if (size > this.#max_bytes) throw this.#tooLarge();
    // Most bodies come in one chunk, which then is the body.
    const is_whole = this.#size === 0 && chunk.length === this.#taken;
    if (is_whole) this.#memory = chunk;
    else {
      this.#grow(size);
      chunk.copy(this.#memory!, this.#size);
    }
    this.#size = size;
    return !is_whole;
  }

  /** The body, as long as it is; that much stays taken from the room. */
  finish(): Buffer {
    this.#room.give(this.#taken - this.#size);
    this.#taken = this.#size;
    return this.#memory?.subarray(0, this.#size) ?? Buffer.alloc(0);
  }

  /** Gives everything back to the room. */
  drop(): void {
    this.#room.give(this.#taken);
    this.#taken = 0;
    this.#memory = undefined;
  }

  #grow(size: number): void {
    const old = this.#memory;
    if (old !== undefined && old.length >= size) return;
    if (size <= this.#taken) {
      this.#memory = Buffer.allocUnsafeSlow(this.#taken);
      return;
    }
    const larger = Math.min(Math.max(size, 2 * this.#taken, FIRST_BYTES), this.#max_bytes);
    // Two copies exist only while the new one is made: that is not counted.
    this.#room.takeForBody(larger - this.#taken);
    this.#memory = Buffer.allocUnsafeSlow(larger);
    old?.copy(this.#memory, 0, 0, this.#size);
    this.#taken = larger;
  }
}
