import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { listTokens, revokeToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { makeToken } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, messagesBody, type Response, type Sending, send, sendPart } from '../support/client.ts';
import { movableClock } from '../support/movable-clock.ts';
import { assertRefused, INVALID } from '../support/refusal.ts';
import { ledgerRows, nothingReserved, reserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const clock = movableClock();
const { upstream, gateway } = useGateway({}, clock);
afterEach(async () => {
  const response = await ask(gateway.url, gateway.token);
  assert.equal(response.status, 200, 'the gateway serves the next request');
});

describe('a body that is no Messages request', () => {
  const BODIES: Record<string, [body: string | Buffer, says: RegExp]> = {
    'is malformed JSON': ['{"model":"coder-1",}', /JSON/],
    'ends too early': ['{"model":"coder-1","messages":[', /JSON/],
    'has something after the object': ['{"model":"coder-1","max_tokens":1} x', /JSON/],
    'is empty': ['', /empty|JSON/],
    'is white space': [' \n', /JSON/],
    'is null': ['null', /object/],
    'lacks a model': ['{"max_tokens":1,"messages":[]}', /model/],
    'has a model that is null': ['{"model":null,"max_tokens":1}', /model/],
    'has a model that is an array': ['{"model":["coder-1"],"max_tokens":1}', /model/],
    'has max_tokens beyond all numbers': ['{"model":"coder-1","max_tokens":1e400}', /max_tokens/],
    'has messages that are text': ['{"model":"coder-1","max_tokens":1,"messages":"hi"}', /messages/],
    'has tools that are an object': ['{"model":"coder-1","max_tokens":1,"tools":{}}', /tools/],
    'names the model twice': ['{"model":"coder-1","max_tokens":1,"model":"mapped-1"}', /model/],
    'names the model twice, once escaped': ['{"model":"coder-1","max_tokens":1,"mod\\u0065l":"mapped-1"}', /model/],
    'names the model again in another case': [
      '{"model":"coder-1","max_tokens":1,"Model":"mapped-1"}',
      /model.*"Model"/,
    ],
    'bounds its output again, with a Kelvin sign': [
      '{"model":"coder-1","max_tokens":1,"max_to\u212aens":64000}',
      /max_tokens.*max_to.+212aens/,
    ],
    'names the model of a tool twice': [
      '{"model":"coder-1","max_tokens":1,"tools":[{"type":"x","model":"coder-1","model":"mapped-1"}]}',
      /model/,
    ],
    'begins with a byte order mark': [`\ufeff${messagesBody()}`, /byte order mark/],
    'has more values than may be': [`{"model":"coder-1","max_tokens":1,"x":[${'0,'.repeat(500_000)}0]}`, /values/],
    'is not UTF-8': [Buffer.from('{"model":"coder-1","x":"\xff\xfe"}', 'latin1'), /UTF-8/],
    'holds an encoded surrogate': [
      Buffer.concat([Buffer.from('{"model":"coder-1","x":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
      /UTF-8/,
    ],
    'is UTF-16': [Buffer.from(messagesBody(), 'utf16le'), /UTF-8|JSON/],
  };
  for (const type of [
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain',
    'application/json, text/plain',
  ]) {
    test(`declared as ${type} is rejected`, async () => {
      const headers = ['authorization', `Bearer ${gateway.token}`, 'content-type', type];
      const response = await send(gateway.url, { headers, body: messagesBody() });
      assertRefused(upstream, response, { ...INVALID, status: 415, says: /application\/json/ });
    });
  }

  for (const charset of ['utf-7', '"UTF-16"', 'utf-8; charset=utf-7']) {
    test(`declared as ${charset} is rejected`, async () => {
      const type = `application/json; charset=${charset}`;
      const headers = ['authorization', `Bearer ${gateway.token}`, 'content-type', type];
      const response = await send(gateway.url, { headers, body: messagesBody() });
      assertRefused(upstream, response, { ...INVALID, says: /UTF-8/ });
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

  test('with excessive nesting is rejected', async () => {
    const body = `{"model":"coder-1","max_tokens":1,"x":${'['.repeat(90_000)}${']'.repeat(90_000)}}`;
    const sending = { headers: bearer(gateway.token), body };
    assertRefused(upstream, await send(gateway.url, sending), { ...INVALID, says: /nested deeper than 128/ });
  });

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
    'that is an empty bearer': () => ['authorization', 'Bearer '],
    'that is an empty key': () => ['x-api-key', ''],
    'of another scheme': () => ['authorization', 'Basic Z3dfYTpi'],
    'that is garbage': () => ['authorization', 'Bearer \u00e9\u00ff..;'],
    'that looks like a token': () => ['authorization', `Bearer gw_${'a'.repeat(43)}`],
    'with one character changed': () => [
      'authorization',
      `Bearer ${gateway.token.slice(0, -1)}${gateway.token.endsWith('A') ? 'B' : 'A'}`,
    ],
    'with one character missing': () => ['x-api-key', gateway.token.slice(0, -1)],
    'with another case': () => ['authorization', `Bearer ${gateway.token.toUpperCase()}`],
    'that is a SQL injection': () => ['x-api-key', "gw_' or '1'='1"],
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

  test('that was revoked is rejected, also while in use', async () => {
    const token = await gateway.newToken({ name: 'to-revoke' });
    assert.equal((await ask(gateway.url, token)).status, 200);
    const by = { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
    const [made] = await listTokens(gateway.database, { search: 'to-revoke' });
    await revokeToken(by, made!.id);
    const refused = await until('the revoked token is refused', async () => {
      const response = await ask(gateway.url, token);
      return response.status !== 200 && response;
    });
    upstream.requests.length = 0;
    assertRefused(upstream, refused, { ...UNAUTHORISED, says: /revoked/ });
  });

  test('that has expired is rejected', async () => {
    const token = await makeToken(gateway.database, { name: 'expiring', expires_at: new Date(Date.now() - 1000) });
    assertRefused(upstream, await ask(gateway.url, token), { ...UNAUTHORISED, says: /expired/ });
  });

  test('that expires while in use is rejected from then on', async () => {
    const expires_at = new Date(clock.now() + 3_600_000);
    const token = await makeToken(gateway.database, { name: 'short', expires_at });
    assert.equal((await ask(gateway.url, token)).status, 200);
    upstream.requests.length = 0;
    clock.advance(3_600_000);
    assertRefused(upstream, await ask(gateway.url, token), { ...UNAUTHORISED, says: /expired/ });
  });

  test('that is wrong is rejected before the body has been sent', async () => {
    const head = 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: gw_wrong\r\ncontent-length: 150000\r\n\r\n';
    assertRefused(upstream, await sendPart(gateway.url, `${head}{"mod`), UNAUTHORISED);
  });
});

describe('the model list', () => {
  const listing = (headers: readonly string[]) =>
    send(gateway.url, { method: 'GET', path: '/v1/models?limit=1000', headers });

  test('without a credential is 401 JSON, never a page or a redirect', async () => {
    assertRefused(upstream, await listing(['accept', 'text/html']), { status: 401, type: 'authentication_error' });
  });

  for (const limit of ['0', '-1', '1001', 'abc', '1.5', '']) {
    test(`with limit=${limit} gets JSON`, async () => {
      const path = `/v1/models?limit=${limit}`;
      const response = await send(gateway.url, { method: 'GET', path, headers: bearer(gateway.token) });
      assert.ok(response.status === 200 || response.status === 400, response.text);
      response.json();
    });
  }
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
