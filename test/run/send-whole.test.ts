import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { sendWhole } from '../../engine/run/answer/send-whole.ts';
import { until } from '../support/until.ts';

test('a client that leaves before its body is whole takes the wait for the rest with it', async (t) => {
  const waits = new Set<NodeJS.Timeout>();
  const { setTimeout: start, clearTimeout: stop } = globalThis;
  let is_sending = false;
  t.mock.method(globalThis, 'setTimeout', (task: () => void, delay_ms: number) => {
    const timer = start(task, delay_ms);
    if (is_sending) waits.add(timer);
    return timer;
  });
  t.mock.method(globalThis, 'clearTimeout', (timer: NodeJS.Timeout) => {
    waits.delete(timer);
    stop(timer);
  });
  const server = createServer((_, res) => {
    is_sending = true;
    sendWhole(res, 401, { 'content-length': 2 }, 'no');
    is_sending = false;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write('POST / HTTP/1.1\r\nhost: gateway.example\r\ncontent-length: 5\r\n\r\nab');
  await once(client, 'data');
  assert.equal(waits.size, 1);
  client.destroy();
  await until('nothing waits', () => waits.size === 0);
  server.close();
});
