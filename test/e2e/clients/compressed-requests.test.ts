/** Requests with compressed bodies: read like any other, forwarded unchanged to supporting upstreams, else decompressed. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import { COUNT_PATH, PROTOCOL_PATHS } from '../../../engine/base/contract/protocol.ts';
import { mainUpstream, ONE_ATTEMPT, serverSection } from '../../support/gateway.ts';
import { answerJson, message } from '../../support/model-provider/scripted-upstream.ts';
import { inTurn } from '../../support/times.ts';
import { bearer, parseRaw, send, sendRaw } from '../support/client.ts';
import { rewritesOf } from '../support/odd.ts';
import { useGateway, useUpstream } from '../support/use-gateway.ts';

const BODY_BYTES = 200_000;

const packed = useUpstream();
const { gateway, upstream: plain } = useGateway((base_url) => {
  const compat = { type: 'compat', base_url, api_key_env: 'TEST_UPSTREAM_KEY', ...ONE_ATTEMPT };
  const takes = { supports: { request_encodings: ['gzip', 'br', 'zstd'] } };
  const model = (id: string) => ({
    id,
    family: id.replace(/-\d$/, ''),
    context_window: 200_000,
    max_output_tokens: 64_000,
    upstream_ids: id === 'mapped-1' ? { packed: 'their-mapped-1' } : {},
    pricing: { input: 3, output: 15 },
  });
  return {
    server: serverSection({ limits: { body_bytes: BODY_BYTES } }),
    upstreams: [
      mainUpstream(base_url),
      { ...mainUpstream(packed.url), name: 'packed', ...takes },
      { ...compat, name: 'compat' },
      { ...compat, base_url: packed.url, name: 'packed-compat', ...takes },
    ],
    models: ['coder-1', 'packed-1', 'mapped-1', 'chat-1', 'talk-1', 'first-1', 'second-1', 'secret-1'].map(model),
    token_groups: [
      { name: 'all', models: ['*'] },
      { name: 'most', families: ['coder', 'packed', 'mapped', 'chat', 'talk', 'first', 'second'] },
    ],
    routing: {
      default_upstream: 'main',
      rules: [
        { models: ['packed-1', 'mapped-1'], upstream: 'packed' },
        { models: ['chat-1'], upstream: 'compat' },
        { models: ['talk-1'], upstream: 'packed-compat' },
        { models: ['first-1'], upstreams: ['packed', 'main'] },
        { models: ['second-1'], upstreams: ['main', 'packed'] },
      ],
    },
  };
});

const ENCODINGS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: zlib.gzipSync,
  'x-gzip': zlib.gzipSync,
  GZIP: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: zlib.brotliCompressSync,
  zstd: zlib.zstdCompressSync,
  'gzip, br': (bytes) => zlib.brotliCompressSync(zlib.gzipSync(bytes)),
  'identity, zstd': zlib.zstdCompressSync,
};

const PATHS = { ...PROTOCOL_PATHS, count_tokens: COUNT_PATH };
type Api = keyof typeof PATHS;
const APIS = Object.keys(PATHS) as Api[];

const PROMPT = [{ role: 'user', content: `Say hello. ${'And again. '.repeat(200)}` }];

function bodyOf(api: Api, model: string, more: object = {}): Buffer {
  const by_api: Record<Api, object> = {
    messages: { max_tokens: 64, messages: PROMPT },
    count_tokens: { messages: PROMPT },
    chat: { max_tokens: 64, messages: PROMPT },
    responses: { max_output_tokens: 64, input: PROMPT, store: false },
  };
  return Buffer.from(JSON.stringify({ model, ...by_api[api], ...more }));
}

function post(
  api: Api,
  body: Buffer | readonly Buffer[],
  encoding: string,
  headers: readonly string[] = [],
  token = gateway.token,
) {
  return send(gateway.url, {
    path: PATHS[api],
    headers: bearer(token, ['content-encoding', encoding, ...headers]),
    body,
  });
}

describe('a compressed request', () => {
  const digestOf = (body: Buffer) => [
    'content-digest',
    `sha-256=:${createHash('sha256').update(body).digest('base64')}:`,
  ];
  for (const [place, [encoding, compress]] of Object.entries(ENCODINGS).entries()) {
    test(`(${encoding}) is decompressed for an upstream without known support, and the record shows it`, async () => {
      for (const api of inTurn(APIS, place)) {
        plain.requests.length = 0;
        const body = bodyOf(api, api === 'chat' || api === 'responses' ? 'chat-1' : 'coder-1');
        const response = await post(api, compress(body), encoding, digestOf(compress(body)));
        assert.equal(response.status, 200, `${api}: ${response.text}`);
        const sent = plain.only();
        assert.equal(sent.body.toString(), body.toString(), api);
        const { 'content-encoding': coding, 'content-length': length, 'content-digest': digest } = sent.headers;
        assert.deepEqual([coding, length, digest], [undefined, String(body.length), undefined], api);
        assert.deepEqual(await rewritesOf(gateway, response), ['content-encoding'], api);
      }
    });

    if (encoding === 'deflate') continue;
    test(`(${encoding}) reaches a supporting upstream byte for byte`, async () => {
      for (const api of inTurn(['messages', 'chat', 'responses'] as const, place)) {
        packed.requests.length = 0;
        const body = compress(bodyOf(api, api === 'messages' ? 'packed-1' : 'talk-1'));
        const response = await post(api, body, encoding, digestOf(body));
        assert.equal(response.status, 200, `${api}: ${response.text}`);
        const sent = packed.only();
        assert.ok(sent.body.equals(body), api);
        const { 'content-encoding': coding, 'content-length': length, 'content-digest': digest } = sent.headers;
        assert.deepEqual([coding, length, digest], [encoding, String(body.length), digestOf(body)[1]]);
        assert.deepEqual(await rewritesOf(gateway, response), []);
      }
    });
  }

  test('with raw deflate is read, and deflate is always decompressed, as servers mean two things by it', async () => {
    for (const compress of [zlib.deflateSync, zlib.deflateRawSync]) {
      packed.requests.length = 0;
      const body = bodyOf('messages', 'packed-1');
      const response = await post('messages', compress(body), 'deflate');
      assert.equal(response.status, 200, response.text);
      assert.ok(packed.only().body.equals(body));
      assert.deepEqual(await rewritesOf(gateway, response), ['content-encoding']);
    }
  });

  test('that the gateway changes is sent uncompressed to every upstream', async () => {
    const changed = await post('messages', zlib.zstdCompressSync(bodyOf('messages', 'mapped-1')), 'zstd');
    assert.equal(changed.status, 200, changed.text);
    const sent = packed.only();
    assert.equal(sent.body.toString(), bodyOf('messages', 'their-mapped-1').toString());
    assert.equal(sent.headers['content-encoding'], undefined);
    assert.deepEqual(await rewritesOf(gateway, changed), ['model', 'content-encoding']);
  });

  test('reaches each upstream of its route in a form it supports', async () => {
    const fail = answerJson({ type: 'error', error: { type: 'api_error', message: 'no' } }, 500);
    for (const [model, first, second] of [
      ['first-1', packed, plain],
      ['second-1', plain, packed],
    ] as const) {
      for (const upstream of [plain, packed]) upstream.requests.length = 0;
      const body = bodyOf('messages', model);
      const compressed = zlib.zstdCompressSync(body);
      first.script = fail;
      second.script = answerJson(message());
      const response = await post('messages', compressed, 'zstd');
      assert.equal(response.status, 200, response.text);
      assert.ok(packed.only().body.equals(compressed), model);
      assert.equal(packed.only().headers['content-encoding'], 'zstd');
      assert.ok(plain.only().body.equals(body), model);
      assert.equal(plain.only().headers['content-encoding'], undefined);
      assert.deepEqual(await rewritesOf(gateway, response), second === plain ? ['content-encoding'] : [], model);
    }
  });

  test('may be in chunks, in several members or frames, and after a "100 Continue"', async () => {
    const body = bodyOf('messages', 'coder-1');
    const halves = [body.subarray(0, 100), body.subarray(100)];
    const gzip = halves.map((half) => zlib.gzipSync(half));
    const skippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7]);
    const zstd = [...halves.map((half) => zlib.zstdCompressSync(half)), skippable];
    for (const [encoding, parts] of [
      ['gzip', gzip],
      ['zstd', zstd],
    ] as const) {
      assert.equal((await post('messages', parts, encoding)).status, 200, encoding);
      assert.ok(plain.requests.at(-1)!.body.equals(body), encoding);
    }
    const compressed = zlib.gzipSync(body);
    const head = [
      'POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\nexpect: 100-continue',
      `authorization: Bearer ${gateway.token}\r\ncontent-type: application/json`,
      `content-encoding: gzip\r\ncontent-length: ${compressed.length}\r\n\r\n`,
    ].join('\r\n');
    const raw = await sendRaw(gateway.url, Buffer.concat([Buffer.from(head), compressed]));
    assert.match(raw, /^HTTP\/1\.1 100 /);
    assert.equal(parseRaw(raw.slice(raw.indexOf('\r\n\r\n') + 4)).status, 200);
    assert.ok(plain.requests.at(-1)!.body.equals(body));
  });
});

describe('a body that is not compressed', () => {
  test("passes with its client's headers", async () => {
    for (const encoding of ['identity', 'Identity', ' ', 'identity, identity']) {
      plain.requests.length = 0;
      const body = bodyOf('messages', 'coder-1');
      const response = await post('messages', body, encoding);
      assert.equal(response.status, 200, response.text);
      assert.ok(plain.only().body.equals(body));
      assert.equal(plain.only().headers['content-encoding'], encoding.trim());
      assert.deepEqual(await rewritesOf(gateway, response), []);
    }
  });
});

describe('rejects a compressed request', () => {
  const large = Buffer.alloc(BODY_BYTES, ' ');
  const bomb = Buffer.concat([Buffer.from('{"model":"coder-1","x":"'), Buffer.alloc(64 * BODY_BYTES, 'a')]);
  const body = Buffer.from(JSON.stringify({ model: 'coder-1', max_tokens: 64, messages: PROMPT }));
  const cut = (bytes: Buffer) => bytes.subarray(0, bytes.length - 3);
  const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('{"model":"secret-1"}')]);

  type Compress = (bytes: Buffer) => Buffer;
  type Expected = readonly [status: number, says: RegExp];
  /** Possible faults of each encoding. */
  const FAULTS: readonly (readonly [what: string, of: (compress: Compress) => Buffer, ...Expected])[] = [
    ['that is larger than a body may be', (compress) => compress(Buffer.concat([body, large])), 413, /than 200000/],
    ['that grows without end', (compress) => compress(bomb), 413, /larger than 200000/],
    ['that ends too early', (compress) => cut(compress(body)), 400, /truncated|cannot be decompressed/],
    ['that is something else', () => body, 400, /cannot be decompressed|truncated|after its end/],
    ['with something behind its end', (compress) => padded(compress(body)), 400, /after its end|cannot be decompress/],
    ['that is no JSON', (compress) => compress(Buffer.from('{"model":')), 400, /JSON/],
  ];
  const frames = Buffer.concat(Array(5000).fill(zlib.zstdCompressSync(Buffer.alloc(0))));
  const gzip = zlib.gzipSync(body);
  const UNKNOWN = ['compress', 'aws-chunked', 'gzip, compress', '*', 'gzip;q=1', 'gzip br', 'gzip, br, br, br'];
  const cases: readonly (readonly [what: string, encoding: string, bytes: Buffer, ...Expected])[] = [
    ...Object.entries(ENCODINGS).flatMap(([encoding, compress], place) =>
      inTurn(FAULTS, place).map(([what, of, ...expected]) => [what, encoding, of(compress), ...expected] as const),
    ),
    ['with zeros behind its end', 'gzip', Buffer.concat([gzip, Buffer.alloc(9)]), 400, /9 bytes after/],
    ['that is zstd under the name of gzip', 'gzip', zlib.zstdCompressSync(body), 400, /content-encoding gzip/],
    ['of thousands of frames', 'zstd', frames, 400, /more than 100 frames; compress it as one/],
    ...UNKNOWN.map((name) => ['with an unknown encoding', name, gzip, 415, /not supported; send gzip/] as const),
  ];
  for (const [what, encoding, bytes, status, says] of cases) {
    test(`${what} (${encoding})`, async () => {
      const response = await post('messages', bytes, encoding);
      assert.equal(response.status, status, response.text);
      const { type, error } = response.json();
      assert.equal(type, 'error');
      assert.match(error.message, says);
      assert.equal(response.headers['accept-encoding'], status === 415 ? 'gzip, deflate, br, zstd' : undefined);
      assert.equal(plain.requests.length + packed.requests.length, 0);
    });
  }

  test('whose window is larger than the content-encoding zstd allows', async () => {
    const params = { [zlib.constants.ZSTD_c_windowLog]: 24, [zlib.constants.ZSTD_c_contentSizeFlag]: 0 };
    const wide = zlib.createZstdCompress({ params });
    wide.end(Buffer.from(Array.from({ length: 150_000 }, (_, i) => (i * i) % 251)));
    const response = await post('messages', Buffer.concat(await wide.toArray()), 'zstd');
    assert.equal(response.status, 400, response.text);
    assert.match(response.json().error.message, /window of more than 8 MiB/);
  });

  test('with a model denied to the caller, in any part of it', async () => {
    const token = await gateway.newToken({ group: 'most', user: 'most@example.com' });
    for (const [place, api] of APIS.entries()) {
      const bytes = bodyOf(api, 'secret-1');
      const split = (compress: (bytes: Buffer) => Buffer) =>
        Buffer.concat([compress(bytes.subarray(0, 5)), compress(bytes.subarray(5))]);
      const model = api === 'responses' || api === 'chat' ? 'talk-1' : 'packed-1';
      const hidden: (readonly [string, Buffer])[] = [
        ...inTurn(Object.entries(ENCODINGS), 2 * place).map(
          ([encoding, compress]) => [encoding, compress(bytes)] as const,
        ),
        ['gzip', split(zlib.gzipSync)],
        ['zstd', split(zlib.zstdCompressSync)],
        ['zstd', zlib.zstdCompressSync(bodyOf(api, model, { fallbacks: [{ model: 'secret-1' }] }))],
      ];
      for (const [encoding, bytes] of hidden) {
        const response = await post(api, bytes, encoding, [], token);
        assert.equal(response.status, 404, `${api} ${encoding}: ${response.text}`);
        assert.match(response.text, /secret-1/);
      }
    }
    assert.equal(plain.requests.length + packed.requests.length, 0);
  });
});
