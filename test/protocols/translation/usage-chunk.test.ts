/** The extra chunk that tells usage is taken out of a stream of chat completions, and nothing else. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { withoutUsageChunk } from '../../../engine/protocols/translation/usage-chunk.ts';
import { times } from '../../support/times.ts';

const USAGE = { prompt_tokens: 10, completion_tokens: 7, total_tokens: 17 };

function chunk(value: object, end = '\n'): string {
  return `data: ${JSON.stringify({ object: 'chat.completion.chunk', ...value })}${end}${end}`;
}

function through(bytes: Buffer, sizes: readonly number[] = []): Buffer {
  const converter = withoutUsageChunk();
  const parts: (Buffer | string)[] = [];
  let at = 0;
  for (const size of sizes) {
    parts.push(Buffer.from(converter.write(bytes.subarray(at, at + size))));
    at += size;
  }
  if (at < bytes.length) parts.push(converter.write(bytes.subarray(at)));
  parts.push(converter.end());
  return Buffer.concat(parts.map((part) => Buffer.from(part)));
}

const text = (parts: readonly string[], sizes?: readonly number[]) =>
  through(Buffer.from(parts.join('')), sizes).toString();

describe('the chunk with usage', () => {
  const said = chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }], usage: null });
  const done = 'data: [DONE]\n\n';

  it('is taken out, wherever it stands', () => {
    const extra = chunk({ choices: [], usage: USAGE });
    assert.equal(text([said, extra, done]), said + done);
    assert.equal(text([extra, said, done]), said + done);
    assert.equal(text([said, done, extra]), said + done);
  });

  it('is recognised however it is spaced, and over several lines', () => {
    assert.equal(text([said, 'data: { "usage" : {"prompt_tokens":1}, "choices" : [ ] }\n\n', done]), said + done);
    assert.equal(text([said, 'data: {"choices":[],\ndata: "usage":{"prompt_tokens":1}}\n\n', done]), said + done);
    assert.equal(text([said, `event: x\nid: 1\n${chunk({ choices: [], usage: USAGE })}`, done]), said + done);
  });

  it('is taken out at the very end, even without its blank line', () => {
    assert.equal(text([said, chunk({ choices: [], usage: USAGE }).trimEnd()]), said);
  });

  it('stays when it says something else, too', () => {
    for (const kept of [
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE }),
      chunk({ choices: [], usage: null }),
      chunk({ choices: [], prompt_filter_results: [] }),
      chunk({ choices: [{ index: 0, delta: { content: '{"choices":[],"usage":{}}' } }] }),
      'data: {"choices":[],"usage":{broken}\n\n',
      ': "choices":[] "usage":{}\n\n',
      'data: null\n\ndata: ["choices":[]]\n\n',
    ]) {
      assert.equal(text([said, kept, done]), said + kept + done);
    }
  });
});

it('passes an event on as soon as it is complete, and holds what is not', () => {
  const converter = withoutUsageChunk();
  const said = chunk({ choices: [{ index: 0, delta: { content: 'Hi' } }] });
  assert.equal(String(converter.write(Buffer.from(said))), said);
  assert.equal(String(converter.write(Buffer.from(said.slice(0, 20)))), '');
  assert.equal(String(converter.write(Buffer.from(said.slice(20) + said))), said + said);
});

it('gives up on an event without end instead of filling memory', () => {
  const converter = withoutUsageChunk();
  const long = Buffer.alloc(1024 * 1024 + 1, 'x');
  assert.equal(converter.write(long).length, long.length);
  assert.equal(String(converter.write(Buffer.from('more'))), 'more');
  assert.equal(String(converter.end()), '');
});

it('looks at a long event in many pieces once, not for each of them', (t) => {
  const converter = withoutUsageChunk();
  const long = Buffer.from(chunk({ choices: [{ delta: { content: 'x'.repeat(100_000) } }] }));
  const concat = t.mock.method(Buffer, 'concat');
  let passed = 0;
  for (let i = 0; i < long.length; i += 40) passed += converter.write(long.subarray(i, i + 40)).length;
  const looked_at = concat.mock.calls.reduce((sum, { result }) => sum + result!.length, 0);
  assert.equal(passed, long.length);
  assert.ok(looked_at < 4 * long.length, `${looked_at} bytes`);
});

it('leaves every other byte, whatever the ends of lines and however the stream is cut', () => {
  const content = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('"choices":[]', '\n\n', '\r\n\r\n', 'usage'),
  );
  const end = fc.constantFrom('\n', '\r\n', '\r');
  const event = fc.oneof(
    fc.record({ kept: fc.constant(true), value: fc.record({ choices: fc.tuple(fc.record({ delta: content })) }) }),
    fc.record({ kept: fc.constant(true), value: fc.record({ choices: fc.constant([]), usage: fc.constant(null) }) }),
    fc.record({ kept: fc.constant(false), value: fc.constant({ choices: [], usage: USAGE }) }),
  );
  const stream = fc.tuple(end, fc.array(event), fc.boolean());
  fc.assert(
    fc.property(stream, fc.array(fc.integer({ min: 1, max: 60 })), ([line_end, events, done], sizes) => {
      const last = done ? [`data: [DONE]${line_end}${line_end}`] : [];
      const all = [...events.map(({ value }) => chunk(value, line_end)), ...last].join('');
      const wanted = [...events.filter(({ kept }) => kept).map(({ value }) => chunk(value, line_end)), ...last].join(
        '',
      );
      assert.equal(through(Buffer.from(all), sizes).toString(), wanted);
    }),
    { numRuns: times(150) },
  );
});
