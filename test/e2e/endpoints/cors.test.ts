/** Pages of listed origins may read the gateway's responses, errors and streams included; all others are served as before. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serverSection } from '../../support/gateway.ts';
import { answerChunks, answerJson, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { bearer, MESSAGES, messagesBody, type Response, type Sending, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

const CHAT = '/v1/chat/completions';
const PAGE = 'https://chat.example.com';
const LISTED = [PAGE, 'http://localhost:3000', 'chrome-extension://abcdefghijklmnop'];

const { gateway, upstream } = useGateway({ server: { ...serverSection({}), cors: { origins: LISTED } } });

const of = (origin: string, sending: Sending = {}) =>
  send(gateway.url, { ...sending, headers: ['origin', origin, ...(sending.headers ?? [])] });

function preflight(path: string, origin: string, more: readonly string[] = []): Promise<Response> {
  const headers = ['origin', origin, 'access-control-request-method', 'POST', ...more];
  return send(gateway.url, { method: 'OPTIONS', path, headers });
}

const corsHeaders = ({ headers }: Response) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));

function assertReadable(response: Response, origin = PAGE): void {
  const { headers } = response;
  assert.equal(headers['access-control-allow-origin'], origin);
  assert.match(String(headers.vary), /(?:^|, )origin(?:,|$)/i);
  assert.equal(headers['access-control-allow-credentials'], undefined);
  const exposed = String(headers['access-control-expose-headers']).split(', ');
  for (const name of ['*', 'x-gateway-request-id', 'retry-after', 'request-id'])
    assert.ok(exposed.includes(name), name);
}

describe('a preflight', () => {
  for (const path of [MESSAGES, '/v1/models']) {
    test(`for ${path} needs no credential`, async () => {
      const asked = 'authorization, content-type,x-stainless-os, anthropic-dangerous-direct-browser-access';
      for (const origin of LISTED) {
        const response = await preflight(`${path}?beta=true`, origin, ['access-control-request-headers', asked]);
        assert.equal(response.status, 204, response.text);
        assert.equal(response.headers['access-control-allow-origin'], origin);
        assert.match(String(response.headers['access-control-allow-methods']), /\b(?:GET|POST)\b/);
        assert.deepEqual(String(response.headers['access-control-allow-headers']).split(', '), asked.split(/, ?/));
        assert.equal(response.headers['access-control-max-age'], '7200');
        assert.match(String(response.headers.vary), /^origin, access-control-request-method, /);
        assert.equal(response.headers['access-control-allow-private-network'], undefined);
        assert.equal(response.body.length, 0);
      }
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('permits a private network on request', async () => {
    const response = await preflight(MESSAGES, PAGE, ['access-control-request-private-network', 'true']);
    assert.equal(response.headers['access-control-allow-private-network'], 'true');
    assert.equal(response.headers['access-control-allow-headers'], undefined);
  });

  test('returns no invalid header name', async () => {
    const long = 'x'.repeat(200);
    const asked = `x-good, x bad, <script>, ${long}, ${Array.from({ length: 500 }, (_, i) => `x-${i}`)}`;
    const { status, headers } = await preflight(MESSAGES, PAGE, ['access-control-request-headers', asked]);
    const names = String(headers['access-control-allow-headers']).split(', ');
    assert.deepEqual([status, names[0], names[1]], [204, 'x-good', 'x-0']);
    assert.ok(names.length < 200);
  });

  test('for a path without a pipeline lets its error be read', async () => {
    assert.equal((await preflight('/v1/embeddings', PAGE)).status, 204);
    const response = await of(PAGE, { path: '/v1/embeddings', body: '{}' });
    assert.equal(response.status, 404);
    assertReadable(response);
  });

  test('requires the method in its request', async () => {
    const response = await of(PAGE, { method: 'OPTIONS', path: MESSAGES });
    assert.equal(response.status, 405);
    assertReadable(response);
  });
});

describe('a page of a listed origin reads', () => {
  const ask = (token: string, more: object = {}) =>
    of(PAGE, { path: MESSAGES, headers: bearer(token), body: messagesBody(more) });

  test('a response, whatever the upstream returns as other pages', async () => {
    upstream.script = answerJson(message(), 200, {
      ...{ 'Access-Control-Allow-Origin': '*', 'access-control-allow-credentials': 'true' },
      ...{ 'Access-Control-Expose-Headers': 'x-none', Vary: 'Accept-Encoding' },
    });
    const response = await ask(gateway.token);
    assert.equal(response.status, 200, response.text);
    assertReadable(response);
    assert.match(String(response.headers.vary), /accept-encoding/i);
    assert.equal(response.raw_headers.filter((name) => /^access-control-allow-origin$/i.test(name)).length, 1);
  });

  test('a stream', async () => {
    upstream.script = answerChunks(messageEvents());
    const response = await ask(gateway.token, { stream: true });
    assert.match(response.text, /message_stop/);
    assertReadable(response);
  });

  test('lists and errors', async () => {
    const rows: readonly (readonly [number, Sending])[] = [
      [200, { method: 'GET', path: '/v1/models', headers: bearer(gateway.token) }],
      [401, { path: MESSAGES, headers: bearer('gw_nonsense'), body: messagesBody() }],
      [401, { path: MESSAGES, body: messagesBody() }],
      [401, { path: CHAT, body: '{}' }],
      [404, { path: MESSAGES, headers: bearer(gateway.token), body: messagesBody({ model: 'nobody-knows' }) }],
      [400, { path: MESSAGES, headers: bearer(gateway.token), body: '{' }],
      [405, { method: 'DELETE', path: MESSAGES }],
      [426, { method: 'GET', path: '/v1/responses', headers: ['upgrade', 'websocket', 'connection', 'upgrade'] }],
    ];
    for (const [status, sending] of rows) {
      const response = await of(PAGE, sending);
      assert.equal(response.status, status, `${sending.path}: ${response.text}`);
      assertReadable(response);
    }
  });

  test("an upstream's error", async () => {
    const body = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down.' } };
    upstream.script = answerJson(body, 429, { 'retry-after': '7' });
    const response = await ask(gateway.token);
    assert.deepEqual([response.status, response.headers['retry-after']], [429, '7']);
    assertReadable(response);
  });

  test('hides from the upstream that a page sent the request', async () => {
    await ask(gateway.token);
    const names = upstream.only().raw_headers.filter((_, index) => index % 2 === 0);
    assert.ok(!names.some((name) => /^origin$/i.test(name)), names.join());
  });
});

describe('a page of any other origin gets', () => {
  const OTHERS = [
    'https://evil.example.com',
    'null',
    'https://CHAT.example.com',
    'https://chat.example.com/',
    'https://chat.example.com:443',
    'https://chat.example.com.evil.net',
    'http://chat.example.com',
    'http://localhost:30000',
    'chrome-extension://abcdefghijklmnopq',
    `${PAGE}, ${PAGE}`,
    '__proto__',
    '',
  ];
  for (const origin of OTHERS) {
    test(`the response without permission to read it: "${origin}"`, async () => {
      const response = await of(origin, { path: MESSAGES, headers: bearer(gateway.token), body: messagesBody() });
      assert.equal(response.status, 200);
      assert.deepEqual(corsHeaders(response), []);
      const refused = await preflight(MESSAGES, origin, ['access-control-request-headers', 'authorization']);
      assert.equal(refused.status, 405);
      assert.deepEqual(corsHeaders(refused), []);
    });
  }

  test('an uncacheable response', async () => {
    const response = await send(gateway.url, { method: 'GET', path: '/v1/models', headers: bearer(gateway.token) });
    assert.deepEqual(corsHeaders(response), []);
    assert.equal(response.headers.vary, 'origin');
  });
});

test('no listed page reads sign-in pages, the console or the admin API', async () => {
  for (const path of ['/', '/console', '/admin/api/me', '/admin/api/tokens', '/device', '/oauth/token', '/protocol']) {
    for (const response of [await of(PAGE, { method: 'GET', path }), await preflight(path, PAGE)]) {
      assert.deepEqual(corsHeaders(response), [], path);
    }
  }
});
