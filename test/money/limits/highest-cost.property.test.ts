import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { highestCost } from '../../../engine/money/limits/highest-cost.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { createModelCatalog } from '../../../engine/upstreams/models.ts';
import { times } from '../../support/times.ts';

const price = fc.integer({ min: 0, max: 100_000 }).map((thousandths) => thousandths / 1000);
const prices = fc.record(
  {
    ...{ input: price, output: price, cache_read: price, cache_write_5m: price, cache_write_1h: price },
    ...{ audio_input: price, audio_output: price },
  },
  { requiredKeys: ['input', 'output'] },
);
const tier = fc
  .tuple(fc.integer({ min: 1, max: 300_000 }), prices)
  .map(([above_input_tokens, tokens]) => ({ above_input_tokens, ...tokens }));
const pricing = fc
  .tuple(prices, fc.option(tier, { nil: undefined }), price)
  .map(([tokens, long_context, web_search]) => ({
    ...tokens,
    ...(long_context && { long_context }),
    server_tools: { web_search },
  }));
const share = fc.integer({ min: 0, max: 100 }).map((percent) => percent / 100);
/** Shares of what the request can use at most that it uses. */
const shares = fc.record({
  total: share,
  cuts: fc.tuple(...Array.from({ length: 3 }, () => share)),
  output: share,
  tools: share,
  heard: share,
  spoken: share,
});

it('no usage within the bounds of a request costs more than the most it is found to cost', () => {
  const bounds = fc.record({
    input: fc.integer({ min: 0, max: 500_000 }),
    output: fc.integer({ min: 0, max: 100_000 }),
    uses: fc.integer({ min: 0, max: 50 }),
    cache_ttl: fc.constantFrom('none', '5m', '1h'),
    audio: fc.record({ input: fc.boolean(), output: fc.boolean() }),
    price_multiplier: fc.constantFrom(1, 0.85, 0.333, 3),
  });
  fc.assert(
    fc.property(
      pricing,
      bounds,
      shares,
      (priced, { input, output, uses, cache_ttl, audio, price_multiplier }, used) => {
        const config = stageConfig();
        const [model] = config.models;
        const models = createModelCatalog({
          ...config,
          upstreams: config.upstreams.map((upstream) => ({ ...upstream, price_multiplier })),
          models: [{ ...model!, pricing: priced }],
        });
        const [own] = models.all;
        const route = { upstream: config.upstreams[0]!.name, at: 0 };
        const most = { input, output, cache_ttl, audio, server_tools: { web_search: uses } };

        const total = Math.floor(used.total * input);
        const [a = 0, b = 0, c = 0] = used.cuts.map((cut) => Math.floor(cut * total)).toSorted((x, y) => x - y);
        const parts = [a, b - a, c - b, total - c];
        const cost = models.cost(
          own!,
          {
            input: parts[0]! + (cache_ttl === 'none' ? parts[2]! : 0) + (cache_ttl === '1h' ? 0 : parts[3]!),
            cache_read: parts[1]!,
            cache_write_5m: cache_ttl === 'none' ? 0 : parts[2]!,
            cache_write_1h: cache_ttl === '1h' ? parts[3]! : 0,
            output: Math.floor(used.output * output),
            audio: {
              input: audio.input ? Math.floor(used.heard * parts[0]!) : 0,
              output: audio.output ? Math.floor(used.spoken * used.output * output) : 0,
            },
            server_tools: { web_search: Math.floor(used.tools * uses) },
          },
          route,
        );
        assert.ok(cost <= highestCost(models, own!, most, route), `${cost}`);
      },
    ),
    { numRuns: times(2000) },
  );
});
