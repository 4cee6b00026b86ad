const LF = 10;
const CR = 13;

/** An event longer than this is passed on as it comes, so that holding it can't fill memory. */
const HELD_BYTES_MAX = 1024 * 1024;

/** What is held is counted from here on: most events are far shorter. */
const UNCOUNTED_BYTES = 65_536;

/** What may be held of bytes. */
interface Room {
  /** @returns false where so many have no room */
  hold(bytes: number): boolean;
}

/**
 * Lets server-sent events through whole, byte for byte: what arrives of an event stays here until its blank line does, so
 * that a stream can be ended between two events wherever its source breaks off.
 */
export class WholeEvents {
  /** Whether what was let through ends inside an event, because that was too long to be held. */
  inside = false;
  /** What was let through last, and what had been held of it. */
  #latest: Buffer | string = '';
  #latest_held: Buffer | undefined;
  readonly #send: (bytes: Buffer | string) => void;
  readonly #room: Room | undefined;
  #held: Buffer | undefined;
  #size = 0;
  /** The last byte seen, and the one before it. */
  #last = 0;
  #second_last = 0;

  /** @param room for what is held of long events; what has none is passed on as it comes */
  constructor(send: (bytes: Buffer | string) => void, room?: Room) {
    this.#room = room;
    this.#send = (bytes) => {
      this.#latest = bytes;
      send(bytes);
    };
  }

  /** The events that were let through last. */
  get latest(): string {
    if (this.#latest_held === undefined) return this.#latest.toString();
    return Buffer.concat([this.#latest_held, Buffer.from(this.#latest)]).toString();
  }

  push(chunk: Buffer): void {
    const { length } = chunk;
    if (length === 0) return;
    const end = this.#endOfLastEvent(chunk);
    this.#second_last = length > 1 ? chunk[length - 2]! : this.#last;
    this.#last = chunk[length - 1]!;
    if (end === 0 && this.inside) {
      this.#send(chunk);
      return;
    }
    if (end > 0) {
      this.#latest_held = this.#held?.subarray(0, this.#size);
      this.#release();
      this.inside = false;
      this.#send(end === length ? chunk : chunk.subarray(0, end));
    }
    if (end < length) this.#hold(end === 0 ? chunk : chunk.subarray(end));
  }

  /** Like `push`; a text of whole events passes as it is. */
  pushText(text: string): void {
    if (this.#size > 0 || this.inside || !text.endsWith('\n\n')) {
      this.push(Buffer.from(text));
      return;
    }
    this.#second_last = this.#last = LF;
    this.#latest_held = undefined;
    this.#send(text);
  }

  /** Lets through what is left of a stream that has ended well. */
  end(): void {
    this.#release();
  }

  /** The offset behind the last blank line in a chunk; 0 without one. */
  #endOfLastEvent(chunk: Buffer): number {
    for (let i = chunk.length - 1; i >= 0; i--) {
      const byte = chunk[i]!;
      if (byte !== LF && byte !== CR) continue;
      const previous = this.#byteAt(chunk, i - 1);
      if (byte === previous) return i + 1;
      if (byte !== LF || previous !== CR) continue;
      const line_end = this.#byteAt(chunk, i - 2);
      if (line_end === LF || line_end === CR) return i + 1;
    }
    return 0;
  }

  #byteAt(chunk: Buffer, i: number): number {
    return i >= 0 ? chunk[i]! : i === -1 ? this.#last : this.#second_last;
  }

  #release(): void {
    if (this.#held === undefined) return;
    this.#send(this.#held.subarray(0, this.#size));
    this.#held = undefined;
    if (this.#size > UNCOUNTED_BYTES) this.#room?.hold(0);
    this.#size = 0;
  }

  #hold(bytes: Buffer): void {
    const size = this.#size + bytes.length;
    if (size > HELD_BYTES_MAX || (size > UNCOUNTED_BYTES && this.#room?.hold(2 * size) === false)) {
      this.#release();
      this.inside = true;
      this.#send(bytes);
      return;
    }
    if (this.#held === undefined) {
      this.#held = bytes;
    } else {
      if (this.#held.length < size) {
        // Twice as much as needed, so that an event in many small pieces is not copied for each of them.
        const grown = Buffer.allocUnsafe(2 * size);
        this.#held.copy(grown, 0, 0, this.#size);
        this.#held = grown;
      }
      bytes.copy(this.#held, this.#size);
    }
    this.#size = size;
  }
}
