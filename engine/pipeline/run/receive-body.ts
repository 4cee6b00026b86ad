import type { IncomingMessage } from 'node:http';
import { StageError } from '../../base/contract/errors.ts';
import type { CompressedBody } from '../../base/contract/request-body.ts';
import type { Clock, Timer } from '../../base/contract/services.ts';
import {
  CONTENT_ENCODINGS,
  type ContentEncoding,
  contentEncoding,
  decompressorOf,
} from '../../base/kit/decompressor.ts';
import { releaseMemory } from '../../base/kit/memory.ts';
import { createTurns } from '../../base/kit/turns.ts';
import type { HeldBytes } from './holdings.ts';

/** Memory for a body of unknown length begins with this and doubles. */
const FIRST_BYTES = 65_536;

/** Memory of one body that grows as the body comes: its pages are touched as they are filled, and go back when it is dropped. */
class BodyMemory {
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

/** What a client may take for sending a body. */
export interface BodyLimits {
  readonly max_bytes: number;
  /** From the first look at the body to its last byte. */
  readonly total_seconds: number;
  /** Longest silence of a sending client. */
  readonly silence_seconds: number;
}

/** The error for a body of more than this many bytes. @param of_what such as " without its compression" */
function tooLarge(limit: number, of_what = ''): StageError {
  return new StageError(
    'body_too_large',
    `The request body is larger than ${limit} bytes${of_what}, the most this gateway accepts.`,
    {
      details: { limit_bytes: limit },
    },
  );
}

function late(message: string): StageError {
  return new StageError('request_timeout', message, { headers: { connection: 'close' } });
}

/** What a body is received with. */
interface Reception {
  readonly limits: BodyLimits;
  readonly clock: Clock;
  readonly memory: BodyMemory;
}

/** How a reception ends. */
interface Conclusion {
  resolve(bytes: Buffer): void;
  reject(error: Error): void;
}

/** One body on its way into one piece of memory; when it fails nothing is held. */
class Receiving {
  readonly #req: IncomingMessage;
  readonly #limits: BodyLimits;
  readonly #clock: Clock;
  readonly #memory: BodyMemory;
  readonly #conclusion: Conclusion;
  readonly #deadline: number;
  readonly #timer: Timer;

  constructor(req: IncomingMessage, { limits, clock, memory }: Reception, conclusion: Conclusion) {
    this.#req = req;
    this.#limits = limits;
    this.#clock = clock;
    this.#memory = memory;
    this.#conclusion = conclusion;
    this.#deadline = clock.monotonic() + limits.total_seconds * 1000;
    this.#timer = clock.after(Math.min(limits.total_seconds, limits.silence_seconds) * 1000, () => this.#onSilence());
  }

  start(): void {
    // A connection that has closed says nothing any more.
    if (this.#req.destroyed) this.#onGone();
    else this.#req.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#onGone).on('close', this.#onGone);
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      if (!this.#memory.append(chunk)) return;
      releaseMemory(chunk);
      // The clock's timer measures silence only; who never falls silent is late all the same.
      if (this.#clock.monotonic() > this.#deadline) throw this.#late();
      this.#timer.refresh();
    } catch (error) {
      this.#fail(error as Error);
    }
  };

  readonly #onEnd = (): void => {
    this.#stop();
    this.#conclusion.resolve(this.#memory.finish());
  };

  readonly #onGone = (): void =>
    this.#fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));

  #onSilence(): void {
    if (this.#clock.monotonic() >= this.#deadline) this.#fail(this.#late());
    else this.#fail(late(`No byte of the request body arrived for ${this.#limits.silence_seconds} seconds.`));
  }

  #late(): StageError {
    return late(`The request body was not complete after ${this.#limits.total_seconds} seconds.`);
  }

  #fail(error: Error): void {
    this.#stop();
    this.#memory.drop();
    this.#conclusion.reject(error);
  }

  #stop(): void {
    this.#timer.close();
    this.#req.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#onGone).off('close', this.#onGone);
  }
}

/** Decompresses request bodies. */

/** Most encodings of one body, one over the other. */
const ENCODINGS_MAX = 3;

/** Most frames of zstd in one body (RFC 8878 section 3.1); each takes a decoder of its own. */
const FRAMES_MAX = 100;

const CHUNK_BYTES = 65_536;

/** Bytes that are decoded without waiting for a turn. */
const FREE_BYTES = 1024 * 1024;

/** One large body at a time in this process: a decoder keeps up to 16 MiB beside what it has decoded. */
const inTurn = createTurns();

const NO_ENCODINGS: readonly ContentEncoding[] = [];

/** The encodings of a body in the order in which they were applied, without `identity`. Raises invalid_encoding with status 415. */
function encodingsOf(content_encoding: string | undefined): readonly ContentEncoding[] {
  if (content_encoding === undefined) return NO_ENCODINGS;
  const names = content_encoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > ENCODINGS_MAX) throw notServed(`More than ${ENCODINGS_MAX} encodings of one body are`);
  return names.map((name) => {
    const encoding = contentEncoding(name);
    if (encoding !== undefined) return encoding;
    throw notServed(`The content-encoding${/^[\w.-]{1,40}$/.test(name) ? ` "${name}"` : ''} of the request is`);
  });
}

/** A client learns from the header what it may send (RFC 9110 section 12.5.3). */
function notServed(what: string): StageError {
  const served = `${CONTENT_ENCODINGS.slice(0, -1).join(', ')} or ${CONTENT_ENCODINGS.at(-1)}`;
  return new StageError('invalid_encoding', `${what} not served; send ${served}, or the body uncompressed.`, {
    status: 415,
    headers: { 'accept-encoding': CONTENT_ENCODINGS.join(', ') },
  });
}

/** A received body without its compression. */
export interface ReceivedContent {
  readonly bytes: Buffer;
  /** As it came; absent where it was not compressed. */
  readonly compressed: CompressedBody | undefined;
}

/**
 * Receives a body and decompresses it; both stay taken from `room`, and neither is larger than `limits.max_bytes`. A declared
 * length is taken before anything is read. Raises body_too_large, request_timeout, bad_http, what `room` and `encodingsOf` raise,
 * and invalid_encoding for a body that is not what its content-encoding says; the caller then releases `room`.
 */
export function receiveContent(
  req: IncomingMessage,
  limits: BodyLimits,
  room: HeldBytes,
  clock: Clock,
): Promise<ReceivedContent> {
  return new Promise((resolve, reject) => {
    const encodings = encodingsOf(req.headers['content-encoding']);
    const length = Number(req.headers['content-length'] ?? 0);
    if (length > limits.max_bytes) throw tooLarge(limits.max_bytes);
    const memory = new BodyMemory(room, length, limits.max_bytes, () => tooLarge(limits.max_bytes));
    const conclude = (bytes: Buffer) => {
      const is_plain = encodings.length === 0 || bytes.length === 0;
      const isGone = () => req.socket?.destroyed ?? false;
      resolve(is_plain ? { bytes, compressed: undefined } : decoded(bytes, encodings, { limits, room, isGone }));
    };
    new Receiving(req, { limits, clock, memory }, { resolve: conclude, reject }).start();
  });
}

async function decoded(
  received: Buffer,
  encodings: readonly ContentEncoding[],
  { limits, room, isGone }: Pick<Decoding, 'isGone'> & { readonly limits: BodyLimits; readonly room: HeldBytes },
): Promise<ReceivedContent> {
  let memory: BodyMemory | undefined;
  let bytes = received;
  for (const encoding of encodings.toReversed()) {
    const into = new BodyMemory(room, 0, limits.max_bytes, () =>
      tooLarge(limits.max_bytes, ' without its compression'),
    );
    await decode(encoding, bytes, { into, owner: room.owner, isGone });
    memory?.drop();
    memory = into;
    bytes = into.finish();
  }
  return { bytes, compressed: { bytes: received, encodings } };
}

/** The target of decoded bytes, their caller, and whether the client has left. */
interface Decoding {
  readonly into: BodyMemory;
  readonly owner: string;
  readonly isGone: () => boolean;
}

async function decode(encoding: ContentEncoding, bytes: Buffer, decoding: Decoding): Promise<void> {
  let at = await decodeFrame(encoding, bytes, decoding);
  // Members of gzip are one stream to its decoder.
  for (let frames = 1; encoding === 'zstd' && at < bytes.length; frames++) {
    if (frames === FRAMES_MAX) throw damaged(encoding, `has more than ${FRAMES_MAX} frames; compress it as one`);
    at += await decodeFrame(encoding, bytes.subarray(at), decoding);
  }
  if (at === bytes.length) return;
  throw damaged(encoding, `has ${bytes.length - at} bytes behind its end; leave them out`);
}

/** @returns how many of the bytes it took */
async function decodeFrame(
  encoding: ContentEncoding,
  bytes: Buffer,
  { into, owner, isGone }: Decoding,
): Promise<number> {
  const stream = decompressorOf(encoding, { chunkSize: CHUNK_BYTES });
  const chunks: AsyncIterator<Buffer> = stream[Symbol.asyncIterator]();
  const readUntil = async (size: number): Promise<boolean> => {
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
      if (isGone()) throw new StageError('bad_http', 'The connection ended before the request body was decompressed.');
      into.append(next.value);
      if (into.size >= size) return false;
    }
    return true;
  };
  stream.end(bytes);
  try {
    if (!(await readUntil(FREE_BYTES))) await inTurn(owner, () => readUntil(Infinity));
    return stream.bytesWritten;
  } catch (error) {
    if (error instanceof StageError) throw error;
    throw damaged(encoding, problemOf(error as NodeJS.ErrnoException), error);
  } finally {
    stream.destroy();
  }
}

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'Z_BUF_ERROR':
      return 'is not complete; send all of it';
    case 'ZSTD_error_frameParameter_windowTooLarge':
      return 'has a window of more than 8 MiB (RFC 9659); compress it with a smaller one';
    default:
      return `cannot be decompressed (${message.replace(/\.$/, '')})`;
  }
}

function damaged(encoding: ContentEncoding, problem: string, cause?: unknown): StageError {
  return new StageError('invalid_encoding', `The request body, sent with content-encoding ${encoding}, ${problem}.`, {
    cause,
  });
}
