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
  await runShutdown(
    [
      { name: 'broken', seconds: 1, close: () => Promise.reject(new Error('no')) },
      {
        name: 'hasty',
        seconds: 1,
        close() {
          throw new Error('at once');
        },
      },
      { name: 'stuck', seconds: 0.01, close: () => new Promise(() => {}) },
      {
        name: 'last',
        seconds: 1,
        async close() {
          closed = true;
        },
      },
    ],
    log,
  );
  assert.equal(closed, true);
  assert.deepEqual(
    lines.map(({ part }) => part),
    ['broken', 'hasty', 'stuck'],
  );
});
