import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { serverSection } from '../../support/gateway.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
} from '../../support/model-provider/scripted-upstream.ts';
import { times } from '../../support/times.ts';
import { ask, bearer, messagesBody, open, type Response } from '../support/client.ts';
import { idOf } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const { gateway, upstream } = useGateway({ server: serverSection({ timeouts: { commit_seconds: 0 } }) });

const JSON_TYPE = ['content-type', 'application/json'];

/** Cost of the scripted usage at 3, 15, 0.3, 3.75 and 6 USD per million tokens, computed by hand. */
const COST_NANO_USD = 100 * 3000 + 40 * 15_000 + 2000 * 300 + 10 * 3750 + 20 * 6000;

async function assertMetered(response: Response): Promise<void> {
  const row = await ledgerRow(gateway.database, idOf(response));
  assert.deepEqual([row.input_tokens, row.output_tokens, row.cost_nano_usd], [100, 40, COST_NANO_USD]);
  assert.deepEqual([row.cache_read_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens], [2000, 10, 20]);
}

describe('a response head', () => {
  test('keeps every end-to-end header as the upstream spelled, ordered and repeated it, but for limits of its own', async () => {
    const sent = [
      ['Content-Type', 'application/json; charset=utf-8'],
      ['Request-Id', 'req_011'],
      ['Link', '</a>; rel=next'],
      ['Link', '</b>; rel=prev'],
      ['vendor-ratelimit-requests-limit', '4000'],
      ['anthropic-ratelimit-tokens-remaining', '399000'],
      ['anthropic-organization-id', 'org-1'],
      ['retry-after', '3'],
      ['X-Unknown-Header', 'kept'],
      ['server', 'upstream/1'],
      ['date', 'Tue, 01 Jan 2030 00:00:00 GMT'],
      ['cf-ray', '88-FRA'],
    ];
    // What acts on its host stays behind.
    const acting = ['Set-Cookie', 'session=stolen; Path=/', 'ALT-SVC', 'h3=":443"', 'Access-Control-Allow-Origin', '*'];
    upstream.script = answerBytes(200, [...acting, ...sent.flat()], JSON.stringify(message()));
    const response = await ask(gateway.url, gateway.token);
    const raw = response.raw_headers;
    const pairs = Array.from({ length: raw.length / 2 }, (_, at) => [raw[at * 2]!, raw[at * 2 + 1]!]);
    const own = new Set(['x-gateway-request-id', 'connection', 'keep-alive', 'content-length']);
    assert.deepEqual(
      pairs.filter(([name]) => !own.has(name!.toLowerCase())),
      // The limit of the gateway's account would be mistaken for the caller's.
      sent.filter(([name]) => name !== 'vendor-ratelimit-requests-limit'),
    );
    assert.match(response.headers['x-gateway-request-id'] as string, /^\S{8,}$/);
  });

  test('cannot be made to claim a gateway request id by the upstream', async () => {
    upstream.script = answerJson(message(), 200, { 'x-gateway-request-id': 'forged' });
    const { raw_headers } = await ask(gateway.url, gateway.token);
    const ids = raw_headers.filter((_, at) => at % 2 === 1 && raw_headers[at - 1] === 'x-gateway-request-id');
    assert.equal(ids.length, 1);
    assert.notEqual(ids[0], 'forged');
  });
});

describe('a JSON response', () => {
  const odd = JSON.stringify({ ...message(), zz: 1, unknown: { deep: [null] } })
    .replace('"zz":1', '"zz":12345678901234567890, "zz" : 1e400,"é":"\\u0041\\ud83d"')
    .replace('{', '{ \n\t');
  test('reaches the client byte for byte, with its length, and is metered', async () => {
    upstream.script = answerBytes(200, JSON_TYPE, odd);
    const response = await ask(gateway.url, gateway.token);
    assert.equal(response.text, odd);
    assert.equal(response.headers['content-length'], String(Buffer.byteLength(odd)));
    await assertMetered(response);
  });
});

describe('an event stream', () => {
  test('keeps comments, unknown events, CRLF line ends, split data lines and ids', async () => {
    const [start, ...rest] = messageEvents();
    const crlf = rest.map((event) => event.replaceAll('\n', '\r\n'));
    const text = [
      ': a comment\n\n',
      start,
      'event: from_the_future\nid: 7\nretry: 10\ndata: {"type":"from_the_future",\ndata: "x":[1]}\n\n',
      ':\n',
      'data: no event name\n\n',
      ...crlf,
      ': after the end\r\n\r\n',
      'data: an unfinished last event',
    ].join('');
    upstream.script = answerChunks([text.slice(0, 41), text.slice(41, 300), text.slice(300)]);
    const response = await ask(gateway.url, gateway.token, { stream: true });
    assert.equal(response.text, text);
    assert.equal(response.headers['content-type'], EVENT_STREAM[1]);
    assert.equal(response.headers['content-length'], undefined);
    await assertMetered(response);
  });

  test('brings each event before the upstream has written the next', async () => {
    const events = messageEvents(['one ', 'two ', 'three']);
    let sent: (() => void) | undefined;
    const next = () => new Promise<void>((resolve) => (sent = resolve));
    let proceed = next();
    upstream.script = async ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      for (const event of events) {
        res.write(event);
        await proceed;
        proceed = next();
      }
      res.end();
    };
    const { head } = open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) });
    let received = '';
    let expected = '';
    let seen = 0;
    for await (const chunk of await head) {
      received += chunk;
      expected += events[seen++];
      assert.equal(received, expected, 'exactly the bytes written so far are here');
      sent?.();
    }
    assert.equal(seen, events.length);
  });

  test('shows its head before its first event', async () => {
    let proceed: (() => void) | undefined;
    upstream.script = async ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.flushHeaders();
      await new Promise<void>((resolve) => (proceed = resolve));
      res.end(messageEvents().join(''));
    };
    const head = await open(gateway.url, { headers: bearer(gateway.token), body: messagesBody({ stream: true }) }).head;
    assert.equal(head.statusCode, 200);
    proceed?.();
    let text = '';
    for await (const chunk of head) text += chunk;
    assert.equal(text, messageEvents().join(''));
  });
});

const ENCODERS = [
  ['gzip', zlib.gzipSync],
  ['deflate', zlib.deflateSync],
  // Against the name's definition, and sent by some servers.
  ['deflate', zlib.deflateRawSync],
  ['br', zlib.brotliCompressSync],
  ['zstd', zlib.zstdCompressSync],
] as const;

describe('a compressed response', () => {
  for (const [encoding, compress] of ENCODERS) {
    test(`in ${encoding} (${compress.name}) passes byte for byte and is metered`, async () => {
      const json = compress(Buffer.from(JSON.stringify(message())));
      upstream.script = answerBytes(200, [...JSON_TYPE, 'content-encoding', encoding], json);
      const plain = await ask(gateway.url, gateway.token, {}, ['accept-encoding', encoding]);
      assert.deepEqual(plain.body, json);
      assert.equal(plain.headers['content-encoding'], encoding);
      assert.equal(upstream.only().headers['accept-encoding'], encoding);
      await assertMetered(plain);
    });
  }

  test('whose compression is broken passes unchanged, and costs the estimate', async () => {
    const broken = zlib.gzipSync(JSON.stringify(message())).fill(7, 12, 40);
    upstream.script = answerBytes(200, [...JSON_TYPE, 'content-encoding', 'gzip'], broken);
    const response = await ask(gateway.url, gateway.token);
    assert.deepEqual(response.body, broken);
    const row = await ledgerRow(gateway.database, idOf(response));
    assert.ok(row.cost_nano_usd > 0, 'a response that cannot be read is not free');
    assert.match(JSON.stringify(row.provenance), /estimate/);
  });
});

test('a stream passes byte for byte and is metered exactly, however it is cut and compressed', async () => {
  const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }), { maxLength: 8 });
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  const encodings = fc.constantFrom(undefined, ...ENCODERS);
  const line_ends = fc.constantFrom('\n', '\r\n');
  await fc.assert(
    fc.asyncProperty(texts, cuts, encodings, line_ends, async (words, places, encoder, line_end) => {
      const [encoding, compress = (bytes: Buffer) => bytes] = encoder ?? [];
      const text = Buffer.from(messageEvents(words).join('').replaceAll('\n', line_end));
      const bytes = compress(text);
      const at = [0, ...places.map((place) => Math.floor(place * bytes.length)).sort((a, b) => a - b), bytes.length];
      const parts = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
      const headers = [...EVENT_STREAM, ...(encoding === undefined ? [] : ['content-encoding', encoding])];
      upstream.script = answerChunks(
        parts.filter((part) => part.length > 0),
        headers,
      );
      const response = await ask(gateway.url, gateway.token, { stream: true });
      assert.deepEqual(response.body, bytes);
      await assertMetered(response);
    }),
    { numRuns: times(25) },
  );
});
