import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../../engine/api.ts';
import { openStage, type StageHarness, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import {
  ABORTED,
  billed,
  CUT,
  delta,
  document,
  type Event,
  end,
  FORWARDED,
  inWords,
  meter,
  NOTHING,
  STOP,
  settled,
  start,
} from './metered.ts';

const FAILED: Event = ['error', { type: 'error' }];
const WORDS = Array.from({ length: 12 }, () => delta('word '));

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
    const found = stage.log.map(({ level, message }) => `${level}: ${message}`);
    assert.deepEqual(found, ['error: a request could not be settled']);
  });

  it('reports a missing reservation', async () => {
    assert.equal((await settled({ facts: { 'spend.reserved_nano_usd': undefined } })).reserved, false);
  });

  describe('when the response is not complete', () => {
    const LEFT_EARLY = { ...ABORTED, 'upstream.status': undefined, 'request.input_tokens_max': 2000 };
    const left = (...events: Event[]) => billed({ events, facts: ABORTED });

    it('charges the typical cost when a client leaves before the upstream responds, or the maximum', async () => {
      const { status, aborted } = await settled({ facts: LEFT_EARLY });
      assert.deepEqual([status, aborted], [null, true]);
      for (const [typical_cost, cost] of [
        [undefined, '1000000000 (most)'],
        [40_000_000, '40000000 (learned)'],
        [2_000_000_000, '1000000000 (most)'],
        [1000, '6000000 (abort)'],
      ] as const) {
        const response = { facts: LEFT_EARLY, ...(typical_cost !== undefined && { typical_cost }) };
        assert.equal(await billed(response), `2000 input (abort), cost ${cost}`);
      }
    });

    it('charges nothing when the upstream never responds, and records its possible bill', async () => {
      for (const status of [undefined, 500, 502, 504]) {
        const response = { facts: { 'upstream.status': status }, typical_cost: 40_000_000 };
        const { settlements, written } = await meter(response);
        assert.equal(inWords(settlements[0]!), 'cost 0 (estimate), possibly 40000000 more');
        assert.equal(written['usage.possibly_billed_nano_usd'], 40_000_000);
      }
      const most = 'cost 0 (estimate), possibly 1000000000 more';
      assert.equal(await billed({ facts: { 'upstream.status': undefined } }), most, 'while nothing is known');
    });

    it('charges nothing for a page, and records an empty response apart', async () => {
      const facts = { 'error.code': 'upstream_invalid' };
      assert.match(await billed({ facts, relayed_bytes: 400 }), /^cost 0(?: \(\w+\))?$/);
      assert.match(await billed({ facts, typical_cost: 40_000_000 }), /^cost 0(?: \(\w+\))?, possibly 40000000 more$/);
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

    it('charges an aborted stream by the relayed part, or by a count of the upstream', async () => {
      const begun = start({ input_tokens: 10, output_tokens: 1 });
      // Twelve deltas of five characters: 15 tokens by length, more than one for each delta.
      assert.equal(await left(begun, ...WORDS), '10 input, 15 output (abort), cost 1000000000 (most)');
      const larger = end({ output_tokens: 90 }, null);
      assert.equal(await left(begun, delta('a'), larger), '10 input, 90 output (abort), cost 1000000000 (most)');
      assert.equal(await left(begun, delta('a'), end({ output_tokens: 3 })), '10 input, 3 output, cost 75000', 'final');
    });

    it('estimates the output of a stream that the upstream broke off', async () => {
      const events = [start({ input_tokens: 10 }), delta('12345678'), FAILED];
      const bill = await billed({ events, facts: CUT, typical_cost: 1_000_000 });
      assert.equal(bill, '10 input, 2 output (estimate), cost 60000 (estimate), possibly 940000 more');
    });
  });

  it('falls back to estimates for numbers that cannot be right, and logs them', async () => {
    for (const wrong of [-5, 1.5, '7', 1e12, true, [1], { n: 1 }, Number.MAX_SAFE_INTEGER]) {
      const usage = { input_tokens: wrong, output_tokens: wrong, cache_read_input_tokens: wrong };
      const { stage, settlements } = await meter({ events: document(usage), relayed_bytes: 8 });
      const bill = '500 input (estimate), 2 output (estimate), cost 1530000 (estimate)';
      assert.equal(inWords(settlements[0]!), bill, JSON.stringify(wrong));
      assert.equal(stage.log.length, 1);
    }
  });

  it('writes a row of zeros when the request is not charged, and does not look at the response', async () => {
    const { stage, settlements } = await meter({ charge: 'nothing', facts: { 'request.protocol': 'count_tokens' } });
    assert.equal(stage.hooks.event, undefined);
    assert.match(inWords(settlements[0]!), /^cost 0\b/);
    assert.equal(settlements[0]!.protocol, 'count_tokens');
  });
});

describe('meter-usage, with a response that is not quite as it should be', () => {
  const WHOLE = '100 input, 20 output, cost 600000';

  it('estimates what was relayed before an error without reported usage', async () => {
    const said = await billed({ events: [start(undefined), delta('12345678'), FAILED] });
    assert.match(said, /^500 input \(estimate\), 2 output \(estimate\), cost \d+ \(estimate\)/);
    assert.match(await billed({ events: [start(undefined), FAILED] }), /^cost 0\b/);
  });

  it('does not treat the count of the first event as final when more than that was relayed after it', async () => {
    const with_first = (usage: object, last = {}) => billed({ events: [start(usage), ...WORDS, end(last)] });
    const estimated = '10 input, 15 output (estimate), cost 255000 (estimate)';
    assert.equal(await with_first({ input_tokens: 10, output_tokens: 1 }), estimated);
    assert.equal(await with_first({ input_tokens: 10, output_tokens: 12 }), '10 input, 12 output, cost 210000');
    const last = { output_tokens: 9 };
    assert.equal(await with_first({ input_tokens: 10 }, last), '10 input, 9 output, cost 165000', 'the last count');
  });

  it('reads the usage of an untyped document, and of no other', async () => {
    const of = (value: object) => billed({ events: [[undefined, value]], relayed_bytes: 400 });
    const usage = { input_tokens: 100, output_tokens: 20 };
    assert.equal(await of({ id: 'msg_1', usage }), WHOLE);
    assert.match(await of({ type: 'novelty', usage }), /^500 input \(estimate\), 100 output \(estimate\), /);
  });

  it('reads events without names of their own, as such an event is named message', async () => {
    const events = [start({ input_tokens: 100, output_tokens: 1 }), delta('12345678'), delta('12345678')];
    const unnamed = (list: readonly Event[]) => billed({ events: list.map(([, value]): Event => ['message', value]) });
    assert.match(await unnamed(events), /^100 input, 4 output \(estimate\), /);
    const novelty: Event = ['novelty', { type: 'novelty', usage: { output_tokens: 9999 } }];
    assert.equal(await unnamed([...events, novelty, end({ output_tokens: 20 }), STOP]), WHOLE);
  });

  it('uses the event name if the data has no type', async () => {
    const usage = { input_tokens: 100, output_tokens: 1 };
    const begun: Event = ['message_start', { message: { usage } }];
    const ended: Event = ['message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20 } }];
    assert.equal(await billed({ events: [begun, delta('Hi'), ended] }), WHOLE);
  });
});

const [CODER] = stageConfig().models;
/** Fees for tools: 10,000,000 nano-USD per search and 500,000 per fetch. */
const FEES = { server_tools: { web_search: 10, web_fetch: 0.5 } };
const WITH_FEES: Partial<GatewayConfig> = { models: [{ ...CODER!, pricing: { ...CODER!.pricing!, ...FEES } }] };

function begin(name: string, type = 'server_tool_use'): Event {
  const value = { type: 'content_block_start', index: 0, content_block: { type, id: 'srvtoolu_1', name, input: {} } };
  return ['content_block_start', value];
}

const warningsOf = ({ log }: StageHarness) => log.map(({ level, fields }) => ({ level, ...fields }));

const TOKENS = { input_tokens: 10, output_tokens: 2 };
/** 10 x 3000 + 2 x 15000 */
const TOKEN_COST = 60_000;

describe('meter-usage, for tools that the upstream runs', () => {
  it('charges the uses that a document reports', async () => {
    const usage = { ...TOKENS, server_tool_use: { web_search_requests: 3, web_fetch_requests: 1 } };
    const { written, settlements } = await meter({ events: document(usage), config: WITH_FEES });
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
    const row = await settled({ events, facts: ABORTED, config: WITH_FEES, typical_cost: 1 });
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
    const { cost_nano_usd, server_tools, provenance } = settlements[1]!;
    assert.deepEqual([cost_nano_usd, provenance.server_tools], [TOKEN_COST, 'unpriced']);
    assert.deepEqual(server_tools, { web_search: 1 });
    assert.deepEqual(warningsOf(stage), [{ level: 'warn', model: 'coder-1', tool: 'web_search' }]);
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
    assert.deepEqual(warningsOf(stage), [{ level: 'warn', model: 'coder-1' }]);
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
    const events = [start({ input_tokens: 0 }), delta('abcd'), begin('web_search')];
    assert.deepEqual(await toppedUp(events, typical(11_000_000, 90_000_000), WITH_FEES), [2 * (10_000_000 + OUTPUT)]);
  });

  it('reserves no more when the maximum is reserved, or nothing is', async () => {
    const events = [start({ input_tokens: 0 }), ...tokens(500)];
    const all = 100 * OUTPUT;
    assert.deepEqual(await toppedUp(events, typical(all, all)), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': all }), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': undefined }), []);
  });

  it('reserves no more where output is free', async () => {
    const config = { models: [{ ...CODER!, pricing: { input: 3, output: 0 } }] };
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
