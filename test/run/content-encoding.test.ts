/** Compressed bodies on their way in: whole however they were compressed, and never more of them than a body may have. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { frozenClock } from '../../engine/kit/clock.ts';
import { BodyBudget, HeldBytes } from '../../engine/run/holdings.ts';
import { receiveContent } from '../../engine/run/receive-body.ts';
import { times } from '../support/times.ts';

const MAX_BYTES = 3_000_000;
const LIMITS = { max_bytes: MAX_BYTES, total_seconds: 10, silence_seconds: 4 };

const COMPRESS = {
  gzip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: (bytes: Buffer) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } }),
  zstd: zlib.zstdCompressSync,
} satisfies Record<string, (bytes: Buffer) => Buffer>;
type Encoding = keyof typeof COMPRESS;
const NAMES = Object.keys(COMPRESS) as Encoding[];

function requestOf(bytes: Buffer, encodings: readonly string[]): IncomingMessage {
  const headers = { 'content-length': String(bytes.length), 'content-encoding': encodings.join(', ') };
  return Object.assign(Readable.from([Buffer.from(bytes)], { objectMode: false }), {
    headers,
  }) as unknown as IncomingMessage;
}

/** A budget that knows the most that was taken from it at once. */
class WatchedBudget extends BodyBudget {
  most_bytes = 0;

  override take(owner: string, bytes: number, let_in?: number): void {
    super.take(owner, bytes, let_in);
    this.most_bytes = Math.max(this.most_bytes, this.held_bytes);
  }
}

describe('a compressed body', () => {
  it('is what was compressed, whatever it is and however often, and both are counted', async () => {
    const bodies = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 5000 }),
      fc.integer({ min: 1, max: 2_500_000 }).map((size) => new Uint8Array(size).fill(size % 251)),
    );
    const lists = fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(bodies, lists, async (body, encodings) => {
        const whole = Buffer.from(body);
        const compressed = encodings.reduce((bytes, encoding) => COMPRESS[encoding](bytes), whole);
        const budget = new BodyBudget(20_000_000, 20_000_000);
        const room = new HeldBytes(budget, 'ana');
        const received = await receiveContent(requestOf(compressed, encodings), LIMITS, room, frozenClock(0));
        assert.ok(received.bytes.equals(whole));
        assert.ok(received.compressed?.bytes.equals(compressed));
        assert.deepEqual(received.compressed?.encodings, encodings);
        assert.equal(budget.held_bytes, whole.length + compressed.length);
        room.release();
        assert.equal(budget.held_bytes, 0);
      }),
      { numRuns: times(60) },
    );
  });

  it('that grows beyond what a body may have is given up there, and takes no more memory than that', async () => {
    const bomb = Buffer.alloc(8 * MAX_BYTES);
    for (const encodings of [...NAMES.map((name) => [name]), ['gzip', 'gzip'], ['br', 'zstd', 'gzip']]) {
      const compressed = encodings.reduce((bytes, encoding) => COMPRESS[encoding as Encoding](bytes), bomb);
      const budget = new WatchedBudget(50 * MAX_BYTES, 50 * MAX_BYTES);
      const room = new HeldBytes(budget, 'ana');
      const received = receiveContent(requestOf(compressed, encodings), LIMITS, room, frozenClock(0));
      await assert.rejects(received, { code: 'body_too_large', message: /3000000 bytes without its compression/ });
      // What one encoding is taken off from, and what is left.
      assert.ok(budget.most_bytes <= compressed.length + 2 * MAX_BYTES, `${encodings}: ${budget.most_bytes}`);
      room.release();
      assert.equal(budget.held_bytes, 0);
    }
  });

  it('for which there is no room is refused', async () => {
    const compressed = zlib.zstdCompressSync(Buffer.alloc(2_000_000));
    const budget = new BodyBudget(1_000_000, 1_000_000);
    const room = new HeldBytes(budget, 'ana');
    const received = receiveContent(requestOf(compressed, ['zstd']), LIMITS, room, frozenClock(0));
    await assert.rejects(received, { code: 'overloaded' });
    room.release();
    assert.equal(budget.held_bytes, 0);
  });

  it('of a caller with nothing else under way is let in, although its share is no larger than a body', async () => {
    const whole = Buffer.alloc(MAX_BYTES, 'a');
    const budget = new BodyBudget(20_000_000, MAX_BYTES);
    const room = new HeldBytes(budget, 'ana');
    const received = await receiveContent(requestOf(zlib.gzipSync(whole), ['gzip']), LIMITS, room, frozenClock(0));
    assert.ok(received.bytes.equals(whole));
    const next = receiveContent(
      requestOf(zlib.gzipSync('a'), ['gzip']),
      LIMITS,
      new HeldBytes(budget, 'ana'),
      frozenClock(0),
    );
    await assert.rejects(next, { code: 'rate_limit_exceeded' });
    room.release();
  });

  it('is never read as something else when it is damaged', async () => {
    const sample = Buffer.from(JSON.stringify({ model: 'coder-1', messages: ['x'.repeat(500), 'y'.repeat(500)] }));
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<Encoding>('gzip', 'zstd'),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.integer({ min: 0, max: 255 }),
        async (encoding, place, byte) => {
          // Both have a checksum.
          const params = { [zlib.constants.ZSTD_c_checksumFlag]: 1 };
          const bytes = encoding === 'zstd' ? zlib.zstdCompressSync(sample, { params }) : zlib.gzipSync(sample);
          bytes[Math.floor(place * bytes.length)] = byte;
          const room = new HeldBytes(new BodyBudget(20_000_000, 20_000_000), 'ana');
          const outcome = await receiveContent(requestOf(bytes, [encoding]), LIMITS, room, frozenClock(0)).catch(
            ({ code }) => code as string,
          );
          if (typeof outcome !== 'string') assert.ok(outcome.bytes.equals(sample));
          else assert.ok(['invalid_encoding', 'body_too_large'].includes(outcome), outcome);
        },
      ),
      { numRuns: times(100) },
    );
  });
});
