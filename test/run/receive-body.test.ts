/** Receiving bodies: chunks and compression, memory quotas, size limits and timeouts. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { receiveContent } from '../../engine/pipeline/run/receive-body.ts';
import { BufferQuota, MemoryBudget } from '../../engine/pipeline/run/resources.ts';
import { times } from '../support/times.ts';

const LIMITS = { max_bytes: 300_000, total_seconds: 10, silence_seconds: 4 };

const receive = (
  req: IncomingMessage,
  room: BufferQuota,
  { max_bytes = LIMITS.max_bytes, clock = frozenClock(0) } = {},
) => receiveContent(req, { ...LIMITS, max_bytes }, room, clock);

/** A request whose body arrives in these chunks; without them it stays open. */
function requestOf(pieces: readonly Buffer[] | undefined, length?: number): IncomingMessage & Readable {
  const stream = pieces === undefined ? new Readable({ read() {} }) : Readable.from(pieces, { objectMode: false });
  const headers = length === undefined ? {} : { 'content-length': String(length) };
  return Object.assign(stream, { headers }) as unknown as IncomingMessage & Readable;
}

function roomOf(bytes: number) {
  const budget = new MemoryBudget(bytes, bytes);
  return { budget, room: new BufferQuota(budget, 'ana') };
}

/** Chunks with separate memory, as they arrive from the network. */
const pieces = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 90_000 })), { maxLength: 12 })
  .map((sizes) => sizes.map((size, i) => Buffer.alloc(size, 65 + i)));

describe('a body', () => {
  it('is received as sent, however it is cut, and counted in the quota; beyond it, it is rejected', async () => {
    const limits = fc.oneof(fc.constant(10_000_000), fc.integer({ min: 0, max: 400_000 }));
    await fc.assert(
      fc.asyncProperty(pieces, fc.boolean(), limits, async (sent, declared, limit) => {
        const { budget, room } = roomOf(limit);
        const whole = Buffer.concat(sent);
        const received = receive(requestOf(sent, declared ? whole.length : undefined), room);
        const outcome = await received.catch(({ code }) => code as string);
        if (typeof outcome !== 'string') {
          assert.ok(outcome.bytes.equals(whole));
          assert.ok(budget.used_bytes >= whole.length && budget.used_bytes <= Math.max(65_536, 2 * whole.length));
        } else if (limit < 10_000_000) assert.ok(['overloaded', 'body_too_large'].includes(outcome), outcome);
        else assert.deepEqual([outcome, whole.length > LIMITS.max_bytes], ['body_too_large', true]);
        room.release();
        assert.equal(budget.used_bytes, 0);
      }),
      { numRuns: times(60) },
    );
  });

  it("of a declared length is counted before it is read, in its caller's share", () => {
    const budget = new MemoryBudget(1000, 400);
    const ana = new BufferQuota(budget, 'ana');
    ana.take(300);
    assert.throws(() => new BufferQuota(budget, 'ana').take(200), { code: 'rate_limit_exceeded' });
    const ben = new BufferQuota(budget, 'ben');
    ben.take(700);
    assert.throws(() => new BufferQuota(budget, 'eve').take(1), { code: 'overloaded' });
    ben.release();
    assert.equal(budget.used_bytes, 300);
    assert.equal(ben.hold(10), false);
  });

  it('of a connection that closed before it was read fails at once', async () => {
    const { budget, room } = roomOf(1000);
    const req = requestOf(undefined, 500);
    req.destroy();
    await new Promise((resolve) => req.on('close', resolve));
    await assert.rejects(receive(req, room), { code: 'bad_http' });
    assert.equal(budget.used_bytes, 0);
  });

  for (const [what, every_ms, says] of [
    ['silent', undefined, /The client sent nothing of the request body for 4 seconds/],
    ['slow', 1000, /not complete after 10 seconds/],
  ] as const) {
    it(`that is ${what} times out`, async () => {
      const clock = frozenClock(0);
      const { budget, room } = roomOf(1000);
      const req = requestOf(undefined, 500);
      const outcome = receive(req, room, { clock }).catch((error) => error);
      for (let ms = 0; ms < 12_000; ms += 1000) {
        if (every_ms !== undefined) req.push(Buffer.from(' '));
        await new Promise((resolve) => setImmediate(resolve));
        clock.advance(1000);
      }
      const error = await outcome;
      assert.equal(error?.code, 'request_timeout');
      assert.match(error.message, says);
      assert.equal(budget.used_bytes, 0);
    });
  }
});

const MAX_BYTES = 3_000_000;

const COMPRESS = {
  gzip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: (bytes: Buffer) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } }),
  zstd: zlib.zstdCompressSync,
} satisfies Record<string, (bytes: Buffer) => Buffer>;
type Encoding = keyof typeof COMPRESS;
const NAMES = Object.keys(COMPRESS) as Encoding[];

function receiveCompressed(bytes: Buffer, encodings: readonly string[], room: BufferQuota) {
  const req = requestOf([Buffer.from(bytes)], bytes.length);
  req.headers['content-encoding'] = encodings.join(', ');
  return receive(req, room, { max_bytes: MAX_BYTES });
}

/** A budget that records its peak. */
class WatchedBudget extends MemoryBudget {
  most_bytes = 0;

  override take(owner: string, bytes: number, let_in?: number): void {
    super.take(owner, bytes, let_in);
    this.most_bytes = Math.max(this.most_bytes, this.used_bytes);
  }
}

describe('a compressed body', () => {
  it('is decompressed, whatever the encodings, and both forms are counted', async () => {
    const bodies = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 5000 }),
      fc.integer({ min: 1, max: 2_500_000 }).map((size) => new Uint8Array(size).fill(size % 251)),
    );
    const lists = fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(bodies, lists, async (body, encodings) => {
        const whole = Buffer.from(body);
        const compressed = encodings.reduce((bytes, encoding) => COMPRESS[encoding](bytes), whole);
        const { budget, room } = roomOf(20_000_000);
        const received = await receiveCompressed(compressed, encodings, room);
        assert.ok(received.bytes.equals(whole));
        assert.ok(received.compressed?.bytes.equals(compressed));
        assert.deepEqual(received.compressed?.encodings, encodings);
        assert.equal(budget.used_bytes, whole.length + compressed.length);
        room.release();
        assert.equal(budget.used_bytes, 0);
      }),
      { numRuns: times(60) },
    );
  });

  it("that exceeds the size limit is rejected there, within the limit's memory", async () => {
    const bomb = Buffer.alloc(8 * MAX_BYTES);
    for (const encodings of [...NAMES.map((name) => [name]), ['gzip', 'gzip'], ['br', 'zstd', 'gzip']]) {
      const compressed = encodings.reduce((bytes, encoding) => COMPRESS[encoding as Encoding](bytes), bomb);
      const budget = new WatchedBudget(50 * MAX_BYTES, 50 * MAX_BYTES);
      const room = new BufferQuota(budget, 'ana');
      const received = receiveCompressed(compressed, encodings, room);
      await assert.rejects(received, { code: 'body_too_large', message: /3000000 bytes when decompressed/ });
      // What one encoding is taken off from, and what is left.
      assert.ok(budget.most_bytes <= compressed.length + 2 * MAX_BYTES, `${encodings}: ${budget.most_bytes}`);
      room.release();
      assert.equal(budget.used_bytes, 0);
    }
  });

  it('beyond the quota is rejected', async () => {
    const compressed = zlib.zstdCompressSync(Buffer.alloc(2_000_000));
    const { budget, room } = roomOf(1_000_000);
    await assert.rejects(receiveCompressed(compressed, ['zstd'], room), { code: 'overloaded' });
    room.release();
    assert.equal(budget.used_bytes, 0);
  });

  it("of a caller without other requests is accepted, even if it exceeds the caller's share", async () => {
    const whole = Buffer.alloc(MAX_BYTES, 'a');
    const budget = new MemoryBudget(20_000_000, MAX_BYTES);
    const room = new BufferQuota(budget, 'ana');
    const received = await receiveCompressed(zlib.gzipSync(whole), ['gzip'], room);
    assert.ok(received.bytes.equals(whole));
    const next = receiveCompressed(zlib.gzipSync('a'), ['gzip'], new BufferQuota(budget, 'ana'));
    await assert.rejects(next, { code: 'rate_limit_exceeded' });
    room.release();
  });

  it('is rejected when it is damaged, never misread', async () => {
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
          const { room } = roomOf(20_000_000);
          const outcome = await receiveCompressed(bytes, [encoding], room).catch(({ code }) => code as string);
          if (typeof outcome !== 'string') assert.ok(outcome.bytes.equals(sample));
          else assert.ok(['invalid_encoding', 'body_too_large'].includes(outcome), outcome);
        },
      ),
      { numRuns: times(100) },
    );
  });
});
