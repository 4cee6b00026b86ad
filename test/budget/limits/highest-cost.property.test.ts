import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, PricingConfig } from '../../../engine/base/contract/config.ts';
import { highestCost } from '../../../engine/domain/budget/limits/most-tokens.ts';
import { overshootBound } from '../../../engine/domain/budget/limits/overshoot.ts';
import { createModelCatalog } from '../../../engine/domain/upstreams/models.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';
import { times } from '../../support/times.ts';

const price = fc.integer({ min: 0, max: 100_000 }).map((thousandths) => thousandths / 1000);
const of_tokens = { input: price, output: price, cache_read: price, cache_write_5m: price, cache_write_1h: price };
/** Prices of tokens and maybe of a tier of long inputs, with more kinds of them. */
const pricingOf = (more: Record<string, typeof price>) => {
  const prices = fc.record({ ...of_tokens, ...more }, { requiredKeys: ['input', 'output'] });
  const tier = fc
    .tuple(fc.integer({ min: 1, max: 300_000 }), prices)
    .map(([above_input_tokens, tokens]) => ({ above_input_tokens, ...tokens }));
  return fc
    .tuple(prices, fc.option(tier, { nil: undefined }))
    .map(
      ([flat, long_context]): PricingConfig => ({ ...flat, ...(long_context && { long_context }) }) as PricingConfig,
    );
};
const pricing = fc
  .tuple(pricingOf({ audio_input: price, audio_output: price }), price)
  .map(([tokens, web_search]) => ({ ...tokens, server_tools: { web_search } }));
const flatOrTiered = pricingOf({});
const share = fc.integer({ min: 0, max: 100 }).map((percent) => percent / 100);
/** The used shares of a request's possible usage. */
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

/** No request can cost more than the bound that check prints allows a request that is alone. */

const multiplier = fc.integer({ min: 0, max: 300 }).map((hundredths) => hundredths / 100);
const DAYS = ['2026-01-01', '2026-06-01', '2027-01-01'] as const;
const row = fc
  .record({
    upstream: fc.option(fc.constantFrom('main', 'spare'), { nil: undefined }),
    from: fc.option(fc.constantFrom(...DAYS), { nil: undefined }),
    pricing: fc.option(flatOrTiered, { nil: undefined }),
    multiplier,
  })
  .map(({ upstream, from, pricing: own, multiplier: times }) => ({
    models: ['coder-*'],
    multiplier: times,
    ...(upstream && { upstream }),
    ...(from && { from }),
    ...(own && { pricing: own }),
  }));

const TYPICAL = spendLimitsSection({ defaults: { user_daily_usd: 0 }, reserve: 'typical', overshoot_percent: 0 });

const configuration = fc
  .record({
    own: flatOrTiered,
    context_window: fc.integer({ min: 1, max: 400_000 }),
    max_output_tokens: fc.integer({ min: 1, max: 400_000 }),
    contract: multiplier,
    rows: fc.array(row, { maxLength: 3 }),
  })
  .map(({ own, context_window, max_output_tokens, contract, rows }): GatewayConfig => {
    const { upstreams, models } = stageConfig();
    return stageConfig({
      upstreams: upstreams.map((upstream) => ({ ...upstream, price_multiplier: contract })),
      models: [{ ...models[0]!, context_window, max_output_tokens, pricing: own }],
      prices: { rows },
      spend_limits: TYPICAL,
    });
  });

const request = fc.record({
  input: fc.nat(1_000_000),
  output: fc.nat(1_000_000),
  cache_ttl: fc.constantFrom('none', '5m', '1h'),
  upstream: fc.constantFrom('main', 'spare'),
  at: fc.constantFrom(...DAYS.map((day) => Date.parse(day)), 0, Date.parse('2030-01-01')),
});

it('no request costs more than the bound of a limit whose share is nothing', () => {
  fc.assert(
    fc.property(configuration, fc.array(request, { minLength: 1, maxLength: 5 }), (config, requests) => {
      const { bound_nano_usd } = overshootBound(config, []);
      const models = createModelCatalog(config);
      const [model] = config.models;
      const { context_window, max_output_tokens } = model!;
      for (const { input, output, cache_ttl, ...route } of requests) {
        // The maximum reservation of check-budget.
        const most = {
          input: Math.min(input, context_window),
          output: Math.min(output, Math.max(context_window, max_output_tokens)),
          cache_ttl,
        };
        assert.ok(highestCost(models, model!, most, route) <= bound_nano_usd!);
      }
    }),
    { numRuns: times(500) },
  );
});

it('a request with every feature at the most expensive price reaches the bound', () => {
  fc.assert(
    fc.property(configuration, (config) => {
      const { most_expensive } = overshootBound(config, []);
      const models = createModelCatalog(config);
      const [model] = config.models;
      const { context_window: input, max_output_tokens } = model!;
      const most = { input, output: Math.max(input, max_output_tokens), cache_ttl: '1h' };
      const moments = [0, ...DAYS.map((day) => Date.parse(day))];
      const costs = moments.map((at) => highestCost(models, model!, most, { upstream: most_expensive!.upstream, at }));
      assert.equal(Math.max(...costs), most_expensive!.cost_nano_usd);
    }),
    { numRuns: times(500) },
  );
});
