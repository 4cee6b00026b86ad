import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { revokeToken } from '../../engine/services/tokens.ts';
import { bootGateway, makeToken, serverSection, type TestGateway } from '../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../support/scripted-upstream.ts';
import { until } from '../support/until.ts';
import {
  ask,
  bearer,
  collect,
  connect,
  messagesBody,
  parseRaw,
  type RawResponse,
  type Response,
  type Sending,
  send,
  sendRaw,
} from './client.ts';
import { held, ledgerRows, nothingHeld } from './state.ts';

const BODY_LIMIT = 200_000;
const HEADER_LIMIT = 16_384;

let upstream: ScriptedUpstream;
let gateway: TestGateway;

before(async () => {
  upstream = await startUpstream();
  const server = serverSection({
    limits: { body_bytes: BODY_LIMIT, header_bytes: HEADER_LIMIT },
    timeouts: { request_body_seconds: 2 },
  });
  gateway = await bootGateway({ upstream_url: upstream.url, config: { server } });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
});
beforeEach(() => {
  upstream.requests.length = 0;
});
afterEach(async () => {
  const response = await ask(gateway.url, gateway.token);
  assert.equal(response.status, 200, 'the gateway serves the next request');
});

interface Expected {
  readonly status: number;
  readonly type: string;
  /** What the message must mention. */
  readonly says?: RegExp;
}

/** Checks the Messages error envelope: JSON, the right type, a sentence, an identifier; nothing went upstream. */
function assertRefused(response: Response | RawResponse, expected: Expected): void {
  const text = typeof response.body === 'string' ? response.body : response.body.toString('utf8');
  assert.equal(response.status, expected.status, text);
  assert.match(String(response.headers['content-type']), /^application\/json/);
  assert.equal(response.headers.location, undefined);
  const request_id = response.headers['x-gateway-request-id'];
  assert.match(String(request_id), /^\S{8,}$/);
  const body = JSON.parse(text);
  assert.equal(body.type, 'error');
  assert.equal(body.error.type, expected.type);
  assert.equal(typeof body.error.message, 'string');
  assert.ok(body.error.message.length > 15, `"${body.error.message}" explains nothing`);
  if (expected.says !== undefined) assert.match(body.error.message, expected.says);
  assert.equal(body.request_id, request_id);
  assert.equal(upstream.requests.length, 0, 'nothing was forwarded');
}

const INVALID = { status: 400, type: 'invalid_request_error' };

describe('a body that is no Messages request', () => {
  const BODIES: Record<string, [body: string | Buffer, says: RegExp]> = {
    'is malformed JSON': ['{"model":"coder-1",}', /JSON/],
    'ends too early': ['{"model":"coder-1","messages":[', /JSON/],
    'has something after the object': ['{"model":"coder-1","max_tokens":1} x', /JSON/],
    'is empty': ['', /empty|JSON/],
    'is white space': [' \n', /JSON/],
    'is an array': ['[{"model":"coder-1"}]', /object/],
    'is a string': ['"coder-1"', /object/],
    'is null': ['null', /object/],
    'is a number': ['1', /object/],
    'lacks a model': ['{"max_tokens":1,"messages":[]}', /model/],
    'has a model that is a number': ['{"model":7,"max_tokens":1}', /model/],
    'has a model that is null': ['{"model":null,"max_tokens":1}', /model/],
    'has a model that is an array': ['{"model":["coder-1"],"max_tokens":1}', /model/],
    'has a model that is empty': ['{"model":"","max_tokens":1}', /model/],
    'has max_tokens that is text': ['{"model":"coder-1","max_tokens":"8"}', /max_tokens/],
    'has max_tokens that is negative': ['{"model":"coder-1","max_tokens":-1}', /max_tokens/],
    'has max_tokens with a fraction': ['{"model":"coder-1","max_tokens":1.5}', /max_tokens/],
    'has max_tokens beyond all numbers': ['{"model":"coder-1","max_tokens":1e400}', /max_tokens/],
    'has stream that is text': ['{"model":"coder-1","max_tokens":1,"stream":"true"}', /stream/],
    'has messages that are text': ['{"model":"coder-1","max_tokens":1,"messages":"hi"}', /messages/],
    'has tools that are an object': ['{"model":"coder-1","max_tokens":1,"tools":{}}', /tools/],
    'names the model twice': ['{"model":"coder-1","max_tokens":1,"model":"mapped-1"}', /model/],
    'names the model twice, once escaped': ['{"model":"coder-1","max_tokens":1,"mod\\u0065l":"mapped-1"}', /model/],
    'names max_tokens twice': ['{"model":"coder-1","max_tokens":1,"max_tokens":64000}', /max_tokens/],
    'names stream twice': ['{"model":"coder-1","max_tokens":1,"stream":true,"stream":false}', /stream/],
    'is not UTF-8': [Buffer.from('{"model":"coder-1","x":"\xff\xfe"}', 'latin1'), /UTF-8/],
    'holds an encoded surrogate': [
      Buffer.concat([Buffer.from('{"model":"coder-1","x":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
      /UTF-8/,
    ],
    'is UTF-16': [Buffer.from(messagesBody(), 'utf16le'), /UTF-8|JSON/],
  };
  for (const [what, [body, says]] of Object.entries(BODIES)) {
    test(`because it ${what} is refused`, async () => {
      assertRefused(await send(gateway.url, { headers: bearer(gateway.token), body }), { ...INVALID, says });
    });
  }

  test('because it nests too deeply for any parser is refused or forwarded, never a crash', async () => {
    const body = `{"model":"coder-1","max_tokens":1,"x":${'['.repeat(90_000)}${']'.repeat(90_000)}}`;
    const response = await send(gateway.url, { headers: bearer(gateway.token), body });
    assert.ok(response.status === 200 || response.status === 400, response.text);
  });

  test('never has its own text repeated in the error', async () => {
    const body = '{"model":"coder-1","messages":[{"role":"user","content":"my secret plan"} oops';
    const response = await send(gateway.url, { headers: bearer(gateway.token), body });
    assert.equal(response.status, 400);
    assert.doesNotMatch(response.text, /secret|plan|oops/);
  });

  test('without a body at all is refused', async () => {
    assertRefused(await send(gateway.url, { headers: bearer(gateway.token) }), INVALID);
  });
});

describe('an unknown model', () => {
  const MODELS = ['no-such-model', 'CODER-1', 'coder-1 ', '../coder-1', '__proto__', 'constructor', 'x'.repeat(50_000)];
  for (const model of MODELS) {
    test(`${JSON.stringify(model.slice(0, 20))} is not found`, async () => {
      const response = await ask(gateway.url, gateway.token, { model });
      assertRefused(response, { status: 404, type: 'not_found_error', says: /[Mm]odel not found/ });
      assert.ok(response.body.length < 2000, 'the error stays small');
    });
  }

  test('outside the token group is answered like one that does not exist', async () => {
    const narrow = await gateway.newToken({ group: 'mapped-only' });
    assertRefused(await ask(gateway.url, narrow), { status: 404, type: 'not_found_error', says: /[Mm]odel not found/ });
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
    'that is a wrong bearer token beside a right key': () => [
      ...['authorization', 'Bearer gw_other', 'x-api-key', gateway.token],
    ],
  };
  for (const [what, headers] of Object.entries(WRONG)) {
    test(`${what} is refused with 401 and no retry`, async () => {
      const response = await asking(headers());
      assertRefused(response, UNAUTHORISED);
      assert.equal(response.headers['x-should-retry'], 'false');
      assert.doesNotMatch(response.text, /gw_[a-zA-Z]{5}/, 'the credential is not repeated');
    });
  }

  test('in the Authorization header decides over a key left over from another login', async () => {
    const response = await asking(['x-api-key', 'sk-left-over', 'authorization', `Bearer ${gateway.token}`]);
    assert.equal(response.status, 200, response.text);
    assert.doesNotMatch(upstream.only().raw_headers.join(' '), /left-over/);
  });

  test('that was revoked is refused within a second', async () => {
    const token = await gateway.newToken({ name: 'to-revoke' });
    assert.equal((await ask(gateway.url, token)).status, 200);
    await revokeToken(gateway.database, { user: 'dev@example.com', name: 'to-revoke' });
    const refused = await until(
      'the revoked token is refused',
      async () => {
        const response = await ask(gateway.url, token);
        return response.status !== 200 && response;
      },
      1000,
    );
    upstream.requests.length = 0;
    assertRefused(refused, { ...UNAUTHORISED, says: /revoked/ });
  });

  test('that has expired is refused', async () => {
    const token = await makeToken(gateway.database, { name: 'expiring', expires_at: new Date(Date.now() - 1000) });
    assertRefused(await ask(gateway.url, token), { ...UNAUTHORISED, says: /expired/ });
  });

  test('that expires while it is in use is refused from then on', async () => {
    const token = await makeToken(gateway.database, { name: 'short', expires_at: new Date(Date.now() + 1200) });
    assert.equal((await ask(gateway.url, token)).status, 200);
    const refused = await until('the token has expired', async () => {
      const response = await ask(gateway.url, token);
      return response.status !== 200 && response;
    });
    upstream.requests.length = 0;
    assertRefused(refused, { ...UNAUTHORISED, says: /expired/ });
  });

  test('that is wrong is refused before the body has been sent', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write('POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: gw_wrong\r\ncontent-length: 150000\r\n\r\n{"mod');
    await until('there is an answer', () => received.text().includes('\r\n\r\n'));
    assertRefused(parseRaw(received.text()), UNAUTHORISED);
    socket.destroy();
  });
});

describe('the model list', () => {
  const listing = (headers: readonly string[]) =>
    send(gateway.url, { method: 'GET', path: '/v1/models?limit=1000', headers });

  test('without a credential is 401 JSON, never a page or a redirect', async () => {
    assertRefused(await listing(['accept', 'text/html']), { status: 401, type: 'authentication_error' });
  });

  test('takes the credential in either header', async () => {
    for (const headers of [
      ['authorization', `Bearer ${gateway.token}`],
      ['x-api-key', gateway.token],
    ]) {
      const response = await listing(headers);
      assert.equal(response.status, 200, response.text);
      assert.deepEqual(
        response.json().data.map(({ id }: { id: string }) => id),
        ['coder-1', 'mapped-1'],
      );
    }
  });

  for (const limit of ['0', '-1', '1001', 'abc', '1.5', '']) {
    test(`with limit=${limit} is answered with JSON`, async () => {
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
    test(`${method} ${path} is not allowed, and Allow says what is`, async () => {
      const response = await authorised({ method, path });
      assertRefused(response, { status: 405, type: 'invalid_request_error', says: new RegExp(allow) });
      assert.ok(String(response.headers.allow).split(', ').includes(allow));
    });
  }

  test('HEAD where only POST is taken is not allowed, without a body', async () => {
    const response = await authorised({ method: 'HEAD', path: '/v1/messages' });
    assert.equal(response.status, 405);
    assert.equal(response.body.length, 0);
  });

  for (const path of [
    '/',
    '/v1',
    '/v1/',
    '/v1/message',
    '/v1/messages/',
    '/V1/Messages',
    '//v1/messages',
    '/v1//messages',
    '/v1/./messages',
    '/v1/x/../messages',
    '/v1/%6dessages',
    '/v1/messages%2F',
    '/v1/messages;x=1',
    '/login',
    '/index.html',
    '/__proto__',
    '/v1/messages/../../etc/passwd',
    '/%00',
    '/%zz',
    `/${'a'.repeat(8000)}`,
  ]) {
    test(`${path.slice(0, 40)} is not found, as JSON`, async () => {
      const response = await authorised({ path, body: messagesBody() });
      assertRefused(response, { status: 404, type: 'not_found_error' });
    });
  }
});

describe('a request head', () => {
  test('larger than the limit is refused with 431', async () => {
    const response = await send(gateway.url, {
      headers: bearer(gateway.token, ['x-huge', 'a'.repeat(HEADER_LIMIT + 1)]),
      body: messagesBody(),
    });
    assertRefused(response, { status: 431, type: 'invalid_request_error', says: /16384/ });
  });

  test('made of very many headers is refused with 431, never forwarded in part', async () => {
    const many = Array.from({ length: 1990 }, (_, index) => [`h${index}`, '']).flat();
    const response = await send(gateway.url, { headers: bearer(gateway.token, many), body: messagesBody() });
    if (response.status === 200) {
      const names = upstream.only().raw_headers.filter((name) => /^h\d+$/.test(name));
      assert.equal(names.length, 1990);
      upstream.requests.length = 0;
    } else assertRefused(response, { status: 431, type: 'invalid_request_error' });
  });

  test('just below the limit passes', async () => {
    const response = await ask(gateway.url, gateway.token, {}, ['x-large', 'a'.repeat(HEADER_LIMIT - 1000)]);
    assert.equal(response.status, 200, response.text);
  });
});

const HOST = 'host: gateway.example\r\n';
const framed = (head: string, body: string) => `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const authorisation = () => `authorization: Bearer ${gateway.token}\r\n`;

describe('a target', () => {
  test('in absolute form is served by path or refused, and never followed', async () => {
    const head = `POST http://elsewhere.example/v1/messages HTTP/1.1\r\n${HOST}${authorisation()}connection: close\r\n`;
    const response = parseRaw(await sendRaw(gateway.url, framed(head, messagesBody())));
    if (response.status === 200) {
      assert.equal(upstream.only().url, '/v1/messages');
      assert.equal(upstream.only().headers.host, new URL(upstream.url).host);
    } else {
      assert.ok(response.status === 400 || response.status === 404);
      assert.equal(JSON.parse(response.body).type, 'error');
    }
  });

  for (const line of ['POST v1/messages HTTP/1.1', 'POST * HTTP/1.1', 'CONNECT example.com:443 HTTP/1.1']) {
    test(`as in "${line}" is refused as JSON or the connection is closed`, async () => {
      const raw = await sendRaw(gateway.url, `${line}\r\n${HOST}connection: close\r\n\r\n`);
      if (raw !== '') assert.ok(parseRaw(raw).status >= 400);
      assert.doesNotMatch(raw, /<html|<!doctype/i);
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('with the Upgrade header is answered like any other request', async () => {
    const upgrade = 'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n';
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write(`GET /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}${upgrade}sec-websocket-key: aaaa\r\n\r\n`);
    await until('there is an answer', () => received.text().includes('\r\n\r\n'));
    assert.equal(parseRaw(received.text()).status, 405);
    socket.destroy();
  });
});

describe('malformed HTTP', () => {
  const start = () => `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}`;
  const MALFORMED: Record<string, () => string> = {
    'of no protocol': () => 'hello there\r\n\r\n',
    'of TLS on a plain port': () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'with an unknown version': () => `POST /v1/messages HTTP/9.9\r\n${HOST}\r\n`,
    'without a host': () => `POST /v1/messages HTTP/1.1\r\n${authorisation()}content-length: 2\r\n\r\n{}`,
    'with a space in a header name': () => `${start()}bad header: 1\r\n\r\n`,
    'with a bare line feed in a header': () => `${start()}x-a: 1\nx-b: 2\r\n\r\n`,
    'with a folded header': () => `${start()}x-a: 1\r\n folded\r\ncontent-length: 2\r\n\r\n{}`,
    'with a control character in a header': () => `${start()}x-a: \x01\r\n\r\n`,
    'with content-length and transfer-encoding': () =>
      `${start()}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n`,
    'with two different content-lengths': () => `${start()}content-length: 2\r\ncontent-length: 3\r\n\r\n{}x`,
    'with a content-length that is no number': () => `${start()}content-length: 2x\r\n\r\n{}`,
    'with a negative content-length': () => `${start()}content-length: -2\r\n\r\n{}`,
    'with a content-length beyond all numbers': () => `${start()}content-length: 99999999999999999999999\r\n\r\n{}`,
    'with an unknown transfer coding': () => `${start()}transfer-encoding: cow\r\n\r\n{}`,
    'with chunked not last': () => `${start()}transfer-encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    'with a hidden transfer coding': () => `${start()}transfer-encoding:\x0bchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  };
  for (const [what, request] of Object.entries(MALFORMED)) {
    test(`${what} is refused once, and the connection closed`, async () => {
      const raw = await sendRaw(gateway.url, request());
      assertRefused(parseRaw(raw), INVALID);
      assert.equal(raw.match(/HTTP\/1\.1 /g)?.length, 1, 'one answer, however many requests were hidden inside');
    });
  }

  const BAD_CHUNKS: Record<string, string> = {
    'no number': 'zz\r\n{}\r\n0\r\n\r\n',
    negative: '-2\r\n{}\r\n0\r\n\r\n',
    'beyond all numbers': 'ffffffffffffffffff\r\n{}\r\n0\r\n\r\n',
    'in 0x notation': '0x2\r\n{}\r\n0\r\n\r\n',
    'too small for its data': '1\r\n{}\r\n0\r\n\r\n',
    'ended by a bare line feed': '2\n{}\n0\n\n',
  };
  for (const [what, chunks] of Object.entries(BAD_CHUNKS)) {
    test(`with a chunk size that is ${what} is refused, and never forwarded`, async () => {
      const raw = await sendRaw(gateway.url, `${start()}transfer-encoding: chunked\r\n\r\n${chunks}`);
      assertRefused(parseRaw(raw), INVALID);
      assert.equal(raw.match(/HTTP\/1\.1 /g)?.length, 1);
    });
  }

  test('behind a good request on the same connection does not spoil the good one', async () => {
    const raw = await sendRaw(gateway.url, `${framed(start(), messagesBody())}BROKEN\r\n\r\n`);
    assert.equal(parseRaw(raw).status, 200);
    upstream.requests.length = 0;
  });
});

describe('a connection', () => {
  const plain = (token: string, body: string, more = '') =>
    framed(`POST /v1/messages HTTP/1.1\r\n${HOST}authorization: Bearer ${token}\r\n${more}`, body);
  const statuses = (raw: string) => [...raw.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

  test('answers pipelined requests one after the other, refused ones too', async () => {
    const good = plain(gateway.token, messagesBody());
    const requests = [good, plain('gw_wrong', messagesBody()), plain(gateway.token, '{"model":7}'), good];
    const last = plain(gateway.token, messagesBody({ model: 'no-such-model' }), 'connection: close\r\n');
    const raw = await sendRaw(gateway.url, requests.join('') + last);
    assert.deepEqual(statuses(raw), [200, 401, 400, 200, 404]);
    upstream.requests.length = 0;
  });

  test('stays in step after a refusal that came before the body was sent', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    const body = messagesBody({ note: 'x'.repeat(100_000) });
    const refused = plain('gw_wrong', body);
    socket.write(refused.slice(0, -90_000));
    await until('the refusal is there', () => received.text().includes('authentication_error'));
    socket.write(refused.slice(-90_000));
    socket.write(plain(gateway.token, messagesBody(), 'connection: close\r\n'));
    assert.deepEqual(statuses(await received.closed), [401, 200]);
    upstream.requests.length = 0;
  });
});

describe('a body beyond the limit', () => {
  const TOO_LARGE = { status: 413, type: 'request_too_large', says: /200000/ };

  test('is refused by its declared length before any of it was sent', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    const head = `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}content-length: ${BODY_LIMIT + 1}\r\n\r\n`;
    socket.write(head);
    await until('there is an answer', () => received.text().includes('\r\n\r\n'));
    assertRefused(parseRaw(received.text()), TOO_LARGE);
    socket.destroy();
  });

  test('is refused to a client that uploads all of it before it reads', async () => {
    const body = messagesBody({ note: 'x'.repeat(4_000_000) });
    assertRefused(await send(gateway.url, { headers: bearer(gateway.token), body }), TOO_LARGE);
  });

  test('sent in chunks is refused while the client is still sending', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write(`POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}transfer-encoding: chunked\r\n\r\n`);
    const chunk = `8000\r\n${' '.repeat(0x8000)}\r\n`;
    let sent = 0;
    await until('there is an answer', () => {
      if (sent < 3 * BODY_LIMIT && socket.writable && socket.write(chunk)) sent += 0x8000;
      return received.text().includes('\r\n\r\n');
    });
    assertRefused(parseRaw(received.text()), TOO_LARGE);
    socket.destroy();
  });

  test('of exactly the limit passes', async () => {
    const frame = messagesBody({ note: '' });
    const body = messagesBody({ note: 'x'.repeat(BODY_LIMIT - Buffer.byteLength(frame)) });
    assert.equal(Buffer.byteLength(body), BODY_LIMIT);
    assert.equal((await send(gateway.url, { headers: bearer(gateway.token), body })).status, 200);
    assert.equal(upstream.only().body.length, BODY_LIMIT);
  });

  test('announced with Expect: 100-continue is refused without being invited', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    const expecting = `content-length: ${BODY_LIMIT + 1}\r\nexpect: 100-continue\r\n\r\n`;
    socket.write(`POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}${expecting}`);
    await until('there is an answer', () => received.text().includes('\r\n\r\n'));
    assertRefused(parseRaw(received.text()), TOO_LARGE);
    socket.destroy();
  });
});

describe('Expect: 100-continue', () => {
  test('invites a body that fits, and forwards it without the Expect header', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    const body = messagesBody();
    const head = `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}connection: close\r\nexpect: 100-continue\r\n`;
    socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n`);
    await until('the body is invited', () => received.text().startsWith('HTTP/1.1 100 '));
    socket.write(body);
    const rest = (await received.closed).slice('HTTP/1.1 100 Continue\r\n\r\n'.length);
    assert.equal(parseRaw(rest).status, 200);
    assert.equal(upstream.only().headers.expect, undefined);
    assert.equal(upstream.only().body.toString(), body);
  });

  test('that expects anything else is answered as JSON', async () => {
    const head = `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}connection: close\r\nexpect: the-moon\r\n`;
    const response = parseRaw(await sendRaw(gateway.url, framed(head, messagesBody())));
    assert.ok(response.status === 417 || response.status === 200);
    if (response.status !== 200) assert.equal(JSON.parse(response.body).type, 'error');
    upstream.requests.length = 0;
  });
});

test('no refused request left a ledger row or a hold', async () => {
  upstream.requests.length = 0;
  await nothingHeld(gateway.database);
  const before_count = (await ledgerRows(gateway.database)).length;
  await send(gateway.url, { headers: bearer(gateway.token), body: '{"model":7}' });
  await ask(gateway.url, gateway.token, { model: 'no-such-model' });
  await ask(gateway.url, 'gw_wrong');
  assert.equal((await ledgerRows(gateway.database)).length, before_count);
  const { nano_usd, reservations } = await held(gateway.database);
  assert.deepEqual({ nano_usd, reservations }, { nano_usd: 0, reservations: 0 });
});
