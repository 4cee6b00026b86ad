const LF = 10;
const CR = 13;

/** Longer events pass unbuffered, so that they cannot fill memory. */
const BUFFERED_BYTES_MAX = 1024 * 1024;

/** Smaller buffers do not count against the quota; most events are far shorter. */
const UNCOUNTED_BYTES = 65_536;

interface BufferQuota {
  /** Sets the buffered size. @returns false if it exceeds the quota */
  hold(bytes: number): boolean;
}

/** Forwards whole server-sent events, byte for byte, so that a stream ends between two wherever its source breaks off. */
export class WholeEvents {
  /** Whether the forwarded bytes end inside an event that was too long to buffer. */
  inside = false;
  /** The bytes forwarded last, and the buffered part before them. */
  #latest: Buffer | string = '';
  #latest_buffered: Buffer | undefined;
  readonly #send: (bytes: Buffer | string) => void;
  readonly #quota: BufferQuota | undefined;
  #buffered: Buffer | undefined;
  #size = 0;
  /** The last byte seen, and the one before it. */
  #last = 0;
  #second_last = 0;

  /** @param quota for long events; an event over the quota passes unbuffered */
  constructor(send: (bytes: Buffer | string) => void, quota?: BufferQuota) {
    this.#quota = quota;
    this.#send = (bytes) => {
      this.#latest = bytes;
      send(bytes);
    };
  }

  /** The events forwarded last. */
  get latest(): string {
    if (this.#latest_buffered === undefined) return this.#latest.toString();
    return Buffer.concat([this.#latest_buffered, Buffer.from(this.#latest)]).toString();
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
      this.#latest_buffered = this.#buffered?.subarray(0, this.#size);
      this.#release();
      this.inside = false;
      this.#send(end === length ? chunk : chunk.subarray(0, end));
    }
    if (end < length) this.#buffer(end === 0 ? chunk : chunk.subarray(end));
  }

  /** Like `push`; a text of complete events passes unchanged. */
  pushText(text: string): void {
    if (this.#size > 0 || this.inside || !text.endsWith('\n\n')) {
      this.push(Buffer.from(text));
      return;
    }
    this.#second_last = this.#last = LF;
    this.#latest_buffered = undefined;
    this.#send(text);
  }

  /** Forwards the rest of a stream that has ended normally. */
  end(): void {
    this.#release();
  }

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
    if (this.#buffered === undefined) return;
    this.#send(this.#buffered.subarray(0, this.#size));
    this.#buffered = undefined;
    if (this.#size > UNCOUNTED_BYTES) this.#quota?.hold(0);
    this.#size = 0;
  }

  #buffer(bytes: Buffer): void {
    const size = this.#size + bytes.length;
    if (size > BUFFERED_BYTES_MAX || (size > UNCOUNTED_BYTES && this.#quota?.hold(2 * size) === false)) {
      this.#release();
      this.inside = true;
      this.#send(bytes);
      return;
    }
    if (this.#buffered === undefined) {
      this.#buffered = bytes;
    } else {
      if (this.#buffered.length < size) {
        // Doubled, so that an event in many small chunks is not copied for each chunk.
        const grown = Buffer.allocUnsafe(2 * size);
        this.#buffered.copy(grown, 0, 0, this.#size);
        this.#buffered = grown;
      }
      bytes.copy(this.#buffered, this.#size);
    }
    this.#size = size;
  }
}
