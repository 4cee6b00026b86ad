import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig } from '../../../engine/api.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { CUT, delta, type Event, end, meter, start } from './metered.ts';

/** Nano-USD of an output token of the harness's model. */
const OUTPUT = 15_000;

/** Facts of a request that holds less than it can cost. */
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

describe('meter-usage, while a stream goes on', () => {
  it('holds twice the cost so far once four fifths of what is reserved are spent', async () => {
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
    // Responses tell usage only at the end: 500 x 3000 is a hundred tokens of output.
    const type = 'response.output_text.delta';
    const deltas = Array.from({ length: 41 }, (): Event => [type, { type, delta: 'abcd' }]);
    const roomy = { ...facts('responses'), 'spend.reserved_nano_usd': 175 * OUTPUT };
    assert.deepEqual(await toppedUp(deltas.slice(1), roomy), []);
    assert.deepEqual(await toppedUp(deltas, roomy), [2 * 141 * OUTPUT]);
  });

  it('never holds more than the request can cost, and then asks no more', async () => {
    const events = [start({ input_tokens: 0 }), ...tokens(2000)];
    assert.deepEqual(await toppedUp(events, typical(100 * OUTPUT, 150 * OUTPUT)), [150 * OUTPUT]);
  });

  it('counts the input as soon as the upstream tells it, cached or not', async () => {
    // 1000 x 3000 + 1000 x 300 = 3,300,000 of 4,000,000 reserved.
    const input = start({ input_tokens: 1000, cache_read_input_tokens: 1000 });
    assert.deepEqual(await toppedUp([input], typical(4_000_000, 50_000_000)), [6_600_000]);
    assert.deepEqual(await toppedUp([input], typical(5_000_000, 50_000_000)), []);
  });

  it('takes the estimate for the input until then', async () => {
    // 500 x 3000 = 1,500,000, and a token.
    assert.deepEqual(await toppedUp(tokens(1), typical(1_600_000, 50_000_000)), [2 * (1_500_000 + OUTPUT)]);
  });

  it('believes a count of the upstream that is larger than what was relayed', async () => {
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

  it('asks for nothing when the most it can cost is reserved, or nothing is', async () => {
    const events = [start({ input_tokens: 0 }), ...tokens(500)];
    const all = 100 * OUTPUT;
    assert.deepEqual(await toppedUp(events, typical(all, all)), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': all }), []);
    assert.deepEqual(await toppedUp(events, { 'spend.reserved_nano_usd': undefined }), []);
  });

  it('asks for nothing where output costs nothing', async () => {
    const [model] = stageConfig().models;
    const config = { models: [{ ...model!, pricing: { input: 3, output: 0 } }] };
    const facts = typical(10_000, 20_000);
    assert.deepEqual(await toppedUp([start({ input_tokens: 1 }), ...tokens(50)], facts, config), []);
    const later = [start({}), ...tokens(50), start({ input_tokens: 3 })];
    assert.deepEqual(await toppedUp(later, { ...facts, 'request.input_tokens_estimate': 0 }, config), [18_000]);
  });

  it('asks a number of times that grows with the logarithm of the answer', async () => {
    const raised = await toppedUp([start({ input_tokens: 0 }), ...tokens(20_000)], typical(OUTPUT, 1e9 * OUTPUT));
    assert.ok(raised.length > 5 && raised.length <= 20, `${raised.length} times`);
  });

  it('has reserved enough for what it charges at any moment, as far as the request can cost it', async () => {
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

  it('charges a guess up to the most it can cost, not only what was reserved', async () => {
    const facts = { ...CUT, ...typical(1000, 10 * OUTPUT) };
    const { settlements } = await meter({ events: [start({ input_tokens: 0 }), ...tokens(9)], facts });
    assert.equal(settlements[0]!.cost_nano_usd, 9 * OUTPUT);
    const { settlements: cut } = await meter({ events: [start({ input_tokens: 0 }), ...tokens(30)], facts });
    assert.equal(cut[0]!.cost_nano_usd, 10 * OUTPUT);
  });

  it('goes on after the final count', async () => {
    const events = [start({ input_tokens: 0 }), ...tokens(10), end({ output_tokens: 10 })];
    assert.deepEqual(await toppedUp(events, typical(1_000_000, 2_000_000)), []);
  });
});
