import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../../engine/api.ts';
import { openStage, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import {
  ABORTED,
  CUT,
  delta,
  document,
  type Event,
  end,
  FORWARDED,
  meter,
  NOTHING,
  PRICE,
  STOP,
  settled,
  start,
} from './metered.ts';

describe('meter-usage', () => {
  it('writes one complete ledger row', async () => {
    const { settlements, written } = await meter({
      events: document({ input_tokens: 100, output_tokens: 20 }),
      facts: { 'principal.team': 'search', 'principal.project': 'index' },
    });
    assert.deepEqual(settlements, [
      {
        request_id: 'req-1',
        protocol: 'messages',
        principal_id: 'user:alice@example.com',
        user: 'alice@example.com',
        team: 'search',
        project: 'index',
        token_id: 'tok-1',
        model: 'coder-1',
        upstream: 'main',
        upstream_model: 'coder-1',
        status: 200,
        aborted: false,
        tokens: { ...NOTHING, input: 100, output: 20 },
        cost_nano_usd: 600_000,
        provenance: {
          input: 'upstream',
          output: 'upstream',
          cache_read: 'upstream',
          cache_write_5m: 'upstream',
          cache_write_1h: 'upstream',
          cost: 'upstream',
        },
        reserved: true,
      },
    ]);
    assert.equal(written['usage.cost_nano_usd'], 600_000);
    assert.equal(written['usage.input_tokens'], 100);
    assert.deepEqual(written['usage.provenance'], settlements[0]!.provenance);
  });

  it('writes nothing for a request that never left', async () => {
    for (const attempts of [undefined, 0]) {
      const { settlements, written } = await meter({ facts: { 'upstream.attempts': attempts } });
      assert.deepEqual(settlements, []);
      assert.deepEqual(written, {});
    }
  });

  it("does not delay the request for the database, and logs the ledger's rejections", async () => {
    const stage = openStage(meterUsage, {
      options: { charge: 'full' },
      settle: () => Promise.reject(new Error('the ledger refuses')),
    });
    assert.equal(stage.hooks.finish!(stage.request({ facts: FORWARDED })), undefined);
    await new Promise(setImmediate);
    assert.deepEqual(
      stage.log.map(({ level, message }) => `${level}: ${message}`),
      ['error: a request could not be settled'],
    );
  });

  it('reports a missing reservation', async () => {
    assert.equal((await settled({ facts: { 'spend.reserved_nano_usd': undefined } })).reserved, false);
  });

  describe('how cache writes split', () => {
    const cases: readonly (readonly [
      title: string,
      ttl: string,
      total: unknown,
      split: unknown,
      short: number,
      long: number,
    ])[] = [
      ['as reported', '1h', 100, { ephemeral_5m_input_tokens: 40, ephemeral_1h_input_tokens: 60 }, 40, 60],
      ['all one hour when one hour was asked for and no split came', '1h', 100, undefined, 0, 100],
      ['all five minutes when one hour was not asked for', '5m', 100, undefined, 100, 0],
      ['all five minutes when the upstream caches unasked', 'none', 100, null, 100, 0],
      ['the open rest at the longest lifetime asked for', '1h', 100, { ephemeral_5m_input_tokens: 30 }, 30, 70],
      ['the open rest at five minutes otherwise', '5m', 100, { ephemeral_1h_input_tokens: 30 }, 70, 30],
      ['as split when the split is more than the total', '5m', 10, { ephemeral_1h_input_tokens: 30 }, 0, 30],
      ['as split when no total came', '5m', undefined, { ephemeral_5m_input_tokens: 5 }, 5, 0],
      ['as split when the total is no number', '1h', '100', { ephemeral_5m_input_tokens: 5 }, 5, 0],
    ];
    for (const [title, ttl, total, split, short, long] of cases) {
      it(`counts ${title}`, async () => {
        const usage = {
          input_tokens: 1,
          output_tokens: 1,
          cache_creation_input_tokens: total,
          cache_creation: split,
        };
        const row = await settled({ events: document(usage), facts: { 'request.cache.ttl': ttl } });
        assert.deepEqual(row.tokens, {
          input: 1,
          output: 1,
          cache_read: 0,
          cache_write_5m: short,
          cache_write_1h: long,
        });
        assert.equal(row.cost_nano_usd, 3000 + 15_000 + short * PRICE.cache_write_5m + long * PRICE.cache_write_1h);
      });
    }
  });

  describe('when the response is not complete', () => {
    it('charges the maximum cost when a client leaves before the upstream responds', async () => {
      const row = await settled({
        facts: { ...ABORTED, 'upstream.status': undefined, 'request.input_tokens_max': 2000 },
      });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 2000 });
      assert.equal(row.status, null);
      assert.equal(row.aborted, true);
      assert.equal(row.provenance.input, 'abort');
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [1_000_000_000, 'most']);
    });

    it('charges the typical cost when that is known', async () => {
      for (const [typical_cost, cost, by] of [
        [40_000_000, 40_000_000, 'learned'],
        [2_000_000_000, 1_000_000_000, 'most'],
        [1000, 6_000_000, 'abort'],
      ] as const) {
        const facts = { ...ABORTED, 'upstream.status': undefined, 'request.input_tokens_max': 2000 };
        const row = await settled({ facts, typical_cost });
        assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [cost, by]);
      }
    });

    it('charges nothing when the upstream never responds, and records its possible bill', async () => {
      for (const status of [undefined, 500, 502, 504]) {
        const { settlements, written } = await meter({
          facts: { 'upstream.status': status },
          typical_cost: 40_000_000,
        });
        const [row] = settlements;
        assert.deepEqual(row!.tokens, NOTHING);
        assert.deepEqual([row!.cost_nano_usd, row!.provenance.cost], [0, 'estimate']);
        assert.equal(row!.possibly_billed_nano_usd, 40_000_000);
        assert.equal(written['usage.possibly_billed_nano_usd'], 40_000_000);
      }
      const row = await settled({ facts: { 'upstream.status': undefined } });
      assert.equal(row.possibly_billed_nano_usd, 1_000_000_000, 'the maximum cost while nothing is known');
    });

    it('charges nothing for a page, and records an empty response apart', async () => {
      const facts = { 'error.code': 'upstream_invalid' };
      const page = await settled({ facts, relayed_bytes: 400 });
      assert.deepEqual([page.cost_nano_usd, page.possibly_billed_nano_usd], [0, undefined]);
      const empty = await settled({ facts, typical_cost: 40_000_000 });
      assert.deepEqual([empty.cost_nano_usd, empty.possibly_billed_nano_usd], [0, 40_000_000]);
    });

    it('never charges a guess more than was reserved, nor a number of the upstream less', async () => {
      const reserved = { 'spend.reserved_nano_usd': 1_000 };
      const guessed = await settled({ facts: { ...reserved, ...ABORTED, 'upstream.status': undefined } });
      assert.equal(guessed.cost_nano_usd, 1_000);
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('word '.repeat(100_000))];
      const cut = await settled({ events, facts: { ...CUT, 'request.max_tokens': 20 } });
      assert.equal(cut.tokens.output, 20);
      const reported = await settled({ events: document({ input_tokens: 500, output_tokens: 0 }), facts: reserved });
      assert.equal(reported.cost_nano_usd, 1_500_000);
    });

    it('charges an aborted stream by the relayed part', async () => {
      const events = [
        start({ input_tokens: 10, output_tokens: 1 }),
        ...Array.from({ length: 12 }, () => delta('word ')),
      ];
      const row = await settled({ events, facts: ABORTED });
      // Twelve deltas of five characters: 15 tokens by length, more than one for each delta.
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 15 });
      assert.equal(row.provenance.input, 'upstream');
      assert.equal(row.provenance.output, 'abort');
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [1_000_000_000, 'most']);
    });

    it('believes a larger count that the upstream reported before the abort', async () => {
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('a'), end({ output_tokens: 90 }, null)];
      const row = await settled({ events, facts: ABORTED });
      assert.equal(row.tokens.output, 90);
      assert.equal(row.provenance.output, 'abort');
    });

    it('keeps the final count of a client that leaves after the last word', async () => {
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('a'), end({ output_tokens: 3 })];
      const row = await settled({ events, facts: ABORTED });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 3 });
      assert.equal(row.provenance.cost, 'upstream');
      assert.equal(row.aborted, true);
    });

    it('estimates the output of a stream that the upstream broke off', async () => {
      const events = [start({ input_tokens: 10 }), delta('12345678'), ['error', { type: 'error' }] as Event];
      const row = await settled({ events, facts: CUT, typical_cost: 1_000_000 });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 2 });
      assert.equal(row.provenance.input, 'upstream');
      assert.equal(row.provenance.output, 'estimate');
      assert.deepEqual([row.cost_nano_usd, row.possibly_billed_nano_usd], [60_000, 940_000]);
    });

    it('counts cached tokens out of an estimated input', async () => {
      const row = await settled({ events: document({ output_tokens: 1, cache_read_input_tokens: 450 }) });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 50, output: 1, cache_read: 450 });
      assert.equal(row.provenance.input, 'estimate');
      assert.equal(row.provenance.cache_read, 'upstream');
    });
  });

  describe('with numbers that cannot be right', () => {
    for (const wrong of [-5, 1.5, '7', 1e12, true, [1], { n: 1 }, Number.MAX_SAFE_INTEGER]) {
      it(`falls back to estimates for ${JSON.stringify(wrong)} and logs it`, async () => {
        const { stage } = await meter({
          events: document({ input_tokens: wrong, output_tokens: wrong, cache_read_input_tokens: wrong }),
          relayed_bytes: 8,
        });
        assert.deepEqual(stage.settlements[0]!.tokens, { ...NOTHING, input: 500, output: 2 });
        assert.equal(stage.settlements[0]!.provenance.cost, 'estimate');
        assert.equal(stage.log.length, 1);
      });
    }
  });

  it('writes a row of zeros when the request is not charged, and does not look at the response', async () => {
    const { stage, settlements } = await meter({ charge: 'nothing', facts: { 'request.protocol': 'count_tokens' } });
    assert.equal(stage.hooks.event, undefined);
    assert.deepEqual(settlements[0]!.tokens, NOTHING);
    assert.equal(settlements[0]!.cost_nano_usd, 0);
    assert.equal(settlements[0]!.protocol, 'count_tokens');
  });
});

describe('meter-usage, with a response that is not quite as it should be', () => {
  it('estimates what was relayed before an error without reported usage', async () => {
    const failed = ['error', { type: 'error' }] as Event;
    const said = await settled({ events: [start(undefined), delta('12345678'), failed] });
    assert.deepEqual(said.tokens, { ...NOTHING, input: 500, output: 2 });
    assert.equal(said.provenance.cost, 'estimate');
    const begun = await settled({ events: [start(undefined), failed] });
    assert.equal(begun.cost_nano_usd, 0);
  });

  it('does not treat the count of the first event as final when more than that was relayed after it', async () => {
    const words = Array.from({ length: 12 }, () => delta('word '));
    const row = await settled({ events: [start({ input_tokens: 10, output_tokens: 1 }), ...words, end({})] });
    assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 15 });
    assert.deepEqual([row.provenance.input, row.provenance.output], ['upstream', 'estimate']);
    const outcome = await settled({ events: [start({ input_tokens: 10, output_tokens: 12 }), ...words, end({})] });
    assert.equal(outcome.tokens.output, 12);
    assert.equal(outcome.provenance.cost, 'upstream');
    const counted = await settled({ events: [start({ input_tokens: 10 }), ...words, end({ output_tokens: 9 })] });
    assert.equal(counted.tokens.output, 9, 'the last count stands');
    assert.equal(counted.provenance.cost, 'upstream');
  });

  it('reads the usage of an untyped document, and of no other', async () => {
    const usage = { input_tokens: 100, output_tokens: 20 };
    const plain = await settled({ events: [[undefined, { id: 'msg_1', usage }]], relayed_bytes: 400 });
    assert.deepEqual(plain.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(plain.provenance.cost, 'upstream');
    const other = await settled({ events: [[undefined, { type: 'novelty', usage }]], relayed_bytes: 400 });
    assert.deepEqual(other.tokens, { ...NOTHING, input: 500, output: 100 });
  });

  it('reads events without names of their own, as such an event is named message', async () => {
    const events = [start({ input_tokens: 100, output_tokens: 1 }), delta('12345678'), delta('12345678')];
    const unnamed = (list: readonly Event[]) => list.map(([, value]): Event => ['message', value]);
    const cut = await settled({ events: unnamed(events) });
    assert.deepEqual(cut.tokens, { ...NOTHING, input: 100, output: 4 });
    assert.equal(cut.provenance.output, 'estimate');
    const novelty: Event = ['novelty', { type: 'novelty', usage: { output_tokens: 9999 } }];
    const whole = await settled({ events: unnamed([...events, novelty, end({ output_tokens: 20 }), STOP]) });
    assert.deepEqual(whole.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(whole.provenance.cost, 'upstream');
  });

  it('uses the event name if the data has no type', async () => {
    const usage = { input_tokens: 100, output_tokens: 1 };
    const begun: Event = ['message_start', { message: { usage } }];
    const ended: Event = ['message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20 } }];
    const row = await settled({ events: [begun, delta('Hi'), ended] });
    assert.deepEqual(row.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(row.provenance.cost, 'upstream');
  });
});

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
  it('is that of the day of arrival, at the serving upstream', async () => {
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

/** Nano-USD of an output token of the harness's model. */
const OUTPUT = 15_000;

/** Facts of a request that reserves less than it can cost. */
function typical(reserved: number, most: number) {
  return { 'spend.reserved_nano_usd': reserved, 'spend.most_nano_usd': most };
}

/** Deltas of one token each. */
function tokens(count: number): Event[] {
  return Array.from({ length: count }, () => delta('abcd'));
}

async function toppedUp(events: readonly Event[], facts: object, config?: Partial<GatewayConfig>): Promise<number[]> {
  const { stage } = await meter({ events, facts, ...(config && { config }) });
  for (const { request_id } of stage.topped_up) assert.equal(request_id, 'req-1');
  return stage.topped_up.map(({ amount_nano_usd }) => amount_nano_usd);
}

describe('meter-usage, during a stream', () => {
  it('reserves twice the current cost once four fifths of the reservation are spent', async () => {
    const reserved = 100 * OUTPUT;
    const facts = typical(reserved, 1_000_000 * OUTPUT);
    const input = start({ input_tokens: 0 });
    assert.deepEqual(await toppedUp([input, ...tokens(80)], facts), []);
    assert.deepEqual(await toppedUp([input, ...tokens(81)], facts), [162 * OUTPUT]);
    assert.deepEqual(await toppedUp([input, ...tokens(129)], facts), [162 * OUTPUT]);
    assert.deepEqual(await toppedUp([input, ...tokens(130)], facts), [162 * OUTPUT, 260 * OUTPUT]);
  });

  it('does so whatever protocol the upstream speaks', async () => {
    const facts = (protocol: string) => ({ ...typical(100 * OUTPUT, 1_000_000 * OUTPUT), 'route.protocol': protocol });
    const chunk = (delta: object, usage: object | null = null): Event => ['message', { choices: [{ delta }], usage }];
    const begun = chunk({ role: 'assistant', content: '' }, { prompt_tokens: 0, completion_tokens: 0 });
    const said = Array.from({ length: 81 }, () => chunk({ content: 'abcd' }));
    assert.deepEqual(await toppedUp([begun, ...said.slice(1)], facts('chat')), []);
    assert.deepEqual(await toppedUp([begun, ...said], facts('chat')), [162 * OUTPUT]);
    // Responses has usage only at the end: 500 x 3000 is a hundred tokens of output.
    const type = 'response.output_text.delta';
    const deltas = Array.from({ length: 41 }, (): Event => [type, { type, delta: 'abcd' }]);
    const roomy = { ...facts('responses'), 'spend.reserved_nano_usd': 175 * OUTPUT };
    assert.deepEqual(await toppedUp(deltas.slice(1), roomy), []);
    assert.deepEqual(await toppedUp(deltas, roomy), [2 * 141 * OUTPUT]);
  });

  it('counts the input as soon as the upstream reports it, cached or not', async () => {
    // 1000 x 3000 + 1000 x 300 = 3,300,000 of 4,000,000 reserved.
    const input = start({ input_tokens: 1000, cache_read_input_tokens: 1000 });
    assert.deepEqual(await toppedUp([input], typical(4_000_000, 50_000_000)), [6_600_000]);
    assert.deepEqual(await toppedUp([input], typical(5_000_000, 50_000_000)), []);
  });

  it('uses the estimate for the input until then', async () => {
    // 500 x 3000 = 1,500,000, and a token.
    assert.deepEqual(await toppedUp(tokens(1), typical(1_600_000, 50_000_000)), [2 * (1_500_000 + OUTPUT)]);
  });

  it("trusts an upstream's count above the relayed part", async () => {
    const events = [start({ input_tokens: 0 }), delta('abcd'), end({ output_tokens: 90 }, null)];
    assert.deepEqual(await toppedUp(events, typical(100 * OUTPUT, 1000 * OUTPUT)), [180 * OUTPUT]);
  });

  it('counts the fees of tools that begin', async () => {
    const [model] = stageConfig().models;
    const config = { models: [{ ...model!, pricing: { ...model!.pricing!, server_tools: { web_search: 10 } } }] };
    const block = { type: 'content_block_start', content_block: { type: 'server_tool_use', name: 'web_search' } };
    const events: Event[] = [start({ input_tokens: 0 }), delta('abcd'), ['content_block_start', block]];
    assert.deepEqual(await toppedUp(events, typical(11_000_000, 90_000_000), config), [2 * (10_000_000 + OUTPUT)]);
  });

  it('reserves no more when the maximum is reserved, or nothing is', async () => {
    const events = [start({ input_tokens: 0 }), ...tokens(500)];
    const all = 100 * OUTPUT;
    assert.deepEqual(await toppedUp(events, typical(all, all)), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': all }), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': undefined }), []);
  });

  it('reserves no more where output is free', async () => {
    const [model] = stageConfig().models;
    const config = { models: [{ ...model!, pricing: { input: 3, output: 0 } }] };
    const facts = typical(10_000, 20_000);
    assert.deepEqual(await toppedUp([start({ input_tokens: 1 }), ...tokens(50)], facts, config), []);
    const later = [start({}), ...tokens(50), start({ input_tokens: 3 })];
    assert.deepEqual(await toppedUp(later, { ...facts, 'request.input_tokens_estimate': 0 }, config), [18_000]);
  });

  it('reserves a number of times that grows with the logarithm of the response', async () => {
    const raised = await toppedUp([start({ input_tokens: 0 }), ...tokens(20_000)], typical(OUTPUT, 1e9 * OUTPUT));
    assert.ok(raised.length > 5 && raised.length <= 20, `${raised.length} times`);
  });

  it('has reserved enough for its charge at any moment, within the maximum cost', async () => {
    const burst = fc.record({ texts: fc.array(fc.string({ maxLength: 40 }), { maxLength: 60 }), input: fc.nat(2000) });
    await fc.assert(
      fc.asyncProperty(burst, fc.nat(5_000_000), fc.nat(9_000_000), async ({ texts, input }, reserved, more) => {
        const most = reserved + more;
        const events = [start({ input_tokens: input, output_tokens: 0 }), ...texts.map(delta)];
        const { stage, settlements } = await meter({ events, facts: { ...CUT, ...typical(reserved, most) } });
        const amounts = [reserved, ...stage.topped_up.map(({ amount_nano_usd }) => amount_nano_usd)];
        for (let i = 1; i < amounts.length; i++) assert.ok(amounts[i]! > amounts[i - 1]!, 'a hold only grows');
        assert.ok(amounts.at(-1)! <= most);
        assert.ok(settlements[0]!.cost_nano_usd <= amounts.at(-1)!);
      }),
    );
  });

  it('charges an estimate up to the maximum cost, not only the reservation', async () => {
    const facts = { ...CUT, ...typical(1000, 10 * OUTPUT) };
    const { settlements } = await meter({ events: [start({ input_tokens: 0 }), ...tokens(9)], facts });
    assert.equal(settlements[0]!.cost_nano_usd, 9 * OUTPUT);
    const { settlements: cut } = await meter({ events: [start({ input_tokens: 0 }), ...tokens(30)], facts });
    assert.equal(cut[0]!.cost_nano_usd, 10 * OUTPUT);
  });
});
