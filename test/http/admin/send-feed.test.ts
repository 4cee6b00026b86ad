import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { it } from 'node:test';
import type { Response } from 'express';
import type { FeedEvent } from '../../../engine/edge/admin/lists.ts';
import { sendFeed } from '../../../engine/edge/http/admin.ts';
import { until } from '../../support/until.ts';

it('a stalled reader does no harm when the feed ends, and gets no later records', async () => {
  const event: FeedEvent = { id: 1, event: 'request', data: { text: 'x'.repeat(1000) } };
  let reader: { send(event: FeedEvent): void; end(): void } | undefined;
  let response: ServerResponse | undefined;
  let sent: Promise<void> | undefined;
  let stopped = false;
  const server = createServer((_req, res) => {
    response = res;
    const open = async (input: NonNullable<typeof reader>) => {
      reader = input;
      return () => {
        stopped = true;
      };
    };
    sent = sendFeed(res as Response, { open }, { headers: {}, mayGoOn: async () => {} });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  try {
    socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
    await until('the feed is open', () => response?.headersSent === true);
    await until('the reader is behind', () => {
      for (let i = 0; i < 200 && response!.writableLength < 500_000; i++) reader!.send(event);
      return response!.writableLength >= 500_000;
    });
    const failed: unknown[] = [];
    response!.on('error', (error) => failed.push(error));
    reader!.end();
    reader!.send(event);
    await new Promise(setImmediate);
    assert.deepEqual(failed, []);
    assert.equal(stopped, false, 'it has not read the earlier events');
    socket.destroy();
    await sent;
    assert.equal(stopped, true);
  } finally {
    socket.destroy();
    server.close();
  }
});
