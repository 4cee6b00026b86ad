import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { WholeEvents } from '../../engine/base/kit/net/whole-events.ts';

const MIB = 1024 * 1024;

function collecting() {
  const sent: (Buffer | string)[] = [];
  const text = () => Buffer.concat(sent.map((bytes) => Buffer.from(bytes))).toString();
  return { sent, text, events: new WholeEvents((bytes) => void sent.push(bytes)) };
}

const line = fc.oneof(
  fc.constantFrom('data: x', 'event: message_stop', ': a comment', 'id: 7', 'data:', 'data: {"text":"\\n\\n"}'),
  fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
);
const block = fc.array(line, { minLength: 1, maxLength: 4 });
const line_end = fc.constantFrom('\n', '\r\n', '\r');
const stream = fc.record({ blocks: fc.array(block, { maxLength: 6 }), tail: fc.option(block), eol: line_end });

/** Places where bytes are cut, also inside a character. */
const cuts = fc.array(fc.nat(), { maxLength: 12 });

function pieces(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => bytes.subarray(start, at[i] ?? bytes.length));
}

/** A stream's text, and the lengths of it that end with a whole event. */
function write({ blocks, tail, eol }: { blocks: string[][]; tail: string[] | null; eol: string }) {
  const whole = [0];
  let text = '';
  for (const lines of blocks) {
    text += `${lines.join(eol)}${eol}${eol}`;
    whole.push(Buffer.byteLength(text));
  }
  return { text: text + (tail?.join(eol) ?? ''), whole };
}

describe('whole events', () => {
  test('are sent as soon as their blank line has arrived, without any byte of the next, and all of them in the end', () => {
    fc.assert(
      fc.property(stream, cuts, (input, at) => {
        const { text, whole } = write(input);
        const { events, sent, text: out } = collecting();
        let arrived = 0;
        for (const chunk of pieces(Buffer.from(text), at)) {
          events.push(chunk);
          arrived += chunk.length;
          const through = sent.reduce((size, bytes) => size + bytes.length, 0);
          const complete = whole.findLast((length) => length <= arrived)!;
          assert.equal(through, complete, `${arrived} bytes of ${JSON.stringify(text)}`);
          assert.equal(events.inside, false);
        }
        const last = Buffer.from(text).subarray(whole.at(-2) ?? 0, whole.at(-1));
        assert.ok(events.latest.endsWith(last.toString()), JSON.stringify([events.latest, last]));
        events.end();
        assert.equal(out(), text);
      }),
    );
  });

  test('that end with a chunk are sent as that chunk, without a copy', () => {
    const { events, sent } = collecting();
    const chunk = Buffer.from('data: 1\n\ndata: 2\n\n');
    events.push(chunk);
    assert.equal(sent[0], chunk);
  });

  test('longer than 1 MiB pass through unbuffered, until the next one begins', () => {
    const { events, sent, text } = collecting();
    const half = Buffer.alloc(MIB / 2, 'x');
    events.push(half);
    events.push(half);
    assert.equal(sent.length, 0);
    events.push(Buffer.from('y'));
    assert.equal(text().length, MIB + 1);
    assert.equal(events.inside, true);
    events.push(Buffer.from('z'));
    assert.equal(text().length, MIB + 2);
    events.push(Buffer.from('\n\ndata: next'));
    assert.equal(events.inside, false);
    assert.ok(text().endsWith('xyz\n\n'));
  });

  test('in strings and in bytes keep their order', () => {
    const { events, text } = collecting();
    events.pushText('data: 1\n\n');
    events.push(Buffer.from('data: 2'));
    events.pushText('\n\ndata: 3\n\n');
    events.pushText('data: 4');
    assert.equal(text(), 'data: 1\n\ndata: 2\n\ndata: 3\n\n');
    events.end();
    assert.equal(text(), 'data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4');
  });
});
