/** Responses are cut at stop sequences that their upstream does not support. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type { ModelEvent } from '../../../engine/domain/protocols/translation/conversation.ts';
import { StopCutter, stopsToCut, tooManyToCut } from '../../../engine/domain/protocols/translation/stop-sequences.ts';
import { times } from '../../support/times.ts';

function cut(stops: readonly string[], events: readonly ModelEvent[], one_text = false): ModelEvent[] {
  const cutter = new StopCutter(stops, one_text);
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

/** The output of a model that supports its stop sequences: up to the first complete one, the longest of several. */
function expected(text: string, stops: readonly string[]): [said: string, stop: string | undefined] {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((one) => text.slice(0, end).endsWith(one)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return [text.slice(0, end - found.length), found];
  }
  return [text, undefined];
}

describe('a text', () => {
  it('ends before the first complete sequence, in any pieces', () => {
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
      { numRuns: times(100) },
    );
  });

  it('is not looked through for more than a bounded number of characters', () => {
    assert.equal(tooManyToCut(Array(64).fill('x'.repeat(256))), false);
    assert.equal(tooManyToCut(Array(65).fill('x')), true);
    assert.equal(tooManyToCut(['x'.repeat(16_385)]), true);
  });

  it('arrives at once except for a possible beginning of a sequence', () => {
    const cutter = new StopCutter(['\n\nHuman:'], false);
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

  it('that is cut after a thought ends there: the sequence itself is omitted', () => {
    const events = [start(0, 'reasoning'), delta('hm'), stop(), start(1), delta('aENDb', 1), stop(1), END];
    for (const one_text of [false, true]) {
      assert.deepEqual(cut(['END'], events, one_text).slice(3), [
        start(1),
        delta('a', 1),
        stop(1),
        { ...END, reason: 'stop_sequence', stop_sequence: 'END' },
      ]);
    }
  });

  it('is searched alone: thoughts and arguments pass unchanged', () => {
    const events = [start(0, 'reasoning'), delta('END'), stop(), start(1), delta('a EN', 1), stop(1), END];
    assert.equal(said(cut(['END'], events)), 'ENDa EN');
  });
});

describe('texts that follow one another', () => {
  /** Each text by itself, or all open at once; their pieces in the order given. */
  const says = (texts: readonly string[][], at_once: boolean): ModelEvent[] => [
    ...(at_once ? texts.map((_, index) => start(index)) : []),
    ...texts.flatMap((pieces, index) => [
      ...(at_once ? [] : [start(index)]),
      ...pieces.map((piece) => delta(piece, index)),
      stop(index),
    ]),
    END,
  ];

  it('are searched as one, and notes belong to the text with the match', () => {
    const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 }), { maxLength: 3 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 5 }), {
      minLength: 1,
      maxLength: 3,
    });
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 6 }), stops, fc.boolean(), (texts, sequences, at_once) => {
        const left = cut(sequences, says(texts, at_once));
        const whole = texts.flat().join('');
        const [text, found] = expected(whole, sequences);
        assert.equal(said(left), text);
        const end = found === undefined ? END : { ...END, reason: 'stop_sequence', stop_sequence: found };
        assert.deepEqual(left.at(-1), end);
        let begun = 0;
        for (const [index, own] of texts.map((all) => all.join('')).entries()) {
          const of = left.filter((event) => 'index' in event && event.index === index);
          assert.equal(said(of), own.slice(0, Math.max(0, text.length - begun)));
          begun += own.length;
          if (of.length > 0) assert.deepEqual([of[0]!.type, of.at(-1)!.type], ['part_start', 'part_end']);
          assert.ok(of.filter(({ type }) => type !== 'part_delta').length <= 2);
        }
      }),
      { numRuns: times(100) },
    );
  });

  it('are apart with other content between them, but not for clients that get all texts as one', () => {
    const call: ModelEvent = { type: 'part_start', index: 1, part: { kind: 'tool_call', id: 'c', name: 'f' } };
    const events = [
      start(0),
      delta('a EN'),
      stop(),
      call,
      delta('{}', 1),
      stop(1),
      start(2),
      delta('D b', 2),
      stop(2),
      END,
    ];
    const apart = cut(['END'], events);
    assert.deepEqual([said(apart), apart.at(-1)], ['a EN{}D b', END]);
    const order = apart.flatMap((event) => (event.type === 'part_delta' ? [] : [event.type]));
    assert.deepEqual(order, ['part_start', 'part_end', 'part_start', 'part_end', 'part_start', 'part_end', 'end']);
    const left = cut(['END'], events, true);
    assert.equal(said(left), 'a {}');
    assert.deepEqual(left.at(-1), { ...END, reason: 'stop_sequence', stop_sequence: 'END' });
  });
});

describe('sequences are cut at by the gateway', () => {
  it('where the upstream supports none, fewer, or rejects them', () => {
    const five = ['a', 'b', 'c', 'd', 'e'];
    assert.deepEqual(stopsToCut(DEFINITIONS.responses.accepted, ['a', '']), ['a']);
    assert.deepEqual(stopsToCut(DEFINITIONS.chat.accepted, five), five);
    assert.deepEqual(stopsToCut(DEFINITIONS.chat.accepted, five.slice(1)), []);
    assert.deepEqual(stopsToCut(DEFINITIONS.messages.accepted, ['a', '\n']), ['\n']);
    assert.deepEqual(stopsToCut(DEFINITIONS.responses.accepted, undefined), []);
  });
});
