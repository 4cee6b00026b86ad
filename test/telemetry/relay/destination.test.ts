import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { MetricRegistry } from '../../../engine/telemetry/metric-registry.ts';
import { Destination } from '../../../engine/telemetry/relay/destination.ts';
import type { Sent } from '../../../engine/telemetry/sent.ts';

const TAKEN: Sent = { outcome: 'taken', rejected: 0 };
const FAILED: Sent = { outcome: 'failed', why: 'it answers HTTP 503', retry_after_ms: undefined };
const REFUSED: Sent = { outcome: 'refused', why: 'it answers HTTP 400' };

/** A destination whose answers a test gives, one after the other; the last one stands. */
function scene(answers: readonly Sent[]) {
  const clock = frozenClock('2026-11-23T06:00:00Z');
  const metrics = new MetricRegistry(clock.now());
  const told: string[] = [];
  const note = (_fields: object, text: string) => void told.push(text);
  const log = { debug: note, info: note, warn: note, error: note };
  const sent: string[] = [];
  const left = [...answers];
  const destination = new Destination({
    name: 'otel.example.com',
    clock,
    metrics,
    log,
    async deliver(signal, bytes) {
      sent.push(`${signal} ${bytes}`);
      return left.length > 1 ? left.shift()! : left[0]!;
    },
  });
  const count = (name: 'gateway.telemetry.dropped' | 'gateway.client_telemetry.sent') =>
    [...metrics.seriesOf(name)].map(({ labels, sum }) => [labels['gateway.telemetry.reason'], sum].filter(Boolean));
  return {
    clock,
    destination,
    sent,
    told,
    take: (text: string, signal: 'logs' | 'metrics' = 'logs') =>
      destination.take(signal, { bytes: Buffer.from(text), items: 1 }),
    dropped: () => count('gateway.telemetry.dropped'),
    taken: () => count('gateway.client_telemetry.sent'),
    async settle() {
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe('a destination of telemetry of clients', () => {
  test('gets what waits of one signal together', async () => {
    const { take, settle, sent, taken } = scene([TAKEN]);
    take('a');
    take('b');
    take('c', 'metrics');
    take('d');
    await settle();
    assert.deepEqual(sent, ['logs ab', 'metrics c', 'logs d']);
    assert.deepEqual(taken(), [[3], [1]]);
  });

  test('is asked again ever later, and left alone for 30 seconds after five failures in a row', async () => {
    const { clock, take, settle, sent, told, dropped } = scene([FAILED, FAILED, FAILED, FAILED, FAILED, TAKEN]);
    take('a');
    await settle();
    for (const wait of [1000, 2000, 4000, 8000]) {
      clock.advance(wait - 1);
      await settle();
      const before = sent.length;
      clock.advance(1);
      await settle();
      assert.equal(sent.length, before + 1, `after ${wait} ms`);
    }
    assert.deepEqual(dropped(), [['failed', 1]]);
    take('b');
    clock.advance(29_999);
    await settle();
    assert.equal(sent.length, 5);
    assert.equal(told.length, 1);
    clock.advance(1);
    await settle();
    assert.deepEqual(sent.slice(5), ['logs b']);
    assert.match(told[1]!, /again/);
  });

  test('is left alone for as long as it asks, and for no more than five minutes', async () => {
    const asks = (retry_after_ms: number): Sent => ({ ...FAILED, retry_after_ms }) as Sent;
    const { clock, take, settle, sent } = scene([asks(20_000), asks(1e12), TAKEN]);
    take('a');
    await settle();
    for (const wait of [20_000, 300_000]) {
      clock.advance(wait - 1);
      await settle();
      const before = sent.length;
      clock.advance(1);
      await settle();
      assert.equal(sent.length, before + 1, `after ${wait} ms`);
    }
  });

  test('that refuses a batch gets its pieces one by one, so that one bad piece costs no other', async () => {
    const { take, settle, sent, dropped, taken } = scene([REFUSED, TAKEN, REFUSED, TAKEN]);
    for (const text of ['a', 'b', 'c']) take(text);
    await settle();
    for (const text of ['d', 'e']) take(text);
    await settle();
    assert.deepEqual(sent, ['logs abc', 'logs a', 'logs b', 'logs c', 'logs de']);
    assert.deepEqual(dropped(), [['refused', 1]]);
    assert.deepEqual(taken(), [[4]]);
  });

  test('has what it says it did not take counted as dropped', async () => {
    const { take, settle, dropped, taken } = scene([{ outcome: 'taken', rejected: 1 }]);
    take('a');
    take('b');
    await settle();
    assert.deepEqual(dropped(), [['refused', 1]]);
    assert.deepEqual(taken(), [[1]]);
  });

  test('that takes nothing fills 16 MiB, and what comes then is dropped', async () => {
    const { destination, settle, dropped } = scene([FAILED]);
    const piece = { bytes: Buffer.alloc(1024 * 1024), items: 7 };
    for (let n = 0; n < 20; n++) destination.take('traces', piece);
    await settle();
    assert.equal(destination.queued_bytes, 16 * 1024 * 1024);
    assert.equal(destination.has_room, false);
    assert.deepEqual(dropped(), [['queue_full', 28]]);
  });

  test('gets what waits when it is closed, and what it does not take then is dropped', async () => {
    const away = scene([FAILED]);
    away.take('a');
    await away.settle();
    const never = new Promise<void>(() => {});
    await away.destination.close(never);
    assert.deepEqual(away.sent, ['logs a', 'logs a']);
    assert.deepEqual(away.dropped(), [['closing', 1]]);
    const there = scene([TAKEN]);
    there.take('a');
    there.take('b', 'metrics');
    await there.destination.close(never);
    assert.deepEqual(there.sent, ['logs a', 'metrics b']);
    there.take('late');
    assert.deepEqual(there.dropped(), [['closing', 1]]);
  });
});
