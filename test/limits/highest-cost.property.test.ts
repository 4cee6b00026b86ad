import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { PricingConfig } from '../../engine/config.ts';
import { highestCost } from '../../engine/limits/highest-cost.ts';
import { createModelCatalog } from '../../engine/services/models.ts';
import { stageConfig } from '../../engine/testing/stage-harness.ts';

const price = fc.integer({ min: 0, max: 100_000 }).map((thousandths) => thousandths / 1000);
const tokenPrices = fc.record(
  { input: price, output: price, cache_read: price, cache_write_5m: price, cache_write_1h: price },
  { requiredKeys: ['input', 'output'] },
);
const pricing = fc
  .record({
    base: tokenPrices,
    long: fc.option(fc.record({ above_input_tokens: fc.integer({ min: 1, max: 2000 }), prices: tokenPrices })),
    search: fc.option(price),
  })
  .map(
    ({ base, long, search }): PricingConfig => ({
      ...base,
      ...(long && { long_context: { above_input_tokens: long.above_input_tokens, ...long.prices } }),
      ...(search !== null && { server_tools: { web_search: search } }),
    }),
  );

const bounds = fc.record({
  input: fc.nat(3000),
  output: fc.nat(3000),
  cache_ttl: fc.constantFrom('none', '5m', '1h'),
  searches: fc.nat(10),
});

/** A share of each bound, and how the input is divided. */
const shares = fc.tuple(...Array.from({ length: 7 }, () => fc.double({ min: 0, max: 1, noNaN: true })));

it('no use of a model within what was asked for costs more than the most it can cost', () => {
  fc.assert(
    fc.property(pricing, bounds, shares, (of_model, { searches, ...most }, share) => {
      const [model] = stageConfig().models;
      const priced = { ...model!, pricing: of_model };
      const models = createModelCatalog(stageConfig({ models: [priced] }));
      const route = { upstream: 'main', at: 0 };
      let left = Math.round(most.input * share[0]!);
      const part = (of: number) => {
        const tokens = Math.round(left * of);
        left -= tokens;
        return tokens;
      };
      const usage = {
        output: Math.round(most.output * share[1]!),
        cache_read: part(share[2]!),
        cache_write_5m: most.cache_ttl === 'none' ? 0 : part(share[3]!),
        cache_write_1h: most.cache_ttl === '1h' ? part(share[4]!) : 0,
        input: left,
        server_tools: { web_search: Math.round(searches * share[5]!), unknown: 3 },
      };
      const highest = highestCost(models, priced, { ...most, server_tools: { web_search: searches } }, route);
      assert.ok(models.cost(priced, usage, route) <= highest, JSON.stringify(usage));
    }),
    { numRuns: 2000 },
  );
});
