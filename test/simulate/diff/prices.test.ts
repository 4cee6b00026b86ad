import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PricesConfig, PricingConfig } from '../../../engine/contract/config.ts';
import { diffPrices } from '../../../engine/simulate/diff/prices.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';

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
      'costs input 3 and output 15 USD per million tokens -> what the section prices or the catalogue says',
    ]);
    assert.deepEqual(changes(undefined, FLAT), [
      'costs what the section prices or the catalogue says -> input 3 and output 15 USD per million tokens',
    ]);
  });

  it('is told entry by entry for the section prices, in words', () => {
    const row = { models: ['coder-*'], from: '2027-01-01', pricing: FLAT, multiplier: 1 };
    const cheap = { models: ['coder-1', 'coder-2'], upstream: 'spare', until: '2027-02-01', multiplier: 0.85 };
    const tools = { models: ['x'], pricing: { ...FLAT, server_tools: { search: 10 } }, multiplier: 1 };
    const told = (before: PricesConfig | undefined, after: PricesConfig | undefined) =>
      diffPrices(
        stageConfig({ ...(before && { prices: before }) }),
        stageConfig({ ...(after && { prices: after }) }),
      ).map(({ subject, change }) => `${subject} ${change}`);
    assert.deepEqual(told({ rows: [row, cheap] }, { rows: [{ ...row, from: '2027-03-01' }, cheap] }), [
      'prices.rows is gone: coder-* from 2027-01-01: input 3, output 15 USD per million tokens',
      'prices.rows is new: coder-* from 2027-03-01: input 3, output 15 USD per million tokens',
    ]);
    assert.deepEqual(told(undefined, { unknown_model: { input: 15, output: 75 }, rows: [cheap, tools] }), [
      'prices.unknown_model nothing -> input 15, output 75 USD per million tokens',
      'prices.rows is new: coder-1, coder-2 at spare until 2027-02-01: the price of the model, times 0.85',
      'prices.rows is new: x: input 3, output 15 USD per million tokens; search 10 USD per 1,000 uses',
    ]);
    assert.deepEqual(told({ rows: [row, cheap] }, { rows: [cheap, row] }), [
      'prices.rows other order; the first entry that matches holds',
    ]);
    assert.deepEqual(told({ rows: [row] }, { rows: [row] }), []);
  });
});
