import type { Socket } from 'node:net';

const ZERO = 48;
const ONE = 49;
const TWO = 50;
const CR = 13;
const LF = 10;

/** Where the three digits stand in `HTTP/1.1 100 Continue`. */
const STATUS_AT = 9;

/**
 * Lets a connection say `100 Continue` unasked, as any server may before its answer (RFC 9110 section 15.2). undici takes that for
 * an attack and cuts the connection, but leaves out every other announcement: it is shown `102`, in the same place.
 */
export class Announcements {
  #awaiting = false;
  /** How much of a status line has passed. */
  #at = 0;
  #tens_are_zero = false;
  #line_length = 0;

  /** @param socket one that undici reads with `read` */
  constructor(socket: Socket) {
    const { read } = socket;
    socket.read = (size?: number) => {
      const chunk = read.call(socket, size) as Buffer | null;
      if (chunk !== null && this.#awaiting) this.#see(chunk);
      return chunk;
    };
  }

  /** A request is sent: what comes next is a status line. */
  awaitAnswer(): void {
    this.#awaiting = true;
    this.#at = 0;
  }

  #see(chunk: Buffer): void {
    // Nearly always: an answer, with the beginning of its head in one piece.
    if (this.#at === 0 && chunk.length > STATUS_AT && chunk[STATUS_AT] !== ONE) {
      this.#awaiting = false;
      return;
    }
    for (let i = 0; i < chunk.length && this.#awaiting; i++) {
      if (this.#at < STATUS_AT + 3) this.#seeStatus(chunk, i);
      else this.#seeHead(chunk[i]!);
    }
  }

  #seeStatus(chunk: Buffer, i: number): void {
    const byte = chunk[i]!;
    if (this.#at === STATUS_AT && byte !== ONE) this.#awaiting = false;
    if (this.#at === STATUS_AT + 1) this.#tens_are_zero = byte === ZERO;
    if (this.#at === STATUS_AT + 2 && this.#tens_are_zero && byte === ZERO) chunk[i] = TWO;
    this.#at++;
    this.#line_length = 1;
  }

  /** Behind the head of an announcement comes another status line. */
  #seeHead(byte: number): void {
    if (byte === LF) {
      if (this.#line_length === 0) this.#at = 0;
      this.#line_length = 0;
    } else if (byte !== CR) this.#line_length++;
  }
}
