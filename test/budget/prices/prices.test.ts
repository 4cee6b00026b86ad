import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, ModelConfig, PriceRowConfig, PricesConfig } from '../../../engine/base/contract/config.ts';
import {
  costOf,
  createPriceBook,
  midnightOf,
  type PriceBook,
  unpricedTools,
} from '../../../engine/domain/budget/prices/prices.ts';
import { findPriceProblems, type UsedPrice } from '../../../engine/domain/budget/prices/used-prices.ts';
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

const FLAT = { input: 1, output: 1 };

function rowOf(more: Partial<PriceRowConfig>): PriceRowConfig {
  return { models: ['*'], multiplier: 1, pricing: FLAT, ...more };
}

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
