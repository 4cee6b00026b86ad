/** A connection's use of the response it reads. */
export interface ResponseListener {
  onHead(status: number): void;
  onBody(bytes: Buffer): void;
  onEnd(): void;
}

const HEAD_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

type State = 'head' | 'counted' | 'chunk_size' | 'chunk_data' | 'chunk_end' | 'trailer';

/**
 * A minimal HTTP/1.1 response reader: one response after another on a kept-alive connection, with `content-length` or
 * chunked framing. The measuring process shares the machine with what it measures, so it does no more than this.
 */
export class ResponseParser {
  readonly #listener: ResponseListener;
  #state: State = 'head';
  #left = 0;
  #rest: Buffer | undefined;

  constructor(listener: ResponseListener) {
    this.#listener = listener;
  }

  /** Accepts the next bytes of the connection, in any pieces. */
  push(bytes: Buffer): void {
    let input: Buffer | undefined = this.#rest === undefined ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = undefined;
    while (input !== undefined && input.length > 0) input = this.#step(input);
  }

  /** Consumes one element and returns what follows it; `undefined` when more bytes are needed. */
  #step(input: Buffer): Buffer | undefined {
    if (this.#state === 'head') return this.#head(input);
    if (this.#state === 'counted' || this.#state === 'chunk_data') return this.#data(input);
    return this.#line(input);
  }

  #wait(input: Buffer): undefined {
    this.#rest = input;
  }

  #head(input: Buffer): Buffer | undefined {
    const end = input.indexOf(HEAD_END);
    if (end < 0) return this.#wait(input);
    const head = input.toString('latin1', 0, end).toLowerCase();
    const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
    this.#left = Number(length ?? 0);
    this.#state = length === undefined ? 'chunk_size' : 'counted';
    this.#listener.onHead(Number(head.slice(9, 12)));
    if (this.#state === 'counted' && this.#left === 0) this.#finish();
    return input.subarray(end + 4);
  }

  #data(input: Buffer): Buffer | undefined {
    const part = input.length <= this.#left ? input : input.subarray(0, this.#left);
    this.#left -= part.length;
    this.#listener.onBody(part);
    if (this.#left === 0) {
      if (this.#state === 'counted') this.#finish();
      else this.#state = 'chunk_end';
    }
    return part.length === input.length ? undefined : input.subarray(part.length);
  }

  #line(input: Buffer): Buffer | undefined {
    const end = input.indexOf(LINE_END);
    if (end < 0) return this.#wait(input);
    if (this.#state === 'chunk_size') {
      this.#left = Number.parseInt(input.toString('latin1', 0, end), 16);
      if (Number.isNaN(this.#left)) throw new Error('the response is not chunked as it should be');
      this.#state = this.#left === 0 ? 'trailer' : 'chunk_data';
    } else if (this.#state === 'chunk_end') this.#state = 'chunk_size';
    else if (end === 0) this.#finish();
    return input.subarray(end + 2);
  }

  #finish(): void {
    this.#state = 'head';
    this.#listener.onEnd();
  }
}
