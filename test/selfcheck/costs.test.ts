import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { SelfCheck } from '../../engine/selfcheck/check.ts';
import { costOf, planCosts, toldPrice } from '../../engine/selfcheck/costs.ts';
import { times } from '../support/times.ts';

const check = (uses: SelfCheck['uses']): SelfCheck => ({
  id: 'messages.json',
  title: 'An answer',
  expected: 'a message',
  ...(uses && { uses }),
  run: async () => ({ verdict: 'ok', found: 'it' }),
});

test('checks that are made never pass what may be spent, and each that is not would have', () => {
  const tokens = fc.option(fc.record({ input: fc.nat(100_000), output: fc.nat(10_000) }), { nil: undefined });
  const usd = fc.double({ min: 0, max: 100, noNaN: true });
  fc.assert(
    fc.property(fc.array(tokens), usd, usd, usd, (uses, input_usd_per_million, output_usd_per_million, max_usd) => {
      const checks = uses.map(check);
      const price = { input_usd_per_million, output_usd_per_million };
      const budget = planCosts(checks, price, max_usd);
      assert.ok(budget.usd <= max_usd);
      const made = checks.filter((each) => !budget.too_dear.has(each) && each.uses !== undefined);
      assert.equal(
        budget.input_tokens,
        made.reduce((sum, each) => sum + each.uses!.input, 0),
      );
      assert.equal(budget.requests, made.length);
      for (const each of budget.too_dear.keys()) assert.ok(budget.usd + costOf(each.uses!, price) > max_usd);
    }),
    { numRuns: times(100) },
  );
});

test('the price of a token and that of a million are told apart, and what is no price is none', () => {
  const price = { input_usd_per_million: 3, output_usd_per_million: 15 };
  const rounded = (given: Record<string, unknown>) => {
    const told = toldPrice(given);
    return (
      told && {
        input_usd_per_million: Number(told.input_usd_per_million.toFixed(6)),
        output_usd_per_million: Number(told.output_usd_per_million.toFixed(6)),
      }
    );
  };
  assert.deepEqual(rounded({ pricing: { prompt: '0.000003', completion: '0.000015' } }), price);
  assert.deepEqual(rounded({ pricing: { input: 3, output: 15 } }), price);
  assert.deepEqual(rounded({ input_cost_per_token: 3e-6, output_cost_per_token: 1.5e-5 }), price);
  for (const prompt of [-1, Number.NaN, Number.POSITIVE_INFINITY, '', ' ', 'free', null, {}, [3], 1e300]) {
    assert.equal(toldPrice({ pricing: { prompt, completion: '0.1' } }), undefined);
  }
  for (const pricing of [undefined, null, 'cheap', 7, [], { prompt: 1 }])
    assert.equal(toldPrice({ pricing }), undefined);
});
