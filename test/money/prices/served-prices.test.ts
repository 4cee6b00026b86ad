import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, PricingConfig } from '../../../engine/contract/config.ts';
import type { EffectivePrice, Served, Usage } from '../../../engine/contract/services.ts';
import { costAt, costOf, createPriceBook } from '../../../engine/money/prices/prices.ts';
import { possibleRates, unpricedServing } from '../../../engine/money/prices/served-prices.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';

const TOKENS = { input: 1_000_000, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

const PRICING: PricingConfig = {
  input: 3,
  output: 15,
  long_context: { above_input_tokens: 2_000_000, input: 6, output: 20 },
  service_tiers: { priority: { multiplier: 2 }, flex: { input: 1, output: 5 } },
  speeds: { fast: { multiplier: 6 } },
  inference_geos: { us: { multiplier: 1.1 } },
};

function priceOf(pricing: PricingConfig = PRICING, contract = 1): EffectivePrice {
  const config = stageConfig();
  const [model, upstream] = [config.models[0]!, config.upstreams[0]!];
  const book = createPriceBook({
    ...config,
    models: [{ ...model, pricing }],
    upstreams: [{ ...upstream, price_multiplier: contract }],
  } as GatewayConfig);
  return book.of(model.id, { upstream: upstream.name, at: 0 })!;
}

const usd = (served: Served, usage: Partial<Usage> = {}, price = priceOf()) =>
  costOf(price, { ...TOKENS, ...usage, served }) / 1e9;

describe('what is served in a way with a price of its own', () => {
  it('is charged audio at its own price there, and never at the price of text', () => {
    const audio = { input: 400_000, output: 100_000 };
    const spoken = { output: 300_000, audio };
    const heard = (pricing: PricingConfig, served: Served = {}) => usd(served, spoken, priceOf(pricing));
    const priced = { input: 3, output: 15, audio_input: 40, audio_output: 80 };
    assert.equal(heard(priced), 0.6 * 3 + 0.4 * 40 + 0.2 * 15 + 0.1 * 80);
    assert.equal(heard({ input: 3, output: 15 }), 0.6 * 3 + 0.4 * 48 + 0.2 * 15 + 0.1 * 120);
    const tiers = { priority: { multiplier: 2 }, flex: { input: 1, output: 5, audio_input: 20, audio_output: 40 } };
    assert.equal(heard({ ...priced, service_tiers: tiers }, { service_tier: 'priority' }), 2 * heard(priced));
    assert.equal(heard({ ...priced, service_tiers: tiers }, { service_tier: 'flex' }), 0.6 + 8 + 1 + 4);
    const long_context = { above_input_tokens: 500_000, input: 6, output: 30, audio_input: 50, audio_output: 90 };
    assert.equal(heard({ ...priced, long_context }), 0.6 * 6 + 0.4 * 50 + 0.2 * 30 + 0.1 * 90);
    assert.equal(usd({}, { audio: { input: 2_000_000, output: 5 } }, priceOf(priced)), 40, 'no more than there was');
  });

  it('costs what gateway.yaml says by the names of the wire, multipliers multiplied', () => {
    assert.equal(usd({}), 3);
    assert.equal(usd({ service_tier: 'priority' }), 6);
    assert.equal(usd({ service_tier: 'flex' }), 1);
    assert.equal(usd({ speed: 'fast' }), 18);
    assert.equal(usd({ speed: 'fast', inference_geo: 'us' }), 19.8);
    assert.equal(usd({ service_tier: 'priority', speed: 'fast', inference_geo: 'us' }), 39.6);
    assert.equal(usd({ service_tier: 'priority' }, {}, priceOf(PRICING, 0.5)), 3);
  });

  it('keeps the tier of long inputs with a multiplier, and not with prices of its own', () => {
    assert.equal(usd({ service_tier: 'priority' }, { input: 3_000_000 }), 36);
    assert.equal(usd({ service_tier: 'flex' }, { input: 3_000_000 }), 3);
  });

  it('costs what the model costs when the ordinary way has another name', () => {
    for (const service_tier of ['default', 'standard', 'auto', 'standard_only']) assert.equal(usd({ service_tier }), 3);
    assert.equal(usd({ speed: 'standard', inference_geo: 'global' }), 3);
  });

  it('is one tier by two names', () => {
    assert.equal(usd({ service_tier: 'fast' }), 6);
  });

  it('costs the most expensive there is where it has no price, and says so', () => {
    assert.equal(usd({ service_tier: 'ultrafast' }), 6);
    assert.equal(usd({ service_tier: 'ultrafast', speed: 'warp' }), 36);
    assert.deepEqual(unpricedServing(priceOf(), { service_tier: 'ultrafast', speed: 'fast' }), ['service_tier']);
    assert.deepEqual(unpricedServing(priceOf({ input: 3, output: 15 }), { speed: 'fast' }), ['speed']);
  });
});

describe('the rates a request may come to', () => {
  const most_expensive = (asked: Served) => {
    const price = priceOf();
    return Math.max(...possibleRates(price, asked).map((rates) => costAt(price, rates, TOKENS))) / 1e9;
  };

  it('include those of settings at the provider where the request leaves them open', () => {
    assert.equal(most_expensive({}), 6.6);
    assert.equal(most_expensive({ service_tier: 'auto', inference_geo: 'global' }), 6);
    assert.equal(most_expensive({ service_tier: 'default', inference_geo: 'global' }), 3);
  });

  it('include the ordinary one beside what is asked for, which need not be granted', () => {
    assert.equal(most_expensive({ service_tier: 'flex', inference_geo: 'global' }), 3);
    assert.equal(most_expensive({ service_tier: 'fast', speed: 'fast', inference_geo: 'us' }), 39.6);
  });

  it('are never less than the bill of any answer that the request allows', () => {
    const name = fc.option(fc.constantFrom('default', 'auto', 'priority', 'fast', 'flex', 'us', 'global', 'standard'), {
      nil: undefined,
    });
    const served = fc.record({ service_tier: name, speed: name, inference_geo: name }) as fc.Arbitrary<Served>;
    fc.assert(
      fc.property(served, fc.boolean(), (asked, granted) => {
        const answer: Served = granted ? asked : { ...asked, service_tier: 'default', speed: 'standard' };
        const price = priceOf();
        const most = Math.max(...possibleRates(price, asked).map((rates) => costAt(price, rates, TOKENS)));
        assert.ok(costOf(price, { ...TOKENS, served: answer }) <= most);
      }),
    );
  });
});
