import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import { decompressor } from '../../engine/base/kit/decompressor.ts';
import { randomOf } from '../support/random.ts';

const random = randomOf('deflate');
const TEXT = Buffer.from(Array.from({ length: 400_000 }, () => 32 + Math.floor(random() * 90)));

/** Both formats that go by the name `deflate`. */
const FORMATS = [zlib.deflateSync, zlib.deflateRawSync];

async function inflate(pieces: readonly Buffer[]): Promise<{ readonly bytes: Buffer; readonly read: number }> {
  const stream = decompressor('deflate')!;
  for (const piece of pieces) stream.write(piece);
  stream.end();
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return { bytes: Buffer.concat(chunks), read: stream.bytesWritten };
}

describe('content of the encoding deflate', () => {
  for (const compress of FORMATS) {
    test(`of ${compress.name} is read, with any chunks`, async () => {
      const bytes = compress(TEXT);
      for (const size of [bytes.length, 1, 70_000]) {
        const found = await inflate([bytes.subarray(0, size), bytes.subarray(size)]);
        assert.ok(found.bytes.equals(TEXT));
        assert.equal(found.read, bytes.length);
      }
      const more = await inflate([Buffer.concat([bytes, Buffer.from('more')])]);
      assert.deepEqual([more.bytes.equals(TEXT), more.read], [true, bytes.length], 'bytes after its end are not read');
    });

    test(`of ${compress.name} fails where it is truncated or corrupt`, async () => {
      const bytes = compress(TEXT);
      await assert.rejects(inflate([bytes.subarray(0, 1000)]), { code: 'Z_BUF_ERROR' });
      await assert.rejects(inflate([Buffer.from([bytes[0]!, bytes[1]!, 255, 255, 255, 255, 255, 255])]));
    });
  }

  test('that is nothing, or one byte, is not complete', async () => {
    for (const pieces of [[], [Buffer.from([0x78])]]) await assert.rejects(inflate(pieces), { code: 'Z_BUF_ERROR' });
  });
});
