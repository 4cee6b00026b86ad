/** Usage that APIs beside those for models tell, in the shapes they are known to have, and in none. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readOtherUsage } from '../../engine/protocols/usage/other-usage.ts';
import { newUsageReading } from '../../engine/protocols/usage/reading.ts';

function told(usage: unknown, name?: string) {
  const reading = newUsageReading();
  readOtherUsage(reading, { name, data: JSON.stringify({ usage }) });
  const { input_tokens, output_tokens } = reading.reported;
  return reading.seen ? [input_tokens, output_tokens] : undefined;
}

describe('usage of other APIs', () => {
  it('is read in the shapes of embeddings, images and transcriptions, whole or in events', () => {
    assert.deepEqual(told({ prompt_tokens: 8, total_tokens: 8 }), [8, 0]);
    assert.deepEqual(told({ prompt_tokens: 8 }), [8, 0]);
    assert.deepEqual(told({ total_tokens: 8 }), [8, 0]);
    assert.deepEqual(told({ input_tokens: 50, output_tokens: 10, total_tokens: 60 }), [50, 10]);
    assert.deepEqual(told({ prompt_tokens: 8, total_tokens: 12 }), [8, 4]);
    assert.deepEqual(told({ input_tokens: 5, output_tokens: 1 }, 'transcript.text.done'), [5, 1]);
  });

  it('tells how much of a recording there was in it', () => {
    const reading = newUsageReading();
    const details = { text_tokens: 10, audio_tokens: 40 };
    const usage = {
      type: 'tokens',
      input_tokens: 50,
      input_token_details: details,
      output_tokens: 5,
      total_tokens: 55,
    };
    readOtherUsage(reading, { name: undefined, data: JSON.stringify({ usage }) });
    assert.deepEqual(reading.reported, { input_tokens: 50, audio_input_tokens: 40, output_tokens: 5 });
  });

  it('is unknown where it is told in another unit, not at all, or cannot be right', () => {
    for (const usage of [
      undefined,
      null,
      'much',
      { type: 'duration', seconds: 3 },
      { output_tokens: 5 },
      { input_tokens: 5, output_tokens: 5, cache_creation_input_tokens: 1000 },
      { input_tokens: -1 },
      { input_tokens: 1.5 },
      { input_tokens: 1e12 },
      { prompt_tokens: 9, total_tokens: 3 },
      { prompt_tokens: 9, completion_tokens: -1000 },
      { prompt_tokens: 9, completion_tokens: 'many' },
    ]) {
      assert.equal(told(usage), undefined, JSON.stringify(usage));
    }
  });

  it('is never a number below zero, whatever is told', () => {
    const number = fc.option(fc.oneof(fc.integer(), fc.double(), fc.string()), { nil: undefined });
    const usage = fc.record({ prompt_tokens: number, completion_tokens: number, total_tokens: number });
    fc.assert(
      fc.property(usage, (said) => {
        const tokens = told(said);
        assert.ok(tokens === undefined || tokens.every((count) => Number.isInteger(count) && count! >= 0));
      }),
    );
  });

  it('of something that is no JSON is unknown', () => {
    const reading = newUsageReading();
    for (const data of ['', 'ID3', '[1]', '{"usage":'] as const) readOtherUsage(reading, { name: undefined, data });
    assert.equal(reading.seen, false);
  });
});
