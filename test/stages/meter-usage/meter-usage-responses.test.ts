import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Facts, stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { ABORTED, type Event, type Metered, NOTHING, settled } from './metered.ts';

const FACTS: Facts = { 'request.protocol': 'responses', 'route.protocol': 'responses', 'request.cache.ttl': '1h' };
const [coder] = stageConfig().models;
const WITH_FEES = { models: [{ ...coder!, pricing: { ...coder!.pricing!, server_tools: { web_search: 10 } } }] };
const bill = ({ facts, ...response }: Metered) =>
  settled({ config: WITH_FEES, ...response, facts: { ...FACTS, ...facts } });

const event = (type: string, fields: object = {}): Event => [type, { type, sequence_number: 1, ...fields }];
const OF_TEXT = { item_id: 'msg_1', output_index: 0, content_index: 0, logprobs: [], obfuscation: 'xxxxxxx' };
const delta = (text: string, type = 'response.output_text.delta') => event(type, { ...OF_TEXT, delta: text });
const ends = (usage: unknown, status = 'completed', more: object = {}): Event =>
  event(`response.${status}`, { response: { id: 'resp_1', object: 'response', status, output: [], usage, ...more } });
const CREATED = event('response.created', { response: { id: 'resp_1', status: 'in_progress', usage: null } });
const searched = (action: object = { type: 'search', query: 'x' }): Event =>
  event('response.output_item.done', { item: { type: 'web_search_call', id: 'ws_1', status: 'completed', action } });

const USAGE = {
  input_tokens: 2130,
  input_tokens_details: { cached_tokens: 2000, cache_write_tokens: 30 },
  output_tokens: 40,
  output_tokens_details: { reasoning_tokens: 15 },
  total_tokens: 2170,
};
const TOKENS = { ...NOTHING, input: 100, cache_read: 2000, cache_write_1h: 30, output: 40 };
/** As upstreams send it that leave `event:` out. */
const unnamed = ([, value]: Event): Event => ['message', value];

describe('metering of Responses', () => {
  it('bills a document and a stream the same, however they end and whether or not events have names', async () => {
    const stream = [CREATED, delta('Hello'), ends(USAGE)];
    const responses: Event[][] = [
      [[undefined, { object: 'response', status: 'completed', output: [], usage: USAGE }]],
      stream,
      stream.map(unnamed),
      [CREATED, delta('Hello'), ends(USAGE, 'incomplete')],
      [CREATED, delta('Hello'), ends(USAGE, 'failed')],
    ];
    for (const events of responses) {
      const { tokens, provenance, cost_nano_usd } = await bill({ events });
      assert.deepEqual(tokens, TOKENS);
      assert.equal(cost_nano_usd, 100 * 3000 + 2000 * 300 + 30 * 6000 + 40 * 15_000);
      assert.equal(provenance.cost, 'upstream');
    }
  });

  it("estimates a truncated stream by the model's text, with anything around it", async () => {
    const kinds = ['output_text', 'reasoning_text', 'reasoning_summary_text', 'refusal', 'function_call_arguments'];
    const events = [CREATED, ...kinds.map((kind) => delta('x'.repeat(8), `response.${kind}.delta`))];
    for (const said of [events, events.map(unnamed)]) {
      const { tokens, provenance } = await bill({ events: said, facts: ABORTED });
      assert.deepEqual(tokens, { ...NOTHING, input: 500, output: 10 });
      assert.equal(provenance.output, 'abort');
    }
    const odd = await bill({ events: [delta('\\"\\'), delta(''), delta('', 'response.audio.delta')] });
    assert.equal(odd.tokens.output, 2);
  });

  it('estimates text in the last event alone, without usage, and not repetitions there', async () => {
    const output = [
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x'.repeat(400) }] },
      { type: 'function_call', name: 'f', call_id: 'c', arguments: 'y'.repeat(80) },
    ];
    const instructions = [{ role: 'developer', content: [{ type: 'input_text', text: 'z'.repeat(4000) }] }];
    const outputOf = async (...events: Event[]) => (await bill({ events: [CREATED, ...events] })).tokens.output;
    const whole = ends(null, 'completed', { instructions, output });
    assert.equal(await outputOf(whole), 480 / 4);
    assert.equal(await outputOf(unnamed(whole)), 480 / 4);
    assert.equal(await outputOf(delta('x'.repeat(40)), whole), 10);
    assert.equal(await outputOf(ends(USAGE, 'completed', { output })), 40);
  });

  it("counts searches by their items, and neither opened pages nor the model's text", async () => {
    const opened = searched({ type: 'open_page', url: 'https://example.com' });
    const said = event('response.output_item.done', {
      item: { type: 'message', content: [{ type: 'output_text', text: '"type":"web_search_call"' }] },
    });
    const { server_tools, cost_nano_usd } = await bill({ events: [searched(), opened, said, searched(), ends(USAGE)] });
    assert.deepEqual({ ...server_tools }, { web_search: 2 });
    assert.equal(cost_nano_usd, 1_680_000 + 20_000_000);
    const output = [{ type: 'web_search_call', action: { type: 'search' } }, { type: 'message' }, null];
    const document = await bill({ events: [[undefined, { object: 'response', output, usage: USAGE }]] });
    assert.deepEqual({ ...document.server_tools }, { web_search: 1 });
    assert.equal((await bill({ events: [said, ends(USAGE)] })).server_tools, undefined);
  });

  it("prefers the upstream's number of searches to the observed one", async () => {
    const uses = async (web_search: unknown) => {
      const end = ends(USAGE, 'completed', { tool_usage: { web_search } });
      return (await bill({ events: [searched(), end] })).server_tools?.web_search;
    };
    assert.equal(await uses({ num_requests: 3 }), 3);
    assert.equal(await uses({ num_requests: 0 }), undefined);
    assert.equal(await uses({ num_requests: 'many' }), 1);
    assert.equal(await uses(null), 1);
  });

  it('charges searches of a stream that was cut off', async () => {
    const { server_tools, provenance } = await bill({ events: [CREATED, searched(), searched()], facts: ABORTED });
    assert.deepEqual({ ...server_tools }, { web_search: 2 });
    assert.equal(provenance.server_tools, 'abort');
  });
});
