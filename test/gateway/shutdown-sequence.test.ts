import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runShutdown } from '../../engine/edge/gateway/signals.ts';
import { collectingLog } from '../cli/support.ts';

test('closes everything in the given order, one after the other', async () => {
  const order: string[] = [];
  const step = (name: string) => ({
    name,
    seconds: 1,
    async close() {
      order.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`${name} ends`);
    },
  });
  await runShutdown([step('server'), step('database')], collectingLog().log);
  assert.deepEqual(order, ['server begins', 'server ends', 'database begins', 'database ends']);
});

test('a part that fails or never ends is logged, and the next ones are closed all the same', async () => {
  const { log, lines } = collectingLog();
  let closed = false;
  const atOnce = () => {
    throw new Error('at once');
  };
  const close = async () => {
    closed = true;
  };
  await runShutdown(
    [
      { name: 'broken', seconds: 1, close: () => Promise.reject(new Error('no')) },
      { name: 'hasty', seconds: 1, close: atOnce },
      { name: 'stuck', seconds: 0.01, close: () => new Promise(() => {}) },
      { name: 'last', seconds: 1, close },
    ],
    log,
  );
  assert.equal(closed, true);
  const parts = lines.map(({ part }) => part);
  assert.deepEqual(parts, ['broken', 'hasty', 'stuck']);
});
