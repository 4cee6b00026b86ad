import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { serverSection } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { ask, bearer, collect, connect, messagesBody, parseRaw, send, sendPart, sendRaw } from '../support/client.ts';
import { assertRefused, INVALID } from '../support/refusal.ts';
import { useGateway } from '../support/use-gateway.ts';

const BODY_LIMIT = 200_000;
const HEADER_LIMIT = 16_384;

const server = serverSection({
  limits: { body_bytes: BODY_LIMIT, header_bytes: HEADER_LIMIT },
});
const { upstream, gateway } = useGateway({ server });
afterEach(async () => {
  const response = await ask(gateway.url, gateway.token);
  assert.equal(response.status, 200, 'the gateway serves the next request');
});

describe('a request head', () => {
  test('beyond the limit is rejected with 431', async () => {
    const response = await send(gateway.url, {
      headers: bearer(gateway.token, ['x-huge', 'a'.repeat(HEADER_LIMIT + 1)]),
      body: messagesBody(),
    });
    assertRefused(upstream, response, { status: 431, type: 'invalid_request_error', says: /16384/ });
  });

  test('made of very many headers is rejected with 431, never forwarded in part', async () => {
    const many = Array.from({ length: 1990 }, (_, index) => [`h${index}`, '']).flat();
    const response = await send(gateway.url, { headers: bearer(gateway.token, many), body: messagesBody() });
    if (response.status === 200) {
      const names = upstream.only().raw_headers.filter((name) => /^h\d+$/.test(name));
      assert.equal(names.length, 1990);
      upstream.requests.length = 0;
    } else assertRefused(upstream, response, { status: 431, type: 'invalid_request_error' });
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
  test('in absolute form is served by path or rejected, and never followed', async () => {
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
    test(`as in "${line}" is rejected as JSON or closes the connection`, async () => {
      const raw = await sendRaw(gateway.url, `${line}\r\n${HOST}connection: close\r\n\r\n`);
      if (raw !== '') assert.ok(parseRaw(raw).status >= 400);
      assert.doesNotMatch(raw, /<html|<!doctype/i);
      assert.equal(upstream.requests.length, 0);
    });
  }
});

describe('malformed HTTP', () => {
  const start = () => `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}`;
  const CHUNKS = '2\r\n{}\r\n0\r\n\r\n';
  /** A request with these headers; a host of its own where they name none. */
  const POST = (headers: readonly string[], body = '') => {
    const host = headers.some((header) => header.startsWith('host')) ? '' : HOST;
    const lines = headers.map((header) => `${header}\r\n`).join('');
    return `POST /v1/messages HTTP/1.1\r\n${host}${authorisation()}${lines}\r\n${body}`;
  };
  const MALFORMED: Record<string, () => string> = {
    'of no protocol': () => 'hello there\r\n\r\n',
    'of TLS on a plain port': () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'with an unknown version': () => `POST /v1/messages HTTP/9.9\r\n${HOST}\r\n`,
    'of HTTP/0.9': () => 'GET /healthz\r\n\r\n',
    'of HTTP/2.0 in the words of 1.1': () => `GET /healthz HTTP/2.0\r\n${HOST}\r\n`,
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
    'with two hosts': () => `${start()}Host: other.example\r\ncontent-length: 2\r\n\r\n{}`,
    'with the same host twice': () => `${start()}hOST: gateway.example\r\ncontent-length: 2\r\n\r\n{}`,
    'with two hosts in one header': () => POST(['host: a.example, b.example']),
    'with a user in its host': () => POST(['host: a@b.example']),
    'with a path in its host': () => POST(['host: a.example/v1']),
    'with a space in its host': () => POST(['host: a b']),
    'of HTTP/1.0 in chunks': () =>
      `POST /v1/messages HTTP/1.0\r\n${HOST}${authorisation()}transfer-encoding: chunked\r\n\r\n${CHUNKS}`,
    'compressed in transfer': () => POST(['transfer-encoding: gzip, chunked'], CHUNKS),
    'chunked twice': () => POST(['transfer-encoding: chunked', 'transfer-encoding: chunked'], CHUNKS),
    'with a transfer coding of its own': () => POST(['transfer-encoding: identity, chunked'], CHUNKS),
    'with a parameter of chunked': () => POST(['transfer-encoding: chunked;a=b'], CHUNKS),
    'with the same length twice': () => POST(['content-length: 2', 'content-length: 2'], '{}'),
    'with a list of lengths': () => POST(['content-length: 2, 2'], '{}'),
    'with a signed length': () => POST(['content-length: +2'], '{}'),
    'with a good request hidden behind an odd one': () =>
      POST(['transfer-encoding: gzip, chunked'], `0\r\n\r\n${framed(start(), messagesBody())}`),
  };
  for (const [what, request] of Object.entries(MALFORMED)) {
    test(`${what} is rejected once, and the connection closed`, async () => {
      const raw = await sendRaw(gateway.url, request());
      assertRefused(upstream, parseRaw(raw), INVALID);
      assert.equal(raw.match(/HTTP\/1\.1 /g)?.length, 1, 'one response, however many requests were hidden inside');
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
    test(`with a chunk size that is ${what} is rejected, and never forwarded`, async () => {
      const raw = await sendRaw(gateway.url, `${start()}transfer-encoding: chunked\r\n\r\n${chunks}`);
      assertRefused(upstream, parseRaw(raw), INVALID);
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

  test('serves pipelined requests one after the other, rejected ones too', async () => {
    const good = plain(gateway.token, messagesBody());
    const requests = [good, plain('gw_wrong', messagesBody()), plain(gateway.token, '{"model":7}'), good];
    const last = plain(gateway.token, messagesBody({ model: 'no-such-model' }), 'connection: close\r\n');
    const raw = await sendRaw(gateway.url, requests.join('') + last);
    assert.deepEqual(statuses(raw), [200, 401, 400, 200, 404]);
    upstream.requests.length = 0;
  });

  test('stays in step after an error before the body was sent', async () => {
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

  test('is rejected by its declared length before any of it was sent, and without an invitation to send it', async () => {
    const head = `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}content-length: ${BODY_LIMIT + 1}\r\n`;
    for (const more of ['', 'expect: 100-continue\r\n'])
      assertRefused(upstream, await sendPart(gateway.url, `${head}${more}\r\n`), TOO_LARGE);
  });

  test('is rejected for a client that uploads all of it before it reads', async () => {
    const body = messagesBody({ note: 'x'.repeat(4_000_000) });
    assertRefused(upstream, await send(gateway.url, { headers: bearer(gateway.token), body }), TOO_LARGE);
  });

  test('sent in chunks is rejected while the client is still sending', async () => {
    const socket = await connect(gateway.url);
    const received = collect(socket);
    socket.write(`POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}transfer-encoding: chunked\r\n\r\n`);
    const chunk = `8000\r\n${' '.repeat(0x8000)}\r\n`;
    let sent = 0;
    await until('there is a response', () => {
      if (sent < 3 * BODY_LIMIT && socket.writable && socket.write(chunk)) sent += 0x8000;
      return received.text().includes('\r\n\r\n');
    });
    assertRefused(upstream, parseRaw(received.text()), TOO_LARGE);
    socket.destroy();
  });

  test('of exactly the limit passes', async () => {
    const frame = messagesBody({ note: '' });
    const body = messagesBody({ note: 'x'.repeat(BODY_LIMIT - Buffer.byteLength(frame)) });
    assert.equal(Buffer.byteLength(body), BODY_LIMIT);
    assert.equal((await send(gateway.url, { headers: bearer(gateway.token), body })).status, 200);
    assert.equal(upstream.only().body.length, BODY_LIMIT);
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

  test('with any other Expect gets JSON', async () => {
    const head = `POST /v1/messages HTTP/1.1\r\n${HOST}${authorisation()}connection: close\r\nexpect: the-moon\r\n`;
    const response = parseRaw(await sendRaw(gateway.url, framed(head, messagesBody())));
    assert.ok(response.status === 417 || response.status === 200);
    if (response.status !== 200) assert.equal(JSON.parse(response.body).type, 'error');
    upstream.requests.length = 0;
  });
});
