import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { describe, it, test } from 'node:test';
import { findProvider } from '@pydantic/genai-prices';
import fc from 'fast-check';
import type {
  GatewayConfig,
  ModelConfig,
  PriceRowConfig,
  PricesConfig,
  PricingConfig,
} from '../../../engine/base/contract/config.ts';
import { NO_MODEL } from '../../../engine/base/contract/no-model.ts';
import type { EffectivePrice, Served, Usage } from '../../../engine/base/contract/services.ts';
import { feeToPico, priceToPico } from '../../../engine/base/kit/money.ts';
import { CATALOGUE_DATE, idsAt, lookUp } from '../../../engine/domain/budget/prices/catalogue.ts';
import { chargeUnknown, type OtherCosts, reportsUsage } from '../../../engine/domain/budget/prices/charge.ts';
import { answeringModels } from '../../../engine/domain/budget/prices/known-models.ts';
import {
  costAt,
  costOf,
  createPriceBook,
  midnightOf,
  type PriceBook,
  possibleRates,
  unpricedServing,
  unpricedTools,
} from '../../../engine/domain/budget/prices/prices.ts';
import {
  CATALOGUE_DAYS_MAX,
  catalogueDays,
  findPriceProblems,
  otherPrices,
  type UsedPrice,
  usesCatalogue,
} from '../../../engine/domain/budget/prices/used-prices.ts';
import { newUsageReading } from '../../../engine/domain/protocols/usage.ts';
import { describeCatalogue } from '../../../engine/edge/cli/prices.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';

const NONE = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

function row(more: Partial<PriceRowConfig>): PriceRowConfig {
  return { models: ['*'], multiplier: 1, ...more };
}

function flat(usd: number) {
  return { input: usd, output: usd };
}

interface BookSpec {
  readonly prices?: Partial<PricesConfig>;
  /** By upstream; 1 by default. */
  readonly contracts?: Readonly<Record<string, number>>;
  readonly model?: Partial<ModelConfig>;
}

/** The prices of one model, coder-1, at 3 USD whatever the token, at the upstreams main and spare. */
function book({ prices, contracts = {}, model = {} }: BookSpec): PriceBook {
  const config = stageConfig();
  return createPriceBook({
    ...config,
    models: [{ ...config.models[0]!, pricing: flat(3), ...model }],
    upstreams: config.upstreams.map((upstream) => ({ ...upstream, price_multiplier: contracts[upstream.name] ?? 1 })),
    ...(prices && { prices: { rows: [], ...prices } }),
  } as GatewayConfig);
}

/** Source and input price in pico-USD per token. */
function priceOn(prices: PriceBook, day: string, upstream = 'main', model = 'coder-1'): string {
  const price = prices.of(model, { upstream, at: Date.parse(day) });
  return price === undefined ? 'none' : `${price.source} ${price.pico.input}`;
}

describe('the price of a model', () => {
  it('is multiplied by the row and by the contract with the upstream, rounded up once', () => {
    const prices = book({
      prices: {
        rows: [row({ upstream: 'spare', multiplier: 1.1 }), row({ models: ['odd'], pricing: flat(0.000003) })],
      },
      contracts: { main: 0.85, spare: 1.1 },
    });
    assert.equal(priceOn(prices, '2027-01-01'), 'models 2550000');
    assert.equal(priceOn(prices, '2027-01-01', 'spare'), 'prices.rows[0] 3630000');
    assert.equal(priceOn(prices, '2027-01-01', 'main', 'odd'), 'prices.rows[1] 3', '2.55 pico-USD');
  });

  it('is that of unknown models by default, including contracts and rows without a price', () => {
    const { pricing: _, ...unpriced } = stageConfig().models[0]!;
    const rows = [row({ models: ['coder-1'], multiplier: 2 })];
    const prices = createPriceBook({
      ...stageConfig(),
      models: [unpriced],
      prices: { unknown_model: flat(20), rows },
    });
    assert.equal(priceOn(prices, '2027-01-01'), 'prices.unknown_model 40000000');
    assert.equal(priceOn(prices, '2027-01-01', 'gone', 'gone-1'), 'prices.unknown_model 20000000');
  });

  it('is unknown, and not zero, where gateway.yaml has none', () => {
    assert.equal(priceOn(book({}), '2027-01-01', 'main', 'gone-1'), 'none');
    assert.equal(priceOn(book({}), '2027-01-01', 'main', '__proto__'), 'none');
  });

  it('lists its periods without a gap', () => {
    const rows = [row({ from: '2027-01-01', until: '2027-02-01', pricing: flat(7) })];
    const periods = book({ prices: { rows } }).periods('coder-1', 'main');
    assert.deepEqual(
      periods.map(({ from, until, price }) => [from, until, price?.source]),
      [
        [-Infinity, Date.UTC(2027, 0, 1), 'models'],
        [Date.UTC(2027, 0, 1), Date.UTC(2027, 1, 1), 'prices.rows[0]'],
        [Date.UTC(2027, 1, 1), Infinity, 'models'],
      ],
    );
  });

  it('ignores a row that ends before it begins, and names the row with a day that does not exist', () => {
    const never = book({ prices: { rows: [row({ from: '2027-02-01', until: '2027-01-01', pricing: flat(7) })] } });
    assert.equal(priceOn(never, '2027-01-15'), 'models 3000000');
    assert.throws(
      () => book({ prices: { rows: [row({}), row({ until: '2027-02-30' })] } }),
      /prices\.rows\[1\]\.until: the calendar has no day "2027-02-30"/,
    );
  });

  it('is found for any rows and moment as a search through the rows would find it', () => {
    const day = fc.option(fc.integer({ min: 1, max: 28 }), { nil: undefined });
    const date = (number: number | undefined) =>
      number === undefined ? undefined : `2027-01-${String(number).padStart(2, '0')}`;
    const anyRow = fc.record({
      models: fc.constantFrom(['*'], ['coder-*'], ['other']),
      upstream: fc.constantFrom(undefined, 'main', 'spare'),
      from: day,
      until: day,
      usd: fc.integer({ min: 1, max: 1000 }),
    });
    fc.assert(
      fc.property(fc.array(anyRow, { maxLength: 8 }), fc.integer({ min: 0, max: 30 * 24 }), (specs, hour) => {
        const rows = specs.map(({ models, upstream, from, until, usd }) => {
          const dates = { ...(from && { from: date(from)! }), ...(until && { until: date(until)! }) };
          return row({ models, ...(upstream && { upstream }), ...dates, pricing: flat(usd) });
        });
        const at = Date.UTC(2026, 11, 31) + hour * 3_600_000;
        const found = rows.findIndex(
          ({ models, upstream = 'main', from = '2000-01-01', until = '3000-01-01' }) =>
            models[0] !== 'other' && upstream === 'main' && midnightOf(from)! <= at && at < midnightOf(until)!,
        );
        const expected = found < 0 ? 'models 3000000' : `prices.rows[${found}] ${specs[found]!.usd * 1_000_000}`;
        assert.equal(priceOn(book({ prices: { rows } }), new Date(at).toISOString()), expected);
      }),
    );
  });
});

describe('the cost of usage', () => {
  const route = { upstream: 'main', at: 0 };
  const tiers = book({
    model: {
      pricing: {
        input: 3,
        output: 15,
        long_context: { above_input_tokens: 1000, input: 6, output: 22.5, cache_read: 0.7 },
        server_tools: { web_search: 10, code: 0.0003 },
      },
    },
    contracts: { spare: 0.5 },
  });
  const price = tiers.of('coder-1', route)!;

  it('derives the cache prices that are left out from the input price of the same tier', () => {
    assert.deepEqual(price.pico, {
      input: 3_000_000,
      output: 15_000_000,
      cache_read: 300_000,
      cache_write_5m: 3_750_000,
      cache_write_1h: 6_000_000,
    });
    assert.deepEqual(price.long_context?.pico, {
      input: 6_000_000,
      output: 22_500_000,
      cache_read: 700_000,
      cache_write_5m: 7_500_000,
      cache_write_1h: 12_000_000,
    });
  });

  it('is at the prices of a long context for all tokens once the input, cached or not, is longer than that', () => {
    const at = (input: number, cache_read: number) => costOf(price, { ...NONE, input, cache_read, output: 100 });
    assert.equal(at(1000, 0), 1000 * 3000 + 100 * 15_000);
    assert.equal(at(1001, 0), 1001 * 6000 + 100 * 22_500);
    assert.equal(at(1, 999), 3000 + 999 * 300 + 100 * 15_000);
    assert.equal(at(1, 1000), 6000 + 1000 * 700 + 100 * 22_500);
    const writes = { ...NONE, cache_write_5m: 500, cache_write_1h: 501 };
    assert.equal(costOf(price, writes), 500 * 7500 + 501 * 12_000);
    assert.equal(costOf(price, { ...NONE, output: 2000 }), 2000 * 15_000, 'output does not count as context');
  });

  it('includes the fees of tools, multiplied like everything else, and rounds once', () => {
    assert.equal(costOf(price, { ...NONE, server_tools: { web_search: 3 } }), 30_000_000);
    assert.equal(costOf(price, { ...NONE, input: 1, server_tools: { code: 1 } }), 3000 + 300);
    const halved = tiers.of('coder-1', { ...route, upstream: 'spare' })!;
    assert.equal(costOf(halved, { ...NONE, server_tools: { web_search: 3, code: 1 } }), 15_000_000 + 150);
  });

  it('charges nothing for a tool without a price, and names it', () => {
    const usage = { ...NONE, server_tools: { web_search: 1, web_fetch: 2, unused: 0, toString: 1 } };
    assert.equal(costOf(price, usage), 10_000_000);
    assert.deepEqual(unpricedTools(price, usage), ['web_fetch', 'toString']);
  });
});

const FLAT = flat(1);
const rowOf = (more: Partial<PriceRowConfig>) => row({ pricing: FLAT, ...more });

function use(more: Partial<UsedPrice>): UsedPrice {
  const defaults = { model: 'coder-1', upstream: 'main', tool: null, requests: 1, uses: 0, cost_nano_usd: 0n };
  return { ...defaults, last_at: new Date('2027-05-01'), ...more };
}

function problems(config: Partial<GatewayConfig>, ...used: readonly UsedPrice[]): string[] {
  const found = findPriceProblems(stageConfig(config), used);
  return found.used.map(({ problem, model, tool }) => `${problem} ${model}${tool === null ? '' : ` ${tool}`}`);
}

const withRows = (...rows: readonly PriceRowConfig[]): Partial<GatewayConfig> => ({ prices: { rows } });
const { pricing: _, ...UNPRICED } = stageConfig().models[0]!;
const UNKNOWN = { unknown_model: FLAT, rows: [] };
const TOOLS = ['web_search', 'free', 'web_fetch', 'constructor'].map((tool) => use({ tool, uses: 1 }));
const OLD = use({ model: 'old-1' });
const UNTIL = { models: [UNPRICED], ...withRows(rowOf({ until: '2027-04-15' })) };
/** What is wrong with what was used, by configuration. */
const PROBLEMS: readonly (readonly [
  what: string,
  config: Partial<GatewayConfig>,
  used: readonly UsedPrice[],
  problems: readonly string[],
])[] = [
  ['models with a price of their own', {}, [use({}), use({ upstream: 'an old one' })], []],
  ['models of which only an entry has the price', withRows(rowOf({ models: ['old-*'] })), [OLD], []],
  ['models charged at nothing', { models: [UNPRICED] }, [use({})], ['no_price coder-1']],
  ['models charged as unknown ones', { models: [UNPRICED], prices: UNKNOWN }, [use({})], ['unknown_model coder-1']],
  ['models that are gone', {}, [OLD], ['gone old-1']],
  [
    'models that are gone, whatever unknown ones cost',
    { prices: UNKNOWN },
    [OLD, use({ model: '__proto__' })],
    ['gone old-1', 'gone __proto__'],
  ],
  ['models with a price at their time', UNTIL, [use({ last_at: new Date('2027-04-14') })], []],
  ['models without a price at their time', UNTIL, [use({ last_at: new Date('2027-04-15') })], ['no_price coder-1']],
  [
    'tools without a fee',
    { models: [{ ...stageConfig().models[0]!, pricing: { ...FLAT, server_tools: { web_search: 10, free: 0 } } }] },
    TOOLS,
    ['tool coder-1 web_fetch', 'tool coder-1 constructor'],
  ],
];

describe('reports invalid prices', () => {
  for (const [what, config, used, expected] of PROBLEMS) {
    it(what, () => assert.deepEqual(problems(config, ...used), expected));
  }
});

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
const MODELLESS: OtherCosts = { ...COSTS, model: NO_MODEL.id, most: 0 };
const charge = (ending: 'known' | 'unmeasured' | 'failed', costs: OtherCosts) => {
  const { cost, provenance, possibly_billed_nano_usd = 0 } = chargeUnknown(ending, costs);
  return [cost, provenance.cost, possibly_billed_nano_usd];
};

describe('a request whose response has no usage', () => {
  it("costs the operator's price, else the highest possible, else an unknown amount", () => {
    assert.deepEqual(charge('known', { ...COSTS, per_request: 500 }), [500, 'per_request', 0]);
    assert.deepEqual(charge('known', { ...COSTS, per_request: 0 }), [0, 'per_request', 0]);
    assert.deepEqual(charge('unmeasured', COSTS), [900, 'most', 0]);
    assert.deepEqual(charge('known', MODELLESS), [0, 'unknown', 0]);
  });

  it('is free after a failure, and its possible bill is recorded apart, or counts', () => {
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500 }), [0, 'unknown', 500]);
    assert.deepEqual(charge('failed', { ...COSTS, per_request: 500, counts_possible: true }), [500, 'possible', 500]);
    assert.deepEqual(charge('failed', MODELLESS), [0, 'unknown', 0]);
  });

  it('never has tokens, and never costs more than reported or reserved', () => {
    const amount = fc.integer({ min: 0, max: 1e15 });
    fc.assert(
      fc.property(
        fc.constantFrom('known' as const, 'unmeasured' as const, 'failed' as const),
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

  it('is one without a model, whatever its response contains', () => {
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

const ELSEWHERE = 'https://models.example.com';
const AT_HOME = 'https://api.anthropic.com';
const KNOWN = 'claude-sonnet-4-5';

describe('the catalogue of prices', () => {
  test('has the date on which its version was published', () => {
    const lock = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../../package-lock.json'), 'utf8'));
    const { version } = lock.packages['node_modules/@pydantic/genai-prices'];
    // A new version: take the date of `npm view @pydantic/genai-prices time`.
    assert.deepEqual({ version, date: CATALOGUE_DATE }, { version: '0.1.8', date: '2026-09-23' });
    assert.ok(createRequire(import.meta.url).resolve('@pydantic/genai-prices'));
  });

  test('finds a model by its id, a dated id, and with a provider before the id', () => {
    const home = lookUp(KNOWN, AT_HOME);
    assert.deepEqual(home, {
      context_window: 200_000,
      max_output_tokens: 64_000,
      prices: [
        {
          pricing: {
            input: 3,
            output: 15,
            cache_read: 0.3,
            cache_write_5m: 3.75,
            cache_write_1h: 6,
            long_context: {
              above_input_tokens: 200_000,
              input: 6,
              output: 22.5,
              cache_read: 0.6,
              cache_write_5m: 7.5,
              cache_write_1h: 12,
            },
            server_tools: { web_search: 10 },
          },
        },
      ],
    });
    for (const id of [KNOWN, `${KNOWN}-20250929`, `anthropic/${KNOWN}`]) assert.deepEqual(lookUp(id, ELSEWHERE), home);
  });

  test("knows the longest response of large vendors' models, by each of their names", () => {
    for (const id of idsAt(AT_HOME)) assert.ok((lookUp(id, AT_HOME)?.max_output_tokens ?? 0) >= 4096, id);
    const cases: readonly [id: string, tokens: number | undefined][] = [
      ['claude-opus-4-1-20250805', 32_000],
      ['claude-3-haiku-20240307', 4096],
      ['claude-sonnet-4-6', 128_000],
      ['anthropic/claude-sonnet-4-0', 64_000],
      ['gpt-4.1-mini', 32_768],
      ['gpt-4o', 16_384],
      ['gpt-5', 128_000],
      ['o3', 100_000],
      ['gemini-2.5-pro', 65_536],
      ['mistral-large-latest', undefined],
    ];
    for (const [id, tokens] of cases) assert.equal(lookUp(id, ELSEWHERE)?.max_output_tokens, tokens, id);
  });

  test('guesses nothing', () => {
    for (const id of ['coder-1', 'claude-sonnet-99', `nobody/${KNOWN}`, '', '/', '__proto__', 'constructor']) {
      assert.equal(lookUp(id, ELSEWHERE), undefined, id);
    }
    assert.equal(lookUp(KNOWN, 'https://api.openai.com/v1'), undefined);
  });

  test('lists the days of price changes, oldest first', () => {
    const { prices } = lookUp('o3', 'https://api.openai.com/v1')!;
    assert.deepEqual(
      prices.map(({ from, pricing }) => [from, pricing.input]),
      [
        [undefined, 10],
        ['2025-06-10', 2],
      ],
    );
  });

  test('has no price where charges are not per token, or depend on the hour', () => {
    for (const id of ['deepseek-chat', 'deepseek-reasoner']) {
      assert.deepEqual(lookUp(id, 'https://api.deepseek.com')?.prices, [], id);
    }
    const heard = findProvider({ providerId: 'openai' })!.models.filter(
      ({ prices }) => !Array.isArray(prices) && prices.input_audio_mtok !== undefined,
    );
    assert.ok(heard.length > 0);
    for (const { id } of heard) assert.deepEqual(lookUp(id, 'https://api.openai.com/v1')?.prices, [], id);
  });

  test('has no price without an exact representation', () => {
    let seen = 0;
    for (const providerId of ['anthropic', 'openai', 'google', 'aws', 'mistral', 'x-ai']) {
      for (const { id } of findProvider({ providerId })!.models) {
        for (const { pricing } of lookUp(`${providerId}/${id}`, ELSEWHERE)?.prices ?? []) {
          const { long_context, server_tools = {}, ...tokens } = pricing;
          const { above_input_tokens: _, ...tier } = long_context ?? { above_input_tokens: 0 };
          for (const usd of [...Object.values(tokens), ...Object.values(tier)]) priceToPico(usd as number);
          for (const usd of Object.values(server_tools)) feeToPico(usd);
          seen += 1;
        }
      }
    }
    assert.ok(seen > 100, String(seen));
  });
});

const DAY_MS = 86_400_000;
const AT_OPENAI = 'https://api.openai.com/v1';

function configOf(models: readonly object[], base_url = AT_OPENAI): GatewayConfig {
  return {
    models: models.map((model) => ({ upstream_ids: {}, ...model })),
    upstreams: [{ name: 'main', base_url }],
  } as unknown as GatewayConfig;
}

const NOW = Date.parse('2026-11-24');

test("compares a price of gateway.yaml with the catalogue's on that day", () => {
  const written = configOf([{ id: 'o3', pricing: { input: 10, output: 40, cache_write_5m: 1 } }]);
  assert.deepEqual(
    otherPrices(written, NOW).map(({ kind, written, catalogue }) => [kind, written, catalogue]),
    [
      ['input', 10, 2],
      ['output', 40, 8],
    ],
  );
  assert.deepEqual(otherPrices(written, Date.parse('2025-06-09')), []);
});

test('ignores models outside the catalogue, or with their own price', () => {
  assert.deepEqual(otherPrices(configOf([{ id: 'coder-1', pricing: { input: 1, output: 2 } }, { id: 'o3' }]), NOW), []);
  assert.deepEqual(
    otherPrices(configOf([{ id: 'o3', pricing: { input: 9, output: 9 } }], 'https://api.anthropic.com'), NOW),
    [],
  );
  const renamed = configOf([{ id: 'best', upstream_ids: { main: 'o3' }, pricing: { input: 2, output: 9 } }]);
  assert.deepEqual(
    otherPrices(renamed, NOW).map(({ model, pointer }) => [model, pointer]),
    [['best', '/models/0/pricing/output']],
  );
});

test('the catalogue is old after half a year, where its prices are in force', () => {
  const published = Date.parse(CATALOGUE_DATE);
  assert.equal(catalogueDays(published), 0);
  assert.equal(catalogueDays(published - DAY_MS), 0);
  assert.equal(catalogueDays(published + 200 * DAY_MS - 1), 199);
  assert.equal(usesCatalogue(configOf([{ id: 'o3', pricing: { input: 1, output: 2 } }])), false);
  assert.equal(usesCatalogue(configOf([{ id: 'o3', catalogue: {} }])), true);
  assert.equal(usesCatalogue({ ...configOf([]), from_model_lists: true }), true);
  const ageOf = (days: number) =>
    describeCatalogue({ days, is_old: days > CATALOGUE_DAYS_MAX, is_used: true, other: [] }).join(' ');
  assert.equal(ageOf(62), `Price catalogue: ${CATALOGUE_DATE}, 62 days old.`);
  assert.match(ageOf(181), /181 days old\. It is older than 180 days: prices may have changed\. Upgrade this program/);
});
