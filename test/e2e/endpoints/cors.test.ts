/** Pages of listed origins may read what the gateway answers, errors and streams included; all others are served as before. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serverSection, type TestGateway } from '../../support/gateway.ts';
import {
  answerChunks,
  answerJson,
  message,
  messageEvents,
  type ScriptedUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, MESSAGES, messagesBody, type Response, type Sending, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

const CHAT = '/v1/chat/completions';
const PAGE = 'https://chat.example.com';
const LISTED = [PAGE, 'http://localhost:3000', 'chrome-extension://abcdefghijklmnop'];

let gateway: TestGateway;
let upstream: ScriptedUpstream;

useGateway(
  (opened) => {
    ({ gateway, upstream } = opened);
  },
  { server: { ...serverSection({}), cors: { origins: LISTED } } },
);

const of = (origin: string, sending: Sending = {}) =>
  send(gateway.url, { ...sending, headers: ['origin', origin, ...(sending.headers ?? [])] });

function preflight(path: string, origin: string, more: readonly string[] = []): Promise<Response> {
  const headers = ['origin', origin, 'access-control-request-method', 'POST', ...more];
  return send(gateway.url, { method: 'OPTIONS', path, headers });
}

const corsHeaders = ({ headers }: Response) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));

function assertReadable(answer: Response, origin = PAGE): void {
  const { headers } = answer;
  assert.equal(headers['access-control-allow-origin'], origin);
  assert.match(String(headers.vary), /(?:^|, )origin(?:,|$)/i);
  assert.equal(headers['access-control-allow-credentials'], undefined);
  const exposed = String(headers['access-control-expose-headers']).split(', ');
  for (const name of ['*', 'x-gateway-request-id', 'retry-after', 'request-id'])
    assert.ok(exposed.includes(name), name);
}

describe('a preflight', () => {
  for (const path of [MESSAGES, '/v1/models']) {
    test(`for ${path} is answered without a credential`, async () => {
      const asked = 'authorization, content-type,x-stainless-os, anthropic-dangerous-direct-browser-access';
      for (const origin of LISTED) {
        const answer = await preflight(`${path}?beta=true`, origin, ['access-control-request-headers', asked]);
        assert.equal(answer.status, 204, answer.text);
        assert.equal(answer.headers['access-control-allow-origin'], origin);
        assert.match(String(answer.headers['access-control-allow-methods']), /\b(?:GET|POST)\b/);
        assert.deepEqual(String(answer.headers['access-control-allow-headers']).split(', '), asked.split(/, ?/));
        assert.equal(answer.headers['access-control-max-age'], '7200');
        assert.match(String(answer.headers.vary), /^origin, access-control-request-method, /);
        assert.equal(answer.headers['access-control-allow-private-network'], undefined);
        assert.equal(answer.body.length, 0);
      }
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('says that a private network may be asked, where it is asked so', async () => {
    const answer = await preflight(MESSAGES, PAGE, ['access-control-request-private-network', 'true']);
    assert.equal(answer.headers['access-control-allow-private-network'], 'true');
    assert.equal(answer.headers['access-control-allow-headers'], undefined);
  });

  test('gets back no name that is none', async () => {
    const long = 'x'.repeat(200);
    const asked = `x-good, x bad, <script>, ${long}, ${Array.from({ length: 500 }, (_, i) => `x-${i}`)}`;
    const { status, headers } = await preflight(MESSAGES, PAGE, ['access-control-request-headers', asked]);
    const names = String(headers['access-control-allow-headers']).split(', ');
    assert.deepEqual([status, names[0], names[1]], [204, 'x-good', 'x-0']);
    assert.ok(names.length < 200);
  });

  test('for a path of no pipeline lets its error be read', async () => {
    assert.equal((await preflight('/v1/embeddings', PAGE)).status, 204);
    const answer = await of(PAGE, { path: '/v1/embeddings', body: '{}' });
    assert.equal(answer.status, 404);
    assertReadable(answer);
  });

  test('is one only with the method it asks for', async () => {
    const answer = await of(PAGE, { method: 'OPTIONS', path: MESSAGES });
    assert.equal(answer.status, 405);
    assertReadable(answer);
  });
});

describe('a page of a listed origin reads', () => {
  const ask = (token: string, more: object = {}) =>
    of(PAGE, { path: MESSAGES, headers: bearer(token), body: messagesBody(more) });

  test('an answer, whatever the upstream says of other pages', async () => {
    upstream.script = answerJson(message(), 200, {
      ...{ 'Access-Control-Allow-Origin': '*', 'access-control-allow-credentials': 'true' },
      ...{ 'Access-Control-Expose-Headers': 'x-none', Vary: 'Accept-Encoding' },
    });
    const answer = await ask(gateway.token);
    assert.equal(answer.status, 200, answer.text);
    assertReadable(answer);
    assert.match(String(answer.headers.vary), /accept-encoding/i);
    assert.equal(answer.raw_headers.filter((name) => /^access-control-allow-origin$/i.test(name)).length, 1);
  });

  test('a stream', async () => {
    upstream.script = answerChunks(messageEvents());
    const answer = await ask(gateway.token, { stream: true });
    assert.match(answer.text, /message_stop/);
    assertReadable(answer);
  });

  test('lists, refusals and errors', async () => {
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
      const answer = await of(PAGE, sending);
      assert.equal(answer.status, status, `${sending.path}: ${answer.text}`);
      assertReadable(answer);
    }
  });

  test("an upstream's refusal", async () => {
    const body = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down.' } };
    upstream.script = answerJson(body, 429, { 'retry-after': '7' });
    const answer = await ask(gateway.token);
    assert.deepEqual([answer.status, answer.headers['retry-after']], [429, '7']);
    assertReadable(answer);
  });

  test('what an upstream gets does not say that a page asked', async () => {
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
    test(`the answer without leave to read it: "${origin}"`, async () => {
      const answer = await of(origin, { path: MESSAGES, headers: bearer(gateway.token), body: messagesBody() });
      assert.equal(answer.status, 200);
      assert.deepEqual(corsHeaders(answer), []);
      const refused = await preflight(MESSAGES, origin, ['access-control-request-headers', 'authorization']);
      assert.equal(refused.status, 405);
      assert.deepEqual(corsHeaders(refused), []);
    });
  }

  test('an answer that is kept for nobody else', async () => {
    const answer = await send(gateway.url, { method: 'GET', path: '/v1/models', headers: bearer(gateway.token) });
    assert.deepEqual(corsHeaders(answer), []);
    assert.equal(answer.headers.vary, 'origin');
  });
});

test('no listed page reads sign-in pages, the console or the admin API', async () => {
  for (const path of ['/', '/console', '/admin/api/me', '/admin/api/tokens', '/device', '/oauth/token', '/protocol']) {
    for (const answer of [await of(PAGE, { method: 'GET', path }), await preflight(path, PAGE)]) {
      assert.deepEqual(corsHeaders(answer), [], path);
    }
  }
});
