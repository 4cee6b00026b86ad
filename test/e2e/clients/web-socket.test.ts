import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import type { ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, collect, connect, MESSAGES, messagesBody, sendRaw } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

let upstream: ScriptedUpstream;
let gateway: TestGateway;

useGateway((opened) => {
  ({ upstream, gateway } = opened);
});

const HOST = 'host: gateway\r\n';
const HANDSHAKE =
  'connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: aaaa\r\n';

interface Reply {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** The responses on one connection to these requests, each sent when the one before was answered. */
async function exchange(...requests: readonly string[]): Promise<Reply[]> {
  const socket = await connect(gateway.url);
  const received = collect(socket);
  const replies: Reply[] = [];
  let seen = 0;
  for (const request of requests) {
    socket.write(request);
    const rest = () => received.text().slice(seen);
    const whole = () => {
      const at = rest().indexOf('\r\n\r\n');
      return at >= 0 && rest().length >= at + 4 + Number(/content-length: (\d+)/i.exec(rest())?.[1]);
    };
    await until('the whole answer is there', whole);
    const at = rest().indexOf('\r\n\r\n');
    const [head, body] = [rest().slice(0, at), rest().slice(at + 4)];
    replies.push({ status: Number(head.split(' ')[1]), head, body });
    seen = received.text().length;
  }
  socket.destroy();
  return replies;
}

const post = (headers: string): string => {
  const body = messagesBody();
  const credential = `authorization: Bearer ${gateway.token}\r\n`;
  return `POST ${MESSAGES} HTTP/1.1\r\n${HOST}${credential}${headers}content-length: ${body.length}\r\n\r\n${body}`;
};

test('a WebSocket handshake on a connection that is to end ends it', async () => {
  const closing = HANDSHAKE.replace('keep-alive', 'close');
  const raw = await sendRaw(gateway.url, `GET ${MESSAGES} HTTP/1.1\r\n${HOST}${closing}\r\n`);
  assert.match(raw, /^HTTP\/1\.1 426 /);
});

describe('a WebSocket handshake', () => {
  for (const path of [MESSAGES, '/v1/chat/completions', '/v1/responses', '/v1/responses?x=1', '/nowhere', '/healthz']) {
    test(`at ${path} is answered 426 in the envelope of its protocol, and says what to use`, async () => {
      const [reply] = await exchange(`GET ${path} HTTP/1.1\r\n${HOST}${HANDSHAKE}\r\n`);
      assert.equal(reply!.status, 426);
      assert.match(reply!.head, /^upgrade: HTTP\/1\.1$/im);
      assert.match(reply!.head, /^connection: upgrade$/im);
      const { type, error } = JSON.parse(reply!.body);
      const messages = !/^\/v1\/(?:chat|responses)/.test(path);
      assert.equal(type, messages ? 'error' : undefined);
      assert.equal(error.code, 'upgrade_required');
      assert.match(error.message, /plain HTTP/);
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('with a POST that holds a whole request is refused as well, and nothing is forwarded', async () => {
    const [refused, served] = await exchange(post(HANDSHAKE), post(''));
    assert.equal(refused!.status, 426);
    assert.equal(served!.status, 200, 'the connection can be used again');
    assert.equal(upstream.requests.length, 1);
  });

  test('among other protocols and spelled in capitals is one', async () => {
    const [reply] = await exchange(
      `GET / HTTP/1.1\r\n${HOST}connection: Upgrade\r\nupgrade: h2c, WebSocket/13\r\n\r\n`,
    );
    assert.equal(reply!.status, 426);
  });

  test('fails at once in a WebSocket client, which sees no open socket', async () => {
    const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`);
    const opened = await new Promise<boolean>((resolve) => {
      socket.addEventListener('open', () => resolve(true));
      socket.addEventListener('error', () => resolve(false));
    });
    assert.equal(opened, false);
    assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  });
});

describe('an offer of another protocol', () => {
  for (const protocol of ['h2c', 'TLS/1.0', 'websocketish', 'x-websocket']) {
    test(`such as ${protocol} is ignored`, async () => {
      const [reply] = await exchange(post(`connection: Upgrade\r\nupgrade: ${protocol}\r\n`));
      assert.equal(reply!.status, 200, reply!.body);
      assert.equal(upstream.only().headers.upgrade, undefined);
    });
  }

  test('in HTTP/1.0, which has no such thing, is ignored too', async () => {
    const request = post('upgrade: websocket\r\nconnection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/1.0');
    const [reply] = await exchange(request);
    assert.equal(reply!.status, 200, reply!.body);
  });
});
