/** Clients that are too slow to send their requests are cut off, whatever they do meanwhile. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, test } from 'node:test';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { use } from '../../support/use.ts';
import { collect, connect, parseRaw } from '../support/client.ts';

const BODY_BYTES = 2 * 1024 * 1024;
/** No other limit of a gateway is short. */
const SHORT_SECONDS = 0.5;

const upstream = use(startUpstream);
const boot = (timeouts: object) => {
  const server = serverSection({ limits: { body_bytes: BODY_BYTES, buffered_bytes: 4 * BODY_BYTES }, timeouts });
  return use(() => bootGateway({ upstream_url: upstream.url, config: { server } }));
};
/** Where heads, and where bodies have a short time. */
const heads = boot({ request_head_seconds: SHORT_SECONDS });
const bodies = boot({ request_body_seconds: SHORT_SECONDS });

/** Sends a byte now and then until it is cut off. */
function drip(socket: Socket): void {
  const timer = setInterval(() => socket.write(' '), 50);
  socket.on('close', () => clearInterval(timer));
}

const errorOf = (raw: string) => {
  const { status, body } = parseRaw(raw);
  return { status, ...JSON.parse(body).error };
};

describe('a client that is too slow', { concurrency: true }, () => {
  for (const [what, framing] of [
    ['a body of known length', 'content-length: 1000000'],
    ['a large body', `content-length: ${BODY_BYTES}`],
    ['a small body', 'content-length: 2000'],
  ] as const) {
    test(`for ${what}, byte by byte, gets 408 while it still sends`, async () => {
      // One large body is all that one caller may keep in memory.
      const token = await bodies.newToken({ user: `${framing.replace(/\W/g, '')}@example.com` });
      const socket = await connect(bodies.url);
      const received = collect(socket);
      const lines = ['host: x', `authorization: Bearer ${token}`, 'content-type: application/json', framing];
      socket.write(`POST /v1/messages HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      drip(socket);
      const { status, type, code, message } = errorOf(await received.closed);
      assert.deepEqual([status, type, code], [408, 'timeout_error', 'request_timeout']);
      assert.match(message, /not complete after 0.5 seconds/);
    });
  }

  test('for its head gets 408', async () => {
    const socket = await connect(heads.url);
    const received = collect(socket);
    socket.write('POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-slow: ');
    drip(socket);
    const { status, code } = errorOf(await received.closed);
    assert.deepEqual([status, code], [408, 'request_timeout']);
  });

  test('to send anything at all is disconnected silently', async () => {
    const socket = await connect(heads.url);
    assert.equal(await collect(socket).closed, '');
  });

  test('is discarded for an unread body, too', async () => {
    const socket = await connect(bodies.url);
    const received = collect(socket);
    socket.write('POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n');
    drip(socket);
    const raw = await received.closed;
    assert.deepEqual(raw.match(/HTTP\/1\.1 \d{3}/g), ['HTTP/1.1 404']);
  });
});
