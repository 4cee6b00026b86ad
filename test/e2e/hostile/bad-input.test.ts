import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { ask, bearer, messagesBody, type Response, type Sending, send, sendPart } from '../support/client.ts';
import { assertRefused, INVALID } from '../support/refusal.ts';
import { ledgerRows, nothingReserved, reserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const { upstream, gateway } = useGateway({});
afterEach(async () => {
  const response = await ask(gateway.url, gateway.token);
  assert.equal(response.status, 200, 'the gateway serves the next request');
});

describe('a body that is no Messages request', () => {
  const BODIES: Record<string, [body: string | Buffer, says: RegExp]> = {
    'is malformed JSON': ['{"model":"coder-1",}', /JSON/],
    'is empty': ['', /empty|JSON/],
    'lacks a model': ['{"max_tokens":1,"messages":[]}', /model/],
    'names the model twice': ['{"model":"coder-1","max_tokens":1,"model":"mapped-1"}', /model/],
    'names the model of a tool twice': [
      '{"model":"coder-1","max_tokens":1,"tools":[{"type":"x","model":"coder-1","model":"mapped-1"}]}',
      /model/,
    ],
    'has more values than may be': [`{"model":"coder-1","max_tokens":1,"x":[${'0,'.repeat(500_000)}0]}`, /values/],
    'is not UTF-8': [Buffer.from('{"model":"coder-1","x":"\xff\xfe"}', 'latin1'), /UTF-8/],
  };
  for (const [type, status, says] of [
    ['text/plain', 415, /application\/json/],
    ['application/json; charset=utf-7', 400, /UTF-8/],
  ] as const) {
    test(`declared as ${type} is rejected`, async () => {
      const headers = ['authorization', `Bearer ${gateway.token}`, 'content-type', type];
      const response = await send(gateway.url, { headers, body: messagesBody() });
      assertRefused(upstream, response, { ...INVALID, status, says });
    });
  }

  test('with two content types is rejected', async () => {
    const headers = bearer(gateway.token, ['Content-Type', 'application/json']);
    assertRefused(upstream, await send(gateway.url, { headers, body: messagesBody() }), {
      ...INVALID,
      says: /Content-Type/,
    });
  });

  for (const [what, [body, says]] of Object.entries(BODIES)) {
    test(`because it ${what} is rejected`, async () => {
      assertRefused(upstream, await send(gateway.url, { headers: bearer(gateway.token), body }), { ...INVALID, says });
    });
  }

  test('never has its own text repeated in the error', async () => {
    const body = '{"model":"coder-1","messages":[{"role":"user","content":"my secret plan"} oops';
    const response = await send(gateway.url, { headers: bearer(gateway.token), body });
    assert.equal(response.status, 400);
    assert.doesNotMatch(response.text, /secret|plan|oops/);
  });

  test('without a body at all is rejected', async () => {
    assertRefused(upstream, await send(gateway.url, { headers: bearer(gateway.token) }), INVALID);
  });
});

describe('an unknown model', () => {
  const MODELS = ['no-such-model', 'CODER-1', 'coder-1 ', '../coder-1', '__proto__', 'constructor', 'x'.repeat(50_000)];
  for (const model of MODELS) {
    test(`${JSON.stringify(model.slice(0, 20))} is not found`, async () => {
      const response = await ask(gateway.url, gateway.token, { model });
      assertRefused(upstream, response, { status: 404, type: 'not_found_error', says: /[Mm]odel not found/ });
      assert.ok(response.body.length < 2000, 'the error stays small');
    });
  }

  test('outside the token group gets the response of a missing one', async () => {
    const narrow = await gateway.newToken({ group: 'mapped-only' });
    assertRefused(upstream, await ask(gateway.url, narrow), {
      status: 404,
      type: 'not_found_error',
      says: /[Mm]odel not found/,
    });
    assert.equal((await ask(gateway.url, narrow, { model: 'mapped-1' })).status, 200);
    upstream.requests.length = 0;
  });
});

describe('a credential', () => {
  const UNAUTHORISED = { status: 401, type: 'authentication_error' };
  const asking = (headers: readonly string[]): Promise<Response> =>
    send(gateway.url, { headers: ['content-type', 'application/json', ...headers], body: messagesBody() });

  const WRONG: Record<string, () => string[]> = {
    'that is absent': () => [],
    'that is garbage': () => ['authorization', 'Bearer \u00e9\u00ff..;'],
    'with one character changed': () => [
      'authorization',
      `Bearer ${gateway.token.slice(0, -1)}${gateway.token.endsWith('A') ? 'B' : 'A'}`,
    ],
    'that is very long': () => ['x-api-key', `gw_${'a'.repeat(9000)}`],
    'that is a wrong bearer token beside a wrong key': () => [
      'authorization',
      'Bearer gw_other',
      'x-api-key',
      'gw_key',
    ],
  };
  for (const [what, headers] of Object.entries(WRONG)) {
    test(`${what} is rejected with 401 and no retry`, async () => {
      const response = await asking(headers());
      assertRefused(upstream, response, UNAUTHORISED);
      assert.equal(response.headers['x-should-retry'], 'false');
      assert.doesNotMatch(response.text, /gw_[a-zA-Z]{5}/, 'the credential is not repeated');
    });
  }

  test('that is wrong is rejected before the body has been sent', async () => {
    const head = 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: gw_wrong\r\ncontent-length: 150000\r\n\r\n';
    assertRefused(upstream, await sendPart(gateway.url, `${head}{"mod`), UNAUTHORISED);
  });
});

describe('a method or path', () => {
  const authorised = (sending: Sending) => send(gateway.url, { headers: bearer(gateway.token), ...sending });

  for (const [method, path, allow] of [
    ['GET', '/v1/messages', 'POST'],
    ['PUT', '/v1/messages?x=1', 'POST'],
    ['DELETE', '/v1/messages/count_tokens', 'POST'],
    ['OPTIONS', '/v1/messages', 'POST'],
    ['POST', '/v1/models', 'GET'],
    ['PATCH', '/healthz', 'GET'],
  ] as const) {
    test(`${method} ${path} is not allowed, and Allow lists the methods`, async () => {
      const response = await authorised({ method, path });
      assertRefused(upstream, response, { status: 405, type: 'invalid_request_error', says: new RegExp(allow) });
      assert.ok(String(response.headers.allow).split(', ').includes(allow));
    });
  }

  const PATHS = [
    '/v1 /v1/ /v1/message /v1/messages/ /V1/Messages //v1/messages /v1//messages /v1/./messages /v1/x/../messages',
    '/v1/%6dessages /v1/messages%2F /v1/messages;x=1 /login /index.html /__proto__ /v1/messages/../../etc/passwd',
    `/%00 /%zz /${'a'.repeat(8000)}`,
  ];
  for (const path of PATHS.flatMap((line) => line.split(' '))) {
    test(`${path.slice(0, 40)} is not found, as JSON`, async () => {
      const response = await authorised({ path, body: messagesBody() });
      assertRefused(upstream, response, { status: 404, type: 'not_found_error' });
    });
  }
});

test('no rejected request left a ledger row or a reservation', async () => {
  upstream.requests.length = 0;
  await nothingReserved(gateway.database);
  const before_count = (await ledgerRows(gateway.database)).length;
  await send(gateway.url, { headers: bearer(gateway.token), body: '{"model":7}' });
  await ask(gateway.url, gateway.token, { model: 'no-such-model' });
  await ask(gateway.url, 'gw_wrong');
  assert.equal((await ledgerRows(gateway.database)).length, before_count);
  const { nano_usd, reservations } = await reserved(gateway.database);
  assert.deepEqual({ nano_usd, reservations }, { nano_usd: 0, reservations: 0 });
});
