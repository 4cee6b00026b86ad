import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { type HoldOptions, holdBeginning } from '../../../engine/upstreams/attempts/hold.ts';
import { times } from '../../support/times.ts';

const ENCODERS = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => zlib.gzipSync(bytes),
  deflate: (bytes: Buffer) => zlib.deflateSync(bytes),
  'deflate, raw': (bytes: Buffer) => zlib.deflateRawSync(bytes),
  br: (bytes: Buffer) => zlib.brotliCompressSync(bytes),
  zstd: (bytes: Buffer) => zlib.zstdCompressSync(bytes),
} as const;

function responseOf(chunks: readonly Buffer[], encoding = 'identity'): IncomingMessage {
  const headers = {
    'content-type': 'text/event-stream',
    ...(encoding !== 'identity' && { 'content-encoding': encoding.replace(', raw', '') }),
  };
  return Object.assign(Readable.from(chunks, { objectMode: false }), { headers }) as unknown as IncomingMessage;
}

function hold(response: IncomingMessage, more: Partial<HoldOptions> = {}) {
  const clock = frozenClock(0);
  const bounds = { silence_seconds: 60, seconds: 15, greeting_seconds: 2, bytes_max: 262_144, events_max: 64 };
  const holding = holdBeginning(response, { until: 'event', clock, ...bounds, ...more });
  return { clock, holding, beginning: holding.beginning };
}

async function rest(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends]
    .map((start, i) => bytes.subarray(start, ends[i] ?? bytes.length))
    .filter(({ length }) => length > 0);
}

const STREAM =
  ': hello\n\nevent: ping\ndata: {}\n\nevent: message_start\ndata: {"type":"message_start","é":"🙂"}\n\ndata: more\n\n';

describe('the beginning of an answer', () => {
  test('ends with the first event that says something, however it is cut and compressed, and no byte is lost', async () => {
    const encodings = fc.constantFrom(...(Object.keys(ENCODERS) as (keyof typeof ENCODERS)[]));
    const text = fc.constantFrom(STREAM, STREAM.replaceAll('\n', '\r\n'), STREAM.replaceAll('\n', '\r'));
    await fc.assert(
      fc.asyncProperty(encodings, text, fc.array(fc.nat(), { maxLength: 12 }), async (encoding, stream, places) => {
        const bytes = ENCODERS[encoding](Buffer.from(stream));
        const response = responseOf(cut(bytes, places), encoding);
        const { chunks, by, event } = await hold(response).beginning;
        assert.equal(by, 'complete');
        assert.deepEqual(event, { name: 'message_start', data: '{"type":"message_start","é":"🙂"}' });
        assert.deepEqual(Buffer.concat([...chunks, await rest(response)]), bytes);
      }),
      { numRuns: times(100) },
    );
  });

  test('is all there is where the answer ends before an event', async () => {
    const { chunks, by, event } = await hold(responseOf([Buffer.from(': wait\n\n')])).beginning;
    assert.deepEqual([Buffer.concat([...chunks]).toString(), by, event], [': wait\n\n', 'ended', undefined]);
    assert.equal((await hold(responseOf([])).beginning).by, 'ended');
  });

  test('is passed on when it is not read to be an event: too long, compressed wrongly or in an unknown way', async () => {
    const long = [Buffer.from('data: '), Buffer.alloc(300_000, 'x')];
    assert.equal((await hold(responseOf(long)).beginning).by, 'enough');
    assert.equal((await hold(responseOf([Buffer.from('no gzip')], 'gzip')).beginning).by, 'enough');
    assert.equal((await hold(responseOf([Buffer.from(STREAM)], 'snappy')).beginning).by, 'enough');
  });

  test('tells silence from an upstream that is at work', async () => {
    const quiet = () => Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage;
    const silent = hold(quiet(), { silence_seconds: 10 });
    silent.clock.advance(10_000);
    assert.equal((await silent.beginning).by, 'silent');
    const at_work = hold(quiet(), { silence_seconds: 60, seconds: 15 });
    at_work.clock.advance(15_000);
    assert.equal((await at_work.beginning).by, 'enough');
  });

  test('waits for content no longer than 2 seconds after a greeting', async () => {
    const response = Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage &
      Readable;
    const greeted = hold(response, { until: 'content' });
    greeted.clock.advance(14_000);
    response.push('data: {"type":"response.created"}\n\n');
    await new Promise(setImmediate);
    greeted.clock.advance(500);
    response.push('data: {"type":"response.in_progress"}\n\n');
    await new Promise(setImmediate);
    greeted.clock.advance(500);
    assert.equal((await greeted.beginning).by, 'enough', 'and not longer than 15 in all');
    const second = Object.assign(new Readable({ read() {} }), { headers: {} }) as unknown as IncomingMessage & Readable;
    const soon = hold(second, { until: 'content' });
    second.push('data: {"type":"response.created"}\n\n');
    await new Promise(setImmediate);
    soon.clock.advance(2000);
    assert.equal((await soon.beginning).by, 'enough');
  });

  test('goes past greetings where content is waited for, as far as that is allowed', async () => {
    const greetings = ['message_start', 'response.created'].map((type) => `data: {"type":"${type}"}\n\n`).join('');
    const chat = 'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n';
    const said = 'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n';
    const found = await hold(responseOf([Buffer.from(greetings + chat + said)]), { until: 'content' }).beginning;
    assert.equal(found.event?.data, said.slice('data: '.length).trim());
    const failed = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n';
    const error = await hold(responseOf([Buffer.from(greetings + failed)]), { until: 'content' }).beginning;
    assert.equal(error.event?.name, 'error');
    const many = await hold(responseOf([Buffer.from(chat.repeat(70))]), { until: 'content' }).beginning;
    assert.equal(many.by, 'enough');
  });
});
