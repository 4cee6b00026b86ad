/** Clients that request unserved paths, or a WebSocket: the error helps them on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { until } from '../../support/until.ts';
import { ask, bearer, collect, connect, MESSAGES, messagesBody, send, sendRaw } from '../support/client.ts';
import { recordOf } from '../support/odd.ts';
import { auditRows } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const { gateway, upstream } = useGateway();

for (const [path, meant] of [
  ['/chat/completions', '/v1/chat/completions'],
  ['/v1/v1/chat/completions', '/v1/chat/completions'],
  ['/messages', '/v1/messages'],
  ['/v1/messages/', '/v1/messages'],
  ['//v1/Responses', '/v1/responses'],
  ['/models', '/v1/models'],
] as const) {
  test(`a client with a wrong base URL requests ${path} and gets ${meant}, in the format of its protocol`, async () => {
    const { status, text, json } = await send(gateway.url, { path, body: '{}' });
    assert.equal(status, 404);
    assert.ok(text.includes(`did you mean ${meant}? Messages clients use the root of the gateway`), text);
    assert.equal(json().type, /completions|responses/i.test(path) ? undefined : 'error');
  });
}

test('a path of a protocol that is not served names those that are', async () => {
  const { status, json } = await send(gateway.url, { path: '/v1/embeddings', body: '{}' });
  assert.deepEqual([status, json().type], [404, undefined]);
  assert.match(json().error.message, /does not serve this API; an administrator .* route-to/);
  assert.match(json().error.message, /POST \/v1\/messages, \/v1\/chat\/completions or \/v1\/responses\.$/);
});

for (const [path, version, messages] of [
  ['/v1/messages/batches', undefined, true],
  ['/v1/files', '2023-06-01', true],
  ['/v1/files/file-1/content', undefined, false],
  ['/v1/audio/speech', undefined, false],
  ['/v1/threads/t/messages', undefined, false],
  ['/nowhere', undefined, true],
] as const) {
  test(`${path} is rejected in the envelope of ${messages ? 'Messages' : 'chat completions'}`, async () => {
    const headers = version === undefined ? [] : ['anthropic-version', version];
    const { status, json } = await send(gateway.url, { path, headers, body: '{}' });
    assert.deepEqual([status, json().type], [404, messages ? 'error' : undefined]);
    assert.equal(typeof json().error.message, 'string');
  });
}

test('a method that a path does not take is rejected in the envelope of the path, HEAD without a body', async () => {
  const wrong = await send(gateway.url, { method: 'GET', path: '/v1/chat/completions' });
  assert.deepEqual([wrong.status, wrong.headers.allow, wrong.json().type], [405, 'POST', undefined]);
  assert.equal(wrong.json().error.message, 'This path supports POST, not GET.');
  const head = await send(gateway.url, { method: 'HEAD', path: '/v1/messages' });
  assert.deepEqual([head.status, head.headers.allow, head.text], [405, 'POST', '']);
});

describe('a request without a pipeline', () => {
  test('leaves an audit record if its caller is known, with the path and never its query', async () => {
    const headers = ['authorization', `Bearer ${gateway.token}`];
    const response = await send(gateway.url, { path: '/v1/nowhere?text=secret-words', headers, body: '{"text":1}' });
    assert.equal(response.status, 404);
    const record = await recordOf(gateway, response);
    const expected = { user: gateway.user, method: 'POST', path: '/v1/nowhere', status: 404 };
    assert.deepEqual({ ...record, ...expected, error: 'path_not_found', model: null, token_group: 'all' }, record);
    assert.ok(!JSON.stringify(record).includes('secret-words'));
  });

  test('leaves none if its caller is unknown', async () => {
    for (const headers of [[], ['authorization', 'Bearer gw_nobody'], ['authorization', 'Basic x']]) {
      assert.equal((await send(gateway.url, { path: '/v1/by-nobody', headers, body: '{}' })).status, 404);
    }
    // Records are written in order: once this one is there, those before it would be.
    const last = await send(gateway.url, {
      path: '/v1/messages',
      headers: bearer(gateway.token),
      body: messagesBody(),
    });
    await recordOf(gateway, last);
    const rows = (await auditRows(gateway.database)) as { record: { path: string } }[];
    assert.ok(!rows.some(({ record }) => record.path === '/v1/by-nobody'));
  });
});

const HOST = 'host: gateway\r\n';
const HANDSHAKE =
  'connection: keep-alive, Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: aaaa\r\n';

interface Reply {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** The responses on one connection to these requests, each sent after the response to the one before. */
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
    await until('the response is complete', whole);
    const at = rest().indexOf('\r\n\r\n');
    const [head, body] = [rest().slice(0, at), rest().slice(at + 4)];
    replies.push({ status: Number(head.split(' ')[1]), head, body });
    seen = received.text().length;
  }
  socket.destroy();
  return replies;
}

const postWith = (headers: string): string => {
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
  for (const path of [MESSAGES, '/v1/chat/completions', '/v1/responses?x=1', '/nowhere']) {
    test(`at ${path} gets 426 in the envelope of its protocol, with an alternative`, async () => {
      const [reply] = await exchange(`GET ${path} HTTP/1.1\r\n${HOST}${HANDSHAKE}\r\n`);
      assert.equal(reply!.status, 426);
      assert.match(reply!.head, /^upgrade: HTTP\/1\.1$/im);
      assert.match(reply!.head, /^connection: upgrade$/im);
      const { type, error } = JSON.parse(reply!.body);
      const messages = !/^\/v1\/(?:chat|responses)/.test(path);
      assert.equal(type, messages ? 'error' : undefined);
      assert.equal(error.code, 'upgrade_required');
      assert.match(error.message, /WebSockets are not supported/);
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('with a POST that contains a whole request is rejected as well, and nothing is forwarded', async () => {
    const [refused, served] = await exchange(postWith(HANDSHAKE), postWith(''));
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
  for (const protocol of ['h2c', 'websocketish']) {
    test(`to ${protocol} is ignored`, async () => {
      const [reply] = await exchange(postWith(`connection: Upgrade\r\nupgrade: ${protocol}\r\n`));
      assert.equal(reply!.status, 200, reply!.body);
      assert.equal(upstream.only().headers.upgrade, undefined);
    });
  }

  test('in HTTP/1.0, which does not define it, is ignored too', async () => {
    const request = postWith('upgrade: websocket\r\nconnection: keep-alive\r\n').replace('HTTP/1.1', 'HTTP/1.0');
    const [reply] = await exchange(request);
    assert.equal(reply!.status, 200, reply!.body);
  });
});
