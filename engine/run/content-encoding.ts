/** Decompresses request bodies. */
import type { IncomingMessage } from 'node:http';
import { StageError } from '../contract/errors.ts';
import type { CompressedBody } from '../contract/request-body.ts';
import type { Clock } from '../contract/services.ts';
import { CONTENT_ENCODINGS, type ContentEncoding, contentEncoding, decompressorOf } from '../kit/decompressor.ts';
import { createTurns } from '../kit/turns.ts';
import type { HeldBytes } from './body-budget.ts';
import { BodyMemory } from './body-memory.ts';
import { type BodyLimits, receiveBody, tooLarge } from './receive-body.ts';

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
 * Receives a body and decompresses it; both stay taken from `room`, and neither is larger than `limits.max_bytes`. Raises what
 * `receiveBody` and `encodingsOf` raise, and invalid_encoding for a body that is not what its content-encoding says; the caller
 * then releases `room`.
 */
export async function receiveContent(
  req: IncomingMessage,
  limits: BodyLimits,
  room: HeldBytes,
  clock: Clock,
): Promise<ReceivedContent> {
  const encodings = encodingsOf(req.headers['content-encoding']);
  const received = await receiveBody(req, limits, room, clock);
  if (encodings.length === 0 || received.length === 0) return { bytes: received, compressed: undefined };
  let memory: BodyMemory | undefined;
  let bytes = received;
  for (const encoding of encodings.toReversed()) {
    const decoded = new BodyMemory(room, 0, limits.max_bytes, () =>
      tooLarge(limits.max_bytes, ' without its compression'),
    );
    await decode(encoding, bytes, { into: decoded, owner: room.owner, isGone: () => req.socket?.destroyed ?? false });
    memory?.drop();
    memory = decoded;
    bytes = decoded.finish();
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
