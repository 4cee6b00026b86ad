/** Answers are cut at stop sequences that their upstream cannot be told. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ModelEvent } from '../../engine/translation/events.ts';
import { StopCutter, stopsToCut, tooManyToCut } from '../../engine/translation/stop-sequences.ts';

function cut(stops: readonly string[], events: readonly ModelEvent[]): ModelEvent[] {
  const cutter = new StopCutter(stops);
  const left: ModelEvent[] = [];
  for (const event of events) cutter.take(event, (one) => left.push(one));
  return left;
}

const start = (index: number, kind: 'text' | 'reasoning' = 'text'): ModelEvent => ({
  type: 'part_start',
  index,
  part: { kind },
});
const delta = (text: string, index = 0): ModelEvent => ({ type: 'part_delta', index, text });
const stop = (index = 0): ModelEvent => ({ type: 'part_end', index });
const END: ModelEvent = { type: 'end', reason: 'finished', usage: { output: 9 } };

const said = (events: readonly ModelEvent[]): string =>
  events.map((event) => (event.type === 'part_delta' ? event.text : '')).join('');

/** What a model that knows its stop sequences would have said: up to the one that is complete first, the longest of several. */
function expected(text: string, stops: readonly string[]): [said: string, stop: string | undefined] {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((one) => text.slice(0, end).endsWith(one)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return [text.slice(0, end - found.length), found];
  }
  return [text, undefined];
}

describe('a text', () => {
  it('ends before the sequence that is complete first, in whatever pieces it comes', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 30 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), minLength: 1, maxLength: 4 }), {
      minLength: 1,
    });
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 5 }), stops, (pieces, sequences) => {
        const left = cut(sequences, [start(0), ...pieces.map((piece) => delta(piece)), stop(), END]);
        const [text, found] = expected(pieces.join(''), sequences);
        assert.equal(said(left), text);
        const end = found === undefined ? END : { ...END, reason: 'stop_sequence', stop_sequence: found };
        assert.deepEqual(left.at(-1), end);
        assert.equal(left.filter(({ type }) => type === 'part_end').length, 1);
      }),
      { numRuns: 300 },
    );
  });

  it('is looked through in time linear in its length, in whatever pieces it comes', () => {
    const sequence = `${'a'.repeat(100_000)}b`;
    const cutter = new StopCutter([sequence]);
    const left: ModelEvent[] = [];
    const take = (event: ModelEvent) => cutter.take(event, (one) => left.push(one));
    const started = performance.now();
    take(start(0));
    for (let i = 0; i < 100_000; i++) take(delta('a'));
    take(stop());
    const took = performance.now() - started;
    assert.equal(said(left).length, 100_000);
    assert.ok(took < 500, `${took} ms`);
  });

  it('is not looked through for more than a bounded number of characters', () => {
    assert.equal(tooManyToCut(Array(64).fill('x'.repeat(256))), false);
    assert.equal(tooManyToCut(Array(65).fill('x')), true);
    assert.equal(tooManyToCut(['x'.repeat(16_385)]), true);
  });

  it('comes at once as far as it cannot be the beginning of a sequence', () => {
    const cutter = new StopCutter(['\n\nHuman:']);
    const left: ModelEvent[] = [];
    const take = (event: ModelEvent) => cutter.take(event, (one) => left.push(one));
    take(start(0));
    take(delta('One.\n'));
    assert.equal(said(left), 'One.');
    take(delta('\nHu'));
    assert.equal(said(left), 'One.');
    take(delta('bris'));
    assert.equal(said(left), 'One.\n\nHubris');
  });

  it('that is cut is followed by nothing but the end and its usage, even where the upstream breaks off', () => {
    const call: ModelEvent = { type: 'part_start', index: 1, part: { kind: 'tool_call', id: 'c', name: 'f' } };
    const rest = [delta('more'), stop(), call, delta('{}', 1), stop(1)];
    const problem = { status: 500, message: 'x', context_overflow: false };
    const stopped = { reason: 'stop_sequence', stop_sequence: 'END' };
    const begun = [start(0), delta('a'), stop()];
    assert.deepEqual(cut(['END'], [start(0), delta('aEND b'), ...rest, END]), [...begun, { ...END, ...stopped }]);
    assert.deepEqual(cut(['END'], [start(0), delta('aEND'), ...rest, { type: 'error', problem }]), [
      ...begun,
      { type: 'end', ...stopped },
    ]);
  });

  it('is looked through alone: thoughts and arguments pass as they are', () => {
    const events = [start(0, 'reasoning'), delta('END'), stop(), start(1), delta('a EN', 1), stop(1), END];
    assert.equal(said(cut(['END'], events)), 'ENDa EN');
  });

  it('costs time in proportion to its length, whatever the sequences', () => {
    const text = 'a'.repeat(400_000);
    const stops = Array.from({ length: 16 }, (_, index) => `${'a'.repeat(20_000 + index)}b`);
    const started = process.cpuUsage();
    assert.equal(said(cut(stops, [start(0), delta(text), stop(), END])), text);
    const { user } = process.cpuUsage(started);
    assert.ok(user < 5_000_000, `${user} microseconds`);
  });
});

describe('sequences are cut at by the gateway', () => {
  it('where the upstream knows none, takes fewer, or refuses them', () => {
    const five = ['a', 'b', 'c', 'd', 'e'];
    assert.deepEqual(stopsToCut('responses', ['a', '']), ['a']);
    assert.deepEqual(stopsToCut('chat', five), five);
    assert.deepEqual(stopsToCut('chat', five.slice(1)), []);
    assert.deepEqual(stopsToCut('messages', ['a', '\n']), ['\n']);
    assert.deepEqual(stopsToCut('responses', undefined), []);
  });
});
