import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import type { ResponseEvent } from '../contract/stage.ts';
import { decompressor } from '../kit/decompressor.ts';
import { tryParseBounded } from '../kit/json/bounded.ts';
import { outlinePolitely } from '../kit/json/polite.ts';
import { isEventStream, isPlain } from '../kit/media-type.ts';
import type { HeldBytes } from './holdings.ts';

const LF = 10;
const CR = 13;

/** An event longer than this is passed on as it comes, so that holding it can't fill memory. */
const HELD_BYTES_MAX = 1024 * 1024;

/** What is held is counted from here on: most events are far shorter. */
const UNCOUNTED_BYTES = 65_536;

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
  readonly #room: HeldBytes | undefined;
  #held: Buffer | undefined;
  #size = 0;
  /** The last byte seen, and the one before it. */
  #last = 0;
  #second_last = 0;

  /** @param room for what is held of long events; what has none is passed on as it comes */
  constructor(send: (bytes: Buffer | string) => void, room?: HeldBytes) {
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

/** A JSON document or one event longer than this is relayed but not read, so that observing can't fill memory. */
const OBSERVED_BYTES_MAX = 32 * 1024 * 1024;

/** Like that for an event, which is read at once; lines of it cost more memory than they have bytes. */
const EVENT_BYTES_MAX = 12 * 1024 * 1024;

/** A document up to this size is parsed in a moment, whatever it is. */
const SMALL_BYTES_MAX = 65_536;

/** Reads a copy of a response while the original travels. */
export interface Observer {
  /** @returns false when the copy lags behind and the source should pause until `onDrain`. */
  write(chunk: Buffer): boolean;
  onDrain(resume: () => void): void;
  /** Resolves when everything written has been seen. @returns whether it could be read. */
  end(): Promise<boolean>;
}

/** `end` gives a promise where the last of what it shows takes long. */
type Sink = { readonly overflown: boolean; write(chunk: Buffer): void; end(): Promise<void> | undefined };

/** A large document is shown with its outline, made while others are served. */
async function showLarge(bytes: Buffer, owner: string, onEvent: (event: ResponseEvent) => void): Promise<void> {
  const outline = (await outlinePolitely(bytes, owner)) ?? '';
  onEvent({
    name: undefined,
    large: { bytes: bytes.length, outline },
    // Most never ask for it.
    get data() {
      return bytes.toString('utf8');
    },
  });
}

function eventSink(onEvent: (event: ResponseEvent) => void, room: HeldBytes): Sink {
  const decoder = new StringDecoder('utf8');
  let overflown = false;
  /** Bytes since the last event ended. */
  let pending = 0;
  const parser = createParser({
    maxBufferSize: EVENT_BYTES_MAX,
    onEvent: (event) => {
      if (pending > UNCOUNTED_BYTES) room.hold(0);
      pending = 0;
      if (is_last && !isWhole(event.data)) return;
      onEvent({ name: event.event || 'message', data: event.data });
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') overflow();
    },
  });
  function overflow(): void {
    overflown = true;
    parser.reset();
    room.hold(0);
  }
  const feed = (text: string) => {
    if (!overflown) parser.feed(text);
  };
  let is_last = false;
  return {
    get overflown() {
      return overflown;
    },
    write(chunk) {
      pending += chunk.length;
      feed(decoder.write(chunk));
      if (overflown || pending <= UNCOUNTED_BYTES) return;
      if (pending > EVENT_BYTES_MAX || !room.hold(pending)) overflow();
    },
    end() {
      is_last = true;
      feed(`${decoder.end()}\n\n`);
      room.hold(0);
      return undefined;
    },
  };
}

/** Some servers leave out the blank line after their last event; of what was cut off in the middle no JSON is left. */
function isWhole(data: string): boolean {
  return data === '[DONE]' || tryParseBounded(data) !== undefined;
}

function documentSink(onEvent: (event: ResponseEvent) => void, room: HeldBytes): Sink {
  const chunks: Buffer[] = [];
  let size = 0;
  let overflown = false;
  return {
    get overflown() {
      return overflown;
    },
    write(chunk) {
      if (overflown) return;
      size += chunk.length;
      overflown = size > OBSERVED_BYTES_MAX || !room.hold(size);
      if (!overflown) chunks.push(chunk);
      else {
        chunks.length = 0;
        room.hold(0);
      }
    },
    end() {
      if (chunks.length === 0) return undefined;
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      if (bytes.length > SMALL_BYTES_MAX) return showLarge(bytes, room.owner, onEvent).finally(() => room.hold(0));
      onEvent({ name: undefined, data: bytes.toString('utf8') });
      room.hold(0);
      return undefined;
    },
  };
}

function plainObserver(sink: Sink): Observer {
  return {
    write(chunk) {
      sink.write(chunk);
      return true;
    },
    onDrain() {},
    async end() {
      await sink.end();
      return !sink.overflown;
    },
  };
}

function compressedObserver(sink: Sink, inflate: Duplex): Observer {
  const shown = async () => {
    await sink.end();
    return !sink.overflown;
  };
  const done = new Promise<boolean>((resolve) => {
    inflate.on('data', (chunk: Buffer) => sink.write(chunk));
    inflate.on('end', () => resolve(shown()));
    // A copy that doesn't decompress is not metered; the original has already been passed on untouched.
    inflate.on('error', () => resolve(false));
    // An end comes first.
    inflate.on('close', () => resolve(false));
  });
  return {
    write: (chunk) => inflate.destroyed || inflate.write(chunk),
    onDrain(resume) {
      const proceed = () => {
        inflate.off('drain', proceed).off('close', proceed);
        resume();
      };
      inflate.on('drain', proceed).on('close', proceed);
    },
    end() {
      if (!inflate.destroyed) inflate.end();
      return done;
    },
  };
}

/**
 * An observer for a response with these headers, or `undefined` when its content is none that stages can see. What has no
 * room is relayed and not observed. Errors thrown by `onEvent` are the caller's to contain.
 */
export function createObserver(
  content_type: string | undefined,
  content_encoding: string | undefined,
  onEvent: (event: ResponseEvent) => void,
  room: HeldBytes,
): Observer | undefined {
  const stream = isEventStream(content_type);
  const sink = stream ? eventSink(onEvent, room) : documentSink(onEvent, room);
  if (isPlain(content_encoding)) return plainObserver(sink);
  const inflate = decompressor(content_encoding!);
  return inflate === undefined ? undefined : compressedObserver(sink, inflate);
}
