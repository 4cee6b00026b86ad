import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GatewayConfig, PriceRowConfig } from '../../../engine/contract/config.ts';
import { findPriceProblems, type UsedPrice } from '../../../engine/money/prices/used-prices.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';

const FLAT = { input: 1, output: 1 };
const SINCE = Date.parse('2027-03-01');

function row(more: Partial<PriceRowConfig>): PriceRowConfig {
  return { models: ['*'], multiplier: 1, pricing: FLAT, ...more };
}

function use(more: Partial<UsedPrice>): UsedPrice {
  const defaults = { model: 'coder-1', upstream: 'main', tool: null, requests: 1, uses: 0, cost_nano_usd: 0n };
  return { ...defaults, last_at: new Date('2027-05-01'), ...more };
}

function problems(config: Partial<GatewayConfig>, ...used: readonly UsedPrice[]): string[] {
  const found = findPriceProblems(stageConfig(config), used, SINCE);
  return [
    ...found.used.map(({ problem, model, tool }) => `${problem} ${model}${tool === null ? '' : ` ${tool}`}`),
    ...found.idle.map(({ problem, source }) => `${problem} ${source}`),
  ];
}

const withRows = (...rows: readonly PriceRowConfig[]): Partial<GatewayConfig> => ({ prices: { rows } });

describe('models and tools that were used', () => {
  it('are all right when they have a price of their own, also where only a row has it', () => {
    assert.deepEqual(problems({}, use({}), use({ upstream: 'an old one' })), []);
    assert.deepEqual(problems(withRows(row({ models: ['old-*'] })), use({ model: 'old-1' })), []);
  });

  it('are told when they are charged as unknown models, or at nothing', () => {
    const { pricing: _, ...unpriced } = stageConfig().models[0]!;
    assert.deepEqual(problems({ models: [unpriced] }, use({})), ['no_price coder-1']);
    const prices = { unknown_model: FLAT, rows: [] };
    assert.deepEqual(problems({ models: [unpriced], prices }, use({})), ['unknown_model coder-1']);
  });

  it('are told when gateway.yaml no longer has the model, whatever unknown models cost', () => {
    assert.deepEqual(problems({}, use({ model: 'old-1' })), ['gone old-1']);
    const prices = { unknown_model: FLAT, rows: [] };
    assert.deepEqual(problems({ prices }, use({ model: 'old-1' }), use({ model: '__proto__' })), [
      'gone old-1',
      'gone __proto__',
    ]);
  });

  it('are judged by the price of their time', () => {
    const { pricing: _, ...unpriced } = stageConfig().models[0]!;
    const config = { models: [unpriced], ...withRows(row({ until: '2027-04-15' })) };
    assert.deepEqual(problems(config, use({ last_at: new Date('2027-04-14') })), []);
    assert.deepEqual(problems(config, use({ last_at: new Date('2027-04-15') })), ['no_price coder-1']);
  });

  it('are told when a tool has no fee, and only that tool', () => {
    const [model] = stageConfig().models;
    const models = [{ ...model!, pricing: { ...FLAT, server_tools: { web_search: 10, free: 0 } } }];
    const tools = ['web_search', 'free', 'web_fetch', 'constructor'].map((tool) => use({ tool, uses: 1 }));
    assert.deepEqual(problems({ models }, ...tools), ['tool coder-1 web_fetch', 'tool coder-1 constructor']);
  });
});

describe('entries of prices.rows', () => {
  it('are all right when some request may meet them, now, later or since the moment looked back to', () => {
    assert.deepEqual(problems(withRows(row({}))), []);
    assert.deepEqual(problems(withRows(row({ from: '2030-01-01' }))), []);
    assert.deepEqual(problems(withRows(row({ until: '2027-03-02' }))), []);
    assert.deepEqual(problems(withRows(row({ upstream: 'spare' }), row({}))), []);
    assert.deepEqual(problems(withRows(row({ until: '2028-01-01' }), row({ from: '2027-01-01' }))), []);
  });

  it('are told with the reason why no request can', () => {
    const rows = [
      row({ models: ['nothing-*'] }),
      row({ upstream: 'gone' }),
      row({ from: '2027-05-01', until: '2027-04-01' }),
      row({ until: '2027-03-01' }),
      row({ models: ['coder-*'] }),
      row({ models: ['coder-1'], from: '2028-01-01' }),
    ];
    assert.deepEqual(problems(withRows(...rows)), [
      'no_such_model prices.rows[0]',
      'no_such_upstream prices.rows[1]',
      'no_such_time prices.rows[2]',
      'over prices.rows[3]',
      'covered prices.rows[5]',
    ]);
  });

  it('are of use for models and upstreams that only the ledger still knows', () => {
    const rows = [row({ models: ['old-1'], upstream: 'closed' })];
    assert.deepEqual(problems(withRows(...rows)), ['no_such_model prices.rows[0]']);
    assert.deepEqual(problems(withRows(...rows), use({ model: 'old-1', upstream: 'closed' })), []);
  });
});
