import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, ModelConfig, PricingConfig } from '../../../engine/base/contract/config.ts';
import { NO_MODEL } from '../../../engine/base/contract/no-model.ts';
import type { EffectivePrice, Served, Usage } from '../../../engine/base/contract/services.ts';
import { chargeUnknown, type OtherCosts, reportsUsage } from '../../../engine/domain/budget/prices/charge.ts';
import { answeringModels } from '../../../engine/domain/budget/prices/known-models.ts';
import {
  costAt,
  costOf,
  createPriceBook,
  possibleRates,
  unpricedServing,
} from '../../../engine/domain/budget/prices/prices.ts';
import { newUsageReading } from '../../../engine/domain/protocols/usage.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';

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

describe('serving modes with a price of their own', () => {
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

  it("cost gateway.yaml's price by the names on the wire, with multiplied multipliers", () => {
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

  it("cost the model's price when the ordinary mode has another name", () => {
    for (const service_tier of ['default', 'standard', 'auto', 'standard_only']) assert.equal(usd({ service_tier }), 3);
    assert.equal(usd({ speed: 'standard', inference_geo: 'global' }), 3);
  });

  it('is one tier by two names', () => {
    assert.equal(usd({ service_tier: 'fast' }), 6);
  });

  it('cost the highest price if theirs is missing, and report it', () => {
    assert.equal(usd({ service_tier: 'ultrafast' }), 6);
    assert.equal(usd({ service_tier: 'ultrafast', speed: 'warp' }), 36);
    assert.deepEqual(unpricedServing(priceOf(), { service_tier: 'ultrafast', speed: 'fast' }), ['service_tier']);
    assert.deepEqual(unpricedServing(priceOf({ input: 3, output: 15 }), { speed: 'fast' }), ['speed']);
  });
});

describe('the possible rates of a request', () => {
  const most_expensive = (asked: Served) => {
    const price = priceOf();
    return Math.max(...possibleRates(price, asked).map((rates) => costAt(price, rates, TOKENS))) / 1e9;
  };

  it('include those of provider settings that the request leaves open', () => {
    assert.equal(most_expensive({}), 6.6);
    assert.equal(most_expensive({ service_tier: 'auto', inference_geo: 'global' }), 6);
    assert.equal(most_expensive({ service_tier: 'default', inference_geo: 'global' }), 3);
  });

  it('are never less than the bill of any permitted response', () => {
    const name = fc.option(fc.constantFrom('default', 'auto', 'priority', 'fast', 'flex', 'us', 'global', 'standard'), {
      nil: undefined,
    });
    const served = fc.record({ service_tier: name, speed: name, inference_geo: name }) as fc.Arbitrary<Served>;
    fc.assert(
      fc.property(served, fc.boolean(), (asked, granted) => {
        const response: Served = granted ? asked : { ...asked, service_tier: 'default', speed: 'standard' };
        const price = priceOf();
        const most = Math.max(...possibleRates(price, asked).map((rates) => costAt(price, rates, TOKENS)));
        assert.ok(costOf(price, { ...TOKENS, served: response }) <= most);
      }),
    );
  });
});

/** The cost of requests whose responses have no usage. */

const COSTS: OtherCosts = { model: 'embed-1', per_request: undefined, most: 900, counts_possible: false };
const NONE: OtherCosts = { ...COSTS, model: NO_MODEL.id, most: 0 };
const charge = (ending: 'known' | 'left' | 'failed', costs: OtherCosts) => {
  const { cost, provenance, possibly_billed_nano_usd = 0 } = chargeUnknown(ending, costs);
  return [cost, provenance.cost, possibly_billed_nano_usd];
};

describe('a request whose response has no usage', () => {
  it("costs the operator's price, else the highest possible, else an unknown amount", () => {
    assert.deepEqual(charge('known', { ...COSTS, per_request: 500 }), [500, 'per_request', 0]);
    assert.deepEqual(charge('known', { ...COSTS, per_request: 0 }), [0, 'per_request', 0]);
    assert.deepEqual(charge('left', COSTS), [900, 'most', 0]);
    assert.deepEqual(charge('known', NONE), [0, 'unknown', 0]);
  });

  it('is free after a failure, and its possible bill is recorded apart, or counts', () => {
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500 }), [0, 'unknown', 500]);
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500, counts_possible: true }), [500, 'possible', 500]);
    assert.deepEqual(charge('failed', NONE), [0, 'unknown', 0]);
  });

  it('never has tokens, and never costs more than reported or reserved', () => {
    const amount = fc.integer({ min: 0, max: 1e15 });
    fc.assert(
      fc.property(
        fc.constantFrom('known' as const, 'left' as const, 'failed' as const),
        fc.option(amount, { nil: undefined }),
        amount,
        fc.boolean(),
        (ending, per_request, most, counts_possible) => {
          const { usage, provenance, cost } = chargeUnknown(ending, { ...COSTS, per_request, most, counts_possible });
          assert.ok(Object.values(usage).every((count) => count === 0));
          assert.equal(provenance.input, 'unknown');
          assert.ok(cost >= 0 && cost <= (per_request ?? most));
        },
      ),
    );
  });

  it('is one without a model, whatever its response says', () => {
    const reading = { ...newUsageReading(), seen: true };
    assert.equal(reportsUsage(reading, 'embed-1'), true);
    assert.equal(reportsUsage(reading, NO_MODEL.id), false);
    assert.equal(reportsUsage(newUsageReading(), 'embed-1'), false);
  });
});

const model = (id: string, upstream_ids: Record<string, string> = {}, aliases: string[] = []) =>
  ({ id, aliases, upstream_ids }) as unknown as ModelConfig;

const find = answeringModels({
  models: [
    model('big-4.5', {}, ['big']),
    model('router-big', { router: 'vendor/big-4.5' }),
    model('expensive-1', { router: 'vendor/expensive-1' }),
  ],
});

test("of a model at two upstreams is the requested one's, despite a shortened name in the response", () => {
  for (const name of [
    'vendor/big-4.5',
    'big-4.5',
    'big-4.5-20260101',
    'vendor/big-4.5@20260101',
    'eu/vendor/big-4.5',
  ]) {
    assert.equal(find(name, 'router', 'router-big')?.id, 'router-big', name);
    assert.equal(find(name, 'main', 'big-4.5')?.id, 'big-4.5', name);
  }
});

test("finds another model by any upstream's name for it, and nothing for an unknown name", () => {
  for (const name of ['vendor/expensive-1', 'expensive-1', 'expensive-1-2026-03-01', 'other/expensive-1']) {
    assert.equal(find(name, 'router', 'router-big')?.id, 'expensive-1', name);
  }
  assert.equal(find('other/big-4.5', 'router', 'router-big')?.id, 'big-4.5', 'of another vendor');
  assert.equal(find('big-5', 'router', 'router-big'), undefined);
});
