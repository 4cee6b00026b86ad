import assert from 'node:assert/strict';
import { test } from 'node:test';
import zlib from 'node:zlib';
import type { ResponseEvent } from '../../engine/api.ts';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { createObserver } from '../../engine/pipeline/run/observe.ts';
import { BufferQuota, MemoryBudget } from '../../engine/pipeline/run/resources.ts';
import { until } from '../support/until.ts';

const room = (bytes = 1_000_000) => new BufferQuota(new MemoryBudget(bytes, bytes), 'ana');

function observer(type: string, encoding: string | undefined, seen: ResponseEvent[], quota = room()) {
  const headers = { 'content-type': type, 'content-encoding': encoding };
  return createObserver(headers, (event) => void seen.push(event), quota, systemClock);
}

test('a copy in an unknown encoding is not observed', () => {
  assert.equal(observer('application/json', 'rot13', []), undefined);
});

test('a document or event beyond the quota is not observed, and its memory is released', async () => {
  const small = room(100_000);
  const seen: ResponseEvent[] = [];
  for (const [type, more] of [
    ['application/json', ''],
    ['text/event-stream', 'data: '],
  ] as const) {
    const observing = observer(type, undefined, seen, small)!;
    observing.write(Buffer.from(more));
    for (let i = 0; i < 20; i++) observing.write(Buffer.alloc(10_000, 0x20));
    observing.write(Buffer.from('\n\n'));
    await observing.end();
    assert.deepEqual(seen, []);
    assert.equal(small.hold(100_000), true);
    small.hold(0);
  }
});

test('a stream is parsed in batches, by time or by size, and up to the point where it broke', async () => {
  const sent = 'data: {"a":1}\n\n';
  const seen: ResponseEvent[] = [];
  const observing = observer('text/event-stream', undefined, seen)!;
  observing.write(Buffer.from(sent));
  assert.equal(seen.length, 0);
  await until('the event was read', () => seen.length === 1);
  observing.write(Buffer.from(sent.repeat(2000)));
  assert.equal(seen.length, 2001);
  await observing.end();

  const broken: ResponseEvent[] = [];
  const unpacking = observer('text/event-stream', 'gzip', broken)!;
  const packed = zlib.gzipSync(sent);
  unpacking.write(packed.subarray(0, -8));
  unpacking.write(Buffer.alloc(8, 255));
  assert.equal(await unpacking.end(), false);
  assert.equal(broken.length, 1);
});
