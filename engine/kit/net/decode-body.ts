import type { Duplex } from 'node:stream';
import { decompressor } from '../decompressor.ts';
import { isPlain } from '../media-type.ts';
import type { Arrival, Exchange } from './exchange.ts';
import { growingBuffer } from './growing-buffer.ts';

/** A body without its compression. */
export interface DecodedBody {
  readonly body: Buffer;
  /** When what of it could be read. */
  readonly arrivals: readonly Arrival[];
  /** `encoding`: it is not what `content-encoding` says, or that names one that is not known. */
  readonly fault?: 'encoding' | 'too_large';
}

/** Takes the compression off, piece by piece, so that it is seen which arrival made what readable. */
export async function decodeBody(
  { headers, body, arrivals }: Pick<Exchange, 'headers' | 'body' | 'arrivals'>,
  bytes_max: number,
): Promise<DecodedBody> {
  const encoding = headers['content-encoding'];
  if (isPlain(encoding) || body.length === 0) return { body, arrivals };
  const stream = decompressor(encoding ?? '');
  if (stream === undefined) return { body: Buffer.alloc(0), arrivals: [], fault: 'encoding' };
  const decoded = growingBuffer(bytes_max);
  const decoded_arrivals: Arrival[] = [];
  let bytes = 0;
  let fault: DecodedBody['fault'];
  stream.on('data', (chunk: Buffer) => {
    const taken = decoded.add(chunk);
    bytes += taken;
    if (taken === chunk.length) return;
    fault = 'too_large';
    stream.destroy();
  });
  stream.on('error', () => {
    fault ??= 'encoding';
  });
  let offset = 0;
  for (const arrival of arrivals) {
    await written(stream, body.subarray(offset, offset + arrival.bytes));
    offset += arrival.bytes;
    if (bytes > 0) decoded_arrivals.push({ at_ms: arrival.at_ms, bytes });
    bytes = 0;
    if (fault !== undefined) break;
  }
  stream.destroy();
  return { body: decoded.taken(), arrivals: decoded_arrivals, ...(fault === undefined ? {} : { fault }) };
}

/** Resolves when all that can be made of the piece was given out, or the stream has ended. */
function written(stream: Duplex, piece: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('close', done);
      resolve();
    };
    stream.once('close', done);
    stream.write(piece, done);
  });
}
