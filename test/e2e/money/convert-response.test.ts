/** The guarantees for a stage that converts responses, with a converter that writes in capitals. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { defineStage, type ResponseHead, StageError } from '../../../engine/api.ts';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
} from '../../support/model-provider/scripted-upstream.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { ask, bearer, messagesBody, open, type Response, send } from '../support/client.ts';
import { forwardingPipelines } from '../support/pipelines.ts';
import { ledgerRow, nothingReserved } from '../support/state.ts';
import { useUpstream } from '../support/use-gateway.ts';

/** Bytes passed to converters. */
let given_bytes = 0;

function refuse(mode: string | undefined, moment: string): void {
  if (mode === `refuses in ${moment}`) throw new StageError('upstream_invalid', `refused in ${moment}`);
  if (mode === `breaks in ${moment}`) throw new TypeError(`broken in ${moment}`);
}

function converterFor(mode: string | undefined, head: ResponseHead) {
  refuse(mode, 'make');
  if (mode === 'nothing') return undefined;
  if (mode === 'to a stream') head.set('content-type', 'text/event-stream');
  if (mode === 'to a document') head.set('content-type', 'application/json');
  const kept: Buffer[] = [];
  const whole =
    mode === 'to a document' || mode === 'to a stream' || !head.get('content-type')!.includes('event-stream');
  return {
    write(chunk: Buffer) {
      given_bytes += chunk.length;
      refuse(chunk.includes('there') ? mode : undefined, 'write');
      if (mode === 'same') return chunk;
      if (!whole) return mode === 'text' ? chunk.toString('latin1').toUpperCase() : upper(chunk);
      kept.push(chunk);
      return '';
    },
    end() {
      refuse(mode, 'end');
      return upper(Buffer.concat(kept));
    },
    ...(mode?.startsWith('own words') && {
      fail(error: StageError) {
        if (mode.endsWith('broken')) throw new TypeError('broken in fail');
        return `event: own\ndata: ${error.code}\n\n`;
      },
    }),
  };
}

const upper = (bytes: Buffer): Buffer => bytes.map((byte) => (byte > 96 && byte < 123 ? byte - 32 : byte)) as Buffer;

const capitals = defineStage({
  name: 'capitals',
  version: 1,
  summary: 'Converts responses as the request says.',
  options: { type: 'object', properties: {}, additionalProperties: false },
  examples: [],
  raises: ['upstream_invalid'],
  needs: ['convert-response'],
  create: () => ({
    request(ctx) {
      const mode = ctx.headers['x-convert'] as string | undefined;
      ctx.convertResponse((head) => converterFor(mode, head));
      if (mode === 'twice') ctx.convertResponse(() => undefined);
      return undefined;
    },
    response: (_ctx, head) => head.set('x-seen-length', head.get('content-length') ?? 'none'),
  }),
});

const pipelines = forwardingPipelines({
  messages: { path: '/v1/messages', entry: 'stage: capitals' },
  limited: { path: '/limited', entry: '{ stage: capitals, timeout_seconds: 30 }' },
});
const upstream = useUpstream();
const gateway = use(() => {
  const config = { pipelines, server: serverSection({ timeouts: { commit_seconds: 0 } }) };
  return bootGateway({ upstream_url: upstream.url, config, stages: [capitals] });
});

const convert = (mode = 'plainly', more: object = {}): Promise<Response> =>
  ask(gateway.url, gateway.token, more, ['x-convert', mode, 'accept-encoding', 'gzip']);

const rowOf = (response: Response) => ledgerRow(gateway.database, String(response.headers['x-gateway-request-id']));

async function assertMetered(response: Response): Promise<void> {
  const { input_tokens, output_tokens } = await rowOf(response);
  assert.deepEqual([input_tokens, output_tokens], [100, 40]);
}

/** A stream that sends these events and then loses its connection in the middle of another. */
function breakOff(events: readonly string[]) {
  upstream.script = ({ res, socket }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(`${events.join('')}event: content_block_delta\ndata: {"ty`, () => setImmediate(() => socket.destroy()));
  };
}

const DOCUMENT = JSON.stringify(message());
const EVENTS = messageEvents();
const STREAM = EVENTS.join('');

describe('a converted document', () => {
  test("has its own length, and the upstream's bytes are metered", async () => {
    const response = await convert();
    assert.equal(response.text, DOCUMENT.toUpperCase());
    assert.equal(response.headers['content-length'], String(DOCUMENT.length));
    assert.equal(response.headers['x-seen-length'], String(DOCUMENT.length), 'response hooks saw the head first');
    await assertMetered(response);
  });

  test('that arrived compressed is converted and declares no encoding', async () => {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    upstream.script = answerBytes(200, headers, zlib.gzipSync(DOCUMENT));
    const response = await convert();
    assert.equal(response.text, DOCUMENT.toUpperCase());
    assert.equal(response.headers['content-encoding'], undefined);
    await assertMetered(response);
  });

  test('with an unknown encoding is an error of the upstream', async () => {
    upstream.script = answerBytes(200, { 'content-type': 'application/json', 'content-encoding': 'odd' }, DOCUMENT);
    const response = await convert();
    assert.equal(response.status, 502);
    assert.equal(response.json().error.code, 'upstream_invalid');
  });

  for (const [what, bytes] of [
    ['broken', Buffer.from('not gzip')],
    ['cut', zlib.gzipSync(DOCUMENT).subarray(0, 40)],
  ] as const) {
    test(`whose compression is ${what} is an error of the upstream`, async () => {
      upstream.script = answerBytes(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }, bytes);
      const response = await convert();
      assert.equal(response.status, 502, response.text);
      assert.equal(response.json().error.code, 'upstream_invalid');
      await nothingReserved(gateway.database);
    });
  }

  for (const moment of ['make', 'end']) {
    test(`rejected in ${moment} is a response with its own status, and is metered`, async () => {
      upstream.script = answerJson(message(), 200, { 'x-of-upstream': 'yes' });
      const response = await convert(`refuses in ${moment}`);
      assert.equal(response.status, 502);
      assert.deepEqual(response.json().error.message, `refused in ${moment}`);
      assert.equal(response.headers['x-of-upstream'], undefined);
      if (moment === 'end') await assertMetered(response);
      await nothingReserved(gateway.database);
    });

    test(`whose converter breaks in ${moment} is a failure of its stage`, async () => {
      const response = await convert(`breaks in ${moment}`);
      assert.equal(response.status, 500);
      assert.equal(response.json().error.code, 'stage_failed');
      assert.equal(response.json().error.stage, 'capitals');
      assert.doesNotMatch(response.text, /broken in/);
    });
  }

  test('stays unchanged when the stage needs no converter after all, also under a time limit', async () => {
    const response = await convert('nothing');
    assert.deepEqual([response.text, response.headers['content-length']], [DOCUMENT, String(DOCUMENT.length)]);
    const limited = await send(gateway.url, { path: '/limited', headers: bearer(gateway.token), body: messagesBody() });
    assert.equal(limited.text, DOCUMENT.toUpperCase());
  });

  test('is converted by one: a second converter is rejected', async () => {
    assert.equal((await convert('twice')).json().error.code, 'stage_failed');
    assert.equal(upstream.requests.length, 0);
  });

  test('can become a stream, and a stream a document', async () => {
    const streamed = await convert('to a stream');
    assert.equal(streamed.headers['content-type'], 'text/event-stream');
    assert.equal(streamed.text, DOCUMENT.toUpperCase());
    upstream.script = answerChunks(EVENTS);
    const collected = await convert('to a document');
    assert.equal(collected.text, STREAM.toUpperCase());
    assert.equal(collected.headers['content-length'], String(STREAM.length));
    await assertMetered(collected);
  });
});

describe('a converted stream', () => {
  test('is converted event by event, on arrival, after a head at once', async () => {
    const written: string[] = [];
    let received = '';
    upstream.script = async ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.flushHeaders();
      await until('the client has the head', () => headed);
      for (const event of EVENTS) {
        written.push(event);
        res.write(event);
        await until('the client has the event', () => received === written.join('').toUpperCase());
      }
      res.end();
    };
    let headed = false;
    const headers = bearer(gateway.token, ['x-convert', 'plainly']);
    const response = await open(gateway.url, { headers, body: messagesBody({ stream: true }) }).head;
    headed = true;
    for await (const chunk of response) received += chunk;
    assert.equal(received, STREAM.toUpperCase());
  });

  test('is the same however the upstream cut and compressed it, and metered', async () => {
    const cut = fc.array(fc.nat({ max: 5000 }), { maxLength: 8 });
    const check = async (at: number[], compressed: boolean, mode: string) => {
      const bytes = compressed ? zlib.gzipSync(STREAM) : Buffer.from(STREAM);
      const marks = [...new Set(at.map((mark) => mark % bytes.length))].sort((a, b) => a - b);
      const chunks = [0, ...marks].map((start, i) => bytes.subarray(start, marks[i] ?? bytes.length));
      const encoding = compressed ? ['content-encoding', 'gzip'] : [];
      upstream.script = answerChunks(chunks, ['content-type', 'text/event-stream', ...encoding]);
      const response = await convert(mode, { stream: true });
      assert.equal(response.text, STREAM.toUpperCase());
      await assertMetered(response);
    };
    await fc.assert(fc.asyncProperty(cut, fc.boolean(), fc.constantFrom('text', 'bytes'), check), {
      numRuns: times(6),
    });
  });

  test('rejected by the converter ends with one error event after whole events, and closes the upstream', async () => {
    given_bytes = 0;
    upstream.script = async ({ res }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(EVENTS.slice(0, 4).join(''));
      await until('the converter has the first events', () => given_bytes > 0);
      res.write(EVENTS.slice(4, 5).join(''));
    };
    const response = await convert('refuses in write', { stream: true });
    assert.ok(response.text.startsWith(EVENTS.slice(0, 4).join('').toUpperCase()));
    const last = response.text.slice(EVENTS.slice(0, 4).join('').length);
    assert.match(last, /^event: error\ndata: \{"type":"error",.*"refused in write".*\}\n\n$/);
    await until('the upstream request is cancelled', () => upstream.only().cancelled);
    assert.equal((await rowOf(response)).input_tokens, 100);
    await nothingReserved(gateway.database);
  });

  test("that is truncated ends in the format of its converter, or the engine's when this one fails", async () => {
    breakOff(EVENTS.slice(0, 4));
    const whole = EVENTS.slice(0, 4).join('').toUpperCase();
    const own = await convert('own words', { stream: true });
    assert.equal(own.text, `${whole}event: own\ndata: upstream_failed\n\n`);
    const broken = await convert('own words, broken', { stream: true });
    assert.ok(broken.text.startsWith(`${whole}event: error\ndata: {`), broken.text);
    await nothingReserved(gateway.database);
  });

  test('is not converted ahead of a client that does not read, despite any compression', async () => {
    const bytes = zlib.gzipSync(`data: ${'x'.repeat(1000)}\n\n`.repeat(32_000));
    upstream.script = answerChunks([bytes], [...EVENT_STREAM, 'content-encoding', 'gzip']);
    given_bytes = 0;
    const headers = bearer(gateway.token, ['x-convert', 'same']);
    const asked = open(gateway.url, { headers, body: messagesBody({ stream: true }) });
    const response = await asked.head;
    response.pause();
    let seen = -1;
    let still = 0;
    await until('the converter rests', () => {
      still = given_bytes === seen ? still + 1 : 0;
      seen = given_bytes;
      return seen > 0 && still > 20;
    });
    assert.ok(given_bytes < 20_000_000, `${given_bytes} bytes were converted`);
    let size = 0;
    for await (const chunk of response) size += (chunk as Buffer).length;
    assert.equal(size, 32_000 * 1008);
  });
});
