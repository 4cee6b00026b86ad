import type { IncomingMessage } from 'node:http';
import { StageError } from '../../base/contract/errors.ts';
import type { CompressedBody } from '../../base/contract/request-body.ts';
import type { Clock } from '../../base/contract/services.ts';
import { CONTENT_ENCODINGS, type ContentEncoding, contentEncoding, decompressor } from '../../base/kit/decompressor.ts';
import { createFairQueue } from '../../base/kit/fair-queue.ts';
import { releaseMemory } from '../../base/kit/memory.ts';
import type { BufferQuota } from './resources.ts';

/** The first buffer for a body of unknown length; it doubles from here. */
const FIRST_BYTES = 65_536;

class BodyMemory {
  readonly #quota: BufferQuota;
  readonly #max_bytes: number;
  readonly #when: string;
  /** Bytes taken from the quota. */
  #taken: number;
  #memory: Buffer | undefined;
  #size = 0;

  /** @param length taken from the quota at once; 0 if unknown @param when for the error beyond `max_bytes`: " when decompressed" */
  constructor(quota: BufferQuota, length: number, max_bytes: number, when = '') {
    this.#quota = quota;
    this.#max_bytes = max_bytes;
    this.#when = when;
    quota.takeForBody(length);
    this.#taken = length;
  }

  get size(): number {
    return this.#size;
  }

  /** Raises body_too_large and what the quota raises. @returns whether the chunk was copied and can be freed */
  append(chunk: Buffer): boolean {
    const size = this.#size + chunk.length;
    if (size > this.#max_bytes) throw tooLarge(this.#max_bytes, this.#when);
    // Most bodies arrive in one chunk, which then is the body.
    const is_whole = this.#size === 0 && chunk.length === this.#taken;
    if (is_whole) this.#memory = chunk;
    else {
      this.#grow(size);
      chunk.copy(this.#memory!, this.#size);
    }
    this.#size = size;
    return !is_whole;
  }

  /** The body. Its size stays counted in the quota. */
  finish(): Buffer {
    this.#quota.give(this.#taken - this.#size);
    this.#taken = this.#size;
    return this.#memory?.subarray(0, this.#size) ?? Buffer.alloc(0);
  }

  drop(): void {
    this.#quota.give(this.#taken);
    this.#taken = 0;
    this.#memory = undefined;
  }

  #grow(size: number): void {
    const old = this.#memory;
    if (old !== undefined && old.length >= size) return;
    if (size <= this.#taken) {
      // Unpooled: the system commits its pages only as they fill, and they are freed with the buffer.
      this.#memory = Buffer.allocUnsafeSlow(this.#taken);
      return;
    }
    const larger = Math.min(Math.max(size, 2 * this.#taken, FIRST_BYTES), this.#max_bytes);
    // The quota does not count both copies: they exist together only within this call.
    this.#quota.takeForBody(larger - this.#taken);
    this.#memory = Buffer.allocUnsafeSlow(larger);
    old?.copy(this.#memory, 0, 0, this.#size);
    this.#taken = larger;
  }
}

export interface BodyLimits {
  readonly max_bytes: number;
  /** From the start of reading to the last byte. */
  readonly total_seconds: number;
  /** Longest silence of a sending client. */
  readonly silence_seconds: number;
}

function tooLarge(limit: number, when = ''): StageError {
  const message = `The request body is larger than ${limit} bytes${when}, the limit of this gateway.`;
  return new StageError('body_too_large', message, { details: { limit_bytes: limit } });
}

function timeoutError(message: string): StageError {
  return new StageError('request_timeout', message, { headers: { connection: 'close' } });
}

/** Receives one body into one buffer; a failure frees the buffer. */
function receive(
  req: IncomingMessage,
  memory: BodyMemory,
  { total_seconds, silence_seconds }: BodyLimits,
  clock: Clock,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const deadline = clock.monotonic() + total_seconds * 1000;
    const totalTimeoutError = () => timeoutError(`The request body was not complete after ${total_seconds} seconds.`);
    const timer = clock.after(Math.min(total_seconds, silence_seconds) * 1000, () => {
      const silent = `The client sent nothing of the request body for ${silence_seconds} seconds.`;
      fail(clock.monotonic() >= deadline ? totalTimeoutError() : timeoutError(silent));
    });
    const onData = (chunk: Buffer): void => {
      try {
        if (!memory.append(chunk)) return;
        releaseMemory(chunk);
        // The timer only measures silence, so a client that keeps sending is checked here.
        if (clock.monotonic() > deadline) throw totalTimeoutError();
        timer.refresh();
      } catch (error) {
        fail(error as Error);
      }
    };
    const onEnd = (): void => {
      stop();
      resolve(memory.finish());
    };
    const onGone = () => fail(new StageError('bad_http', 'The connection ended before the request body was complete.'));
    function fail(error: Error): void {
      stop();
      memory.drop();
      reject(error);
    }
    function stop(): void {
      timer.close();
      req.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone);
    }
    // A closed connection emits no more events.
    if (req.destroyed) onGone();
    else req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone);
  });
}

/** Maximum nested encodings of one body. */
const ENCODINGS_MAX = 3;

/** Maximum zstd frames in one body (RFC 8878 section 3.1); each needs its own decoder. */
const FRAMES_MAX = 100;

const CHUNK_BYTES = 65_536;

/** Bytes of each body that are decompressed outside the queue. */
const UNQUEUED_BYTES = 1024 * 1024;

/** Decompresses one large body at a time: a decoder keeps up to 16 MiB beside its output. */
const inTurn = createFairQueue();

const NO_ENCODINGS: readonly ContentEncoding[] = [];

/** The encodings of a body in the order in which they were applied, without `identity`. Raises invalid_encoding with status 415. */
function encodingsOf(content_encoding: string | undefined): readonly ContentEncoding[] {
  if (content_encoding === undefined) return NO_ENCODINGS;
  const names = content_encoding
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length > ENCODINGS_MAX) throw notSupported(`More than ${ENCODINGS_MAX} encodings of one body are`);
  return names.map((name) => {
    const encoding = contentEncoding(name);
    if (encoding !== undefined) return encoding;
    throw notSupported(`The content-encoding${/^[\w.-]{1,40}$/.test(name) ? ` "${name}"` : ''} of the request is`);
  });
}

/** `accept-encoding` lists the supported encodings (RFC 9110 section 12.5.3). */
function notSupported(what: string): StageError {
  const supported = `${CONTENT_ENCODINGS.slice(0, -1).join(', ')} or ${CONTENT_ENCODINGS.at(-1)}`;
  return new StageError('invalid_encoding', `${what} not supported; send ${supported}, or the body uncompressed.`, {
    status: 415,
    headers: { 'accept-encoding': CONTENT_ENCODINGS.join(', ') },
  });
}

/** A received body, decompressed. */
export interface ReceivedContent {
  readonly bytes: Buffer;
  /** As received; absent where the body was not compressed. */
  readonly compressed: CompressedBody | undefined;
}

/**
 * Receives a body and decompresses it. Each form is at most `limits.max_bytes`, and `quota` counts both; a declared length
 * before anything is read. Raises body_too_large, request_timeout, bad_http, the errors of `quota` and `encodingsOf`, and
 * invalid_encoding for a body that does not match its content-encoding. The caller then releases `quota`.
 */
export async function receiveContent(
  req: IncomingMessage,
  limits: BodyLimits,
  quota: BufferQuota,
  clock: Clock,
): Promise<ReceivedContent> {
  const encodings = encodingsOf(req.headers['content-encoding']);
  const length = Number(req.headers['content-length'] ?? 0);
  if (length > limits.max_bytes) throw tooLarge(limits.max_bytes);
  const received = await receive(req, new BodyMemory(quota, length, limits.max_bytes), limits, clock);
  if (encodings.length === 0 || received.length === 0) return { bytes: received, compressed: undefined };
  const isGone = () => req.socket?.destroyed ?? false;
  let memory: BodyMemory | undefined;
  let bytes = received;
  for (const encoding of encodings.toReversed()) {
    const into = new BodyMemory(quota, 0, limits.max_bytes, ' when decompressed');
    await decode(encoding, bytes, { into, owner: quota.owner, isGone });
    memory?.drop();
    memory = into;
    bytes = into.finish();
  }
  return { bytes, compressed: { bytes: received, encodings } };
}

/** The target of a decompression, its caller, and whether the client has disconnected. */
interface Decoding {
  readonly into: BodyMemory;
  readonly owner: string;
  readonly isGone: () => boolean;
}

async function decode(encoding: ContentEncoding, bytes: Buffer, decoding: Decoding): Promise<void> {
  let at = await decodeFrame(encoding, bytes, decoding);
  // Node's gunzip reads all members of a gzip body itself.
  for (let frames = 1; encoding === 'zstd' && at < bytes.length; frames++) {
    if (frames === FRAMES_MAX) throw encodingError(encoding, `has more than ${FRAMES_MAX} frames; compress it as one`);
    at += await decodeFrame(encoding, bytes.subarray(at), decoding);
  }
  if (at === bytes.length) return;
  throw encodingError(encoding, `has ${bytes.length - at} bytes after its end; remove them`);
}

/** @returns how many bytes it consumed */
async function decodeFrame(
  encoding: ContentEncoding,
  bytes: Buffer,
  { into, owner, isGone }: Decoding,
): Promise<number> {
  const stream = decompressor(encoding, { chunkSize: CHUNK_BYTES })!;
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
    if (!(await readUntil(UNQUEUED_BYTES))) await inTurn(owner, () => readUntil(Infinity));
    return stream.bytesWritten;
  } catch (error) {
    if (error instanceof StageError) throw error;
    throw encodingError(encoding, problemOf(error as NodeJS.ErrnoException), error);
  } finally {
    stream.destroy();
  }
}

function problemOf({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'Z_BUF_ERROR':
      return 'is truncated; send all of it';
    case 'ZSTD_error_frameParameter_windowTooLarge':
      return 'has a window of more than 8 MiB (RFC 9659); compress it with a smaller one';
    default:
      return `cannot be decompressed (${message.replace(/\.$/, '')})`;
  }
}

function encodingError(encoding: ContentEncoding, problem: string, cause?: unknown): StageError {
  return new StageError('invalid_encoding', `The request body, sent with content-encoding ${encoding}, ${problem}.`, {
    cause,
  });
}
