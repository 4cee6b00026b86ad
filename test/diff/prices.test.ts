import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PricingConfig } from '../../engine/config.ts';
import { diffPrices } from '../../engine/diff/models.ts';
import { stageConfig } from '../../engine/testing/stage-harness.ts';

function priced(pricing: PricingConfig | undefined) {
  const { pricing: _, ...model } = stageConfig().models[0]!;
  return stageConfig({ models: [{ ...model, ...(pricing && { pricing }) }] });
}

function changes(before: PricingConfig | undefined, after: PricingConfig | undefined): string[] {
  return diffPrices(priced(before), priced(after)).flatMap(({ change, details = [] }) => [change, ...details]);
}

const FLAT = { input: 3, output: 15 };

describe('what two configurations charge for a model', () => {
  it('is told for tokens of a long context and for tools', () => {
    const before = {
      ...FLAT,
      long_context: { above_input_tokens: 200_000, input: 6, output: 22 },
      server_tools: { a: 1 },
    };
    const after = {
      ...FLAT,
      long_context: { above_input_tokens: 200_000, input: 7, output: 22 },
      server_tools: { b: 2 },
    };
    assert.deepEqual(changes(before, before), []);
    assert.deepEqual(changes(before, after), [
      'long_context.input: 6 -> 7',
      'server_tools.a: 1 -> nothing',
      'server_tools.b: nothing -> 2',
    ]);
  });

  it('is told when a model leaves its price to the section prices', () => {
    assert.deepEqual(changes(undefined, undefined), []);
    assert.deepEqual(changes(FLAT, undefined), [
      'costs input 3 and output 15 USD per million tokens -> what the section prices says',
    ]);
    assert.deepEqual(changes(undefined, FLAT), [
      'costs what the section prices says -> input 3 and output 15 USD per million tokens',
    ]);
  });
});
