import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GatewayConfig } from '../../../engine/api.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { ABORTED, delta, document, type Event, end, FORWARDED, meter, STOP, settled, start } from './metered.ts';

const FEES = { web_search: 10, web_fetch: 0.5 };

/** The model of the harness with fees for tools: 10,000,000 nano-USD per search and 500,000 per fetch. */
function withFees(): Partial<GatewayConfig> {
  const [model] = stageConfig().models;
  return { models: [{ ...model!, pricing: { ...model!.pricing!, server_tools: FEES } }] };
}

function begin(name: string, type = 'server_tool_use'): Event {
  const value = { type: 'content_block_start', index: 0, content_block: { type, id: 'srvtoolu_1', name, input: {} } };
  return ['content_block_start', value];
}

const TOKENS = { input_tokens: 10, output_tokens: 2 };
/** 10 x 3000 + 2 x 15000 */
const TOKEN_COST = 60_000;

describe('meter-usage, for tools that the upstream runs', () => {
  it('charges the uses that a document reports', async () => {
    const usage = { ...TOKENS, server_tool_use: { web_search_requests: 3, web_fetch_requests: 1 } };
    const { written, settlements } = await meter({ events: document(usage), config: withFees() });
    assert.deepEqual(settlements[0]!.server_tools, { web_search: 3, web_fetch: 1 });
    assert.equal(settlements[0]!.cost_nano_usd, TOKEN_COST + 30_000_000 + 500_000);
    assert.equal(settlements[0]!.provenance.server_tools, 'upstream');
    assert.deepEqual(written['usage.server_tools'], { web_search: 3, web_fetch: 1 });
  });

  it('takes the last number of each tool, and adds none of them up', async () => {
    const events = [
      start({ ...TOKENS, server_tool_use: { web_search_requests: 0, web_fetch_requests: 2 } }),
      begin('web_search'),
      end({ output_tokens: 1, server_tool_use: { web_search_requests: 1 } }, null),
      end({ output_tokens: 2, server_tool_use: { web_search_requests: 2, web_fetch_requests: null } }),
      STOP,
    ];
    const row = await settled({ events, config: withFees() });
    assert.deepEqual(row.server_tools, { web_search: 2, web_fetch: 2 });
    assert.equal(row.cost_nano_usd, TOKEN_COST + 20_000_000 + 1_000_000);
  });

  it('charges the uses that began when the client leaves before the final count', async () => {
    const unnamed: Event = [undefined, begin('web_fetch')[1]];
    const events = [
      start({ ...TOKENS, server_tool_use: { web_search_requests: 0 } }),
      begin('web_search'),
      delta('a'),
      begin('web_search'),
      unnamed,
      begin('calculator', 'tool_use'),
      begin('unpriced_tool'),
    ];
    const row = await settled({ events, facts: ABORTED, config: withFees(), typical_cost: 1 });
    assert.deepEqual(row.server_tools, { web_search: 2, web_fetch: 1 });
    assert.equal(row.provenance.server_tools, 'abort');
    assert.equal(row.cost_nano_usd, TOKEN_COST + 20_000_000 + 500_000);
  });

  it('says nothing about tools where none were used', async () => {
    const usage = { ...TOKENS, server_tool_use: { web_search_requests: 0 } };
    for (const events of [document(TOKENS), document(usage), document({ ...TOKENS, server_tool_use: null })]) {
      const { settlements, written } = await meter({ events, config: withFees() });
      assert.equal('server_tools' in settlements[0]!, false);
      assert.equal('server_tools' in settlements[0]!.provenance, false);
      assert.deepEqual(written['usage.server_tools'], {});
    }
  });

  it('charges nothing for a tool without a price, but marks the row and warns once per tool', async () => {
    const usage = { ...TOKENS, server_tool_use: { web_search_requests: 1 } };
    const { stage, settlements } = await meter({ events: document(usage) });
    const again = stage.request({ facts: FORWARDED });
    stage.hooks.event!(again, { name: undefined, data: JSON.stringify(document(usage)[0]![1]) });
    await stage.hooks.finish!(again);
    assert.equal(settlements.length, 2);
    assert.equal(settlements[1]!.cost_nano_usd, TOKEN_COST);
    assert.deepEqual(settlements[1]!.server_tools, { web_search: 1 });
    assert.equal(settlements[1]!.provenance.server_tools, 'unpriced');
    assert.deepEqual(
      stage.log.map(({ level, fields }) => ({ level, ...fields })),
      [{ level: 'warn', model: 'coder-1', tool: 'web_search' }],
    );
  });

  it('leaves out what cannot be a number of uses, however it is spelt', async () => {
    const hostile = [
      7,
      'all',
      [],
      { web_search_requests: -1 },
      { web_search_requests: 1e9 },
      { web_search_requests: 1.5 },
      { web_search_requests: '2' },
      { web_search_requests: {} },
    ];
    for (const server_tool_use of hostile) {
      const row = await settled({ events: document({ ...TOKENS, server_tool_use }), config: withFees() });
      assert.equal(row.cost_nano_usd, TOKEN_COST, JSON.stringify(server_tool_use));
    }
    const names = { __proto___requests: 4, 'Web Search_requests': 4, service_tier: 4, web_search: 4, _requests: 4 };
    const row = await settled({ events: document({ ...TOKENS, server_tool_use: names }), config: withFees() });
    assert.equal(row.server_tools, undefined);
    assert.equal(row.cost_nano_usd, TOKEN_COST);
  });

  it('remembers a bounded number of tools, whatever the upstream sends', async () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`tool_${i}_requests`, 1]));
    const row = await settled({ events: document({ ...TOKENS, server_tool_use: many }) });
    assert.equal(Object.keys(row.server_tools!).length, 32);
  });
});

describe('meter-usage, for a model without a price of its own', () => {
  it('charges the price of unknown models, marks the row and warns once', async () => {
    const { pricing: _, ...unpriced } = stageConfig().models[0]!;
    const config = { models: [unpriced], prices: { unknown_model: { input: 10, output: 20 }, rows: [] } };
    const { stage, settlements } = await meter({ events: document(TOKENS), config });
    await stage.hooks.finish!(stage.request({ facts: FORWARDED }));
    assert.equal(settlements[0]!.cost_nano_usd, 10 * 10_000 + 2 * 20_000);
    assert.equal(settlements[0]!.provenance.price, 'unknown_model');
    assert.deepEqual(
      stage.log.map(({ level, fields }) => ({ level, ...fields })),
      [{ level: 'warn', model: 'coder-1' }],
    );
  });
});

describe('the price of a request', () => {
  it('is that of the day it arrived on, at the upstream that served it', async () => {
    const config: Partial<GatewayConfig> = {
      prices: {
        rows: [
          { models: ['*'], upstream: 'spare', pricing: { input: 1, output: 1 }, multiplier: 1 },
          { models: ['*'], from: '2027-01-01', pricing: { input: 6, output: 30 }, multiplier: 1 },
        ],
      },
    };
    const cost = async (received: string, upstream: string) => {
      const facts = { 'request.received_at': Date.parse(received), 'route.upstream': upstream };
      return (await settled({ events: document(TOKENS), config, facts })).cost_nano_usd;
    };
    assert.equal(await cost('2026-12-31T23:59:59.999Z', 'main'), TOKEN_COST);
    assert.equal(await cost('2027-01-01', 'main'), 2 * TOKEN_COST);
    assert.equal(await cost('2027-01-01', 'spare'), 12_000);
  });
});
