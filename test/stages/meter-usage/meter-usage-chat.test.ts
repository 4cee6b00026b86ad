import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Facts } from '../../../engine/edge/simulate/stage-harness.ts';
import { ABORTED, type Event, type Metered, NOTHING, settled } from './metered.ts';

const CHAT: Facts = { 'request.protocol': 'chat', 'route.protocol': 'chat', 'request.cache.ttl': 'none' };
const bill = ({ facts, ...response }: Metered) => settled({ ...response, facts: { ...CHAT, ...facts } });

const chunk = (fields: object): Event => [
  'message',
  { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'up', ...fields },
];
const says = (delta: object, more: object = {}): Event =>
  chunk({ choices: [{ index: 0, delta, logprobs: null, finish_reason: null }], ...more });
const stops = (more: object = {}): Event =>
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], ...more });
const counts = (usage: unknown): Event => chunk({ choices: [], usage });
const DONE: Event = ['message', '[DONE]'];

const USAGE = {
  prompt_tokens: 2130,
  completion_tokens: 40,
  total_tokens: 2170,
  prompt_tokens_details: { cached_tokens: 2000, cache_write_tokens: 30 },
  completion_tokens_details: { reasoning_tokens: 15 },
};
const TOKENS = { ...NOTHING, input: 100, cache_read: 2000, cache_write_5m: 30, output: 40 };
const document = (usage: unknown): Event[] => [
  [
    undefined,
    { object: 'chat.completion', choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }], usage },
  ],
];

describe('metering of chat completions', () => {
  it('estimates text that a stream sends whole, without deltas and without usage, and not repetitions', async () => {
    const call = { type: 'function', function: { name: 'f', arguments: 'y'.repeat(80) } };
    const message = { role: 'assistant', content: 'x'.repeat(400), tool_calls: [call] };
    const whole: Event = ['message', { choices: [{ index: 0, message, finish_reason: 'stop' }] }];
    const outputOf = async (events: Event[]) => (await bill({ events: [...events, DONE] })).tokens.output;
    assert.equal(await outputOf([whole]), 480 / 4);
    assert.equal(await outputOf([says({ content: 'x'.repeat(40) }), whole]), 10);
    assert.equal(await outputOf([['message', { error: { message: 'content' } }]]), 0);
  });

  it('bills cache writes by the last usage alone, with or without their lifetimes', async () => {
    const written = { cache_write_tokens: 30, cache_write_tokens_details: { ttl_12h_tokens: 30 } };
    const earlier = { ...USAGE, prompt_tokens_details: { cached_tokens: 2000, ...written } };
    const { tokens } = await bill({ events: [counts(earlier), says({ content: 'Hi' }), stops(), counts(USAGE), DONE] });
    assert.deepEqual(tokens, TOKENS);
  });

  it('adds output that only the total includes, as some leave reasoning out of everything else', async () => {
    const outputOf = async (usage: object) => (await bill({ events: document({ ...USAGE, ...usage }) })).tokens.output;
    assert.equal(await outputOf({ total_tokens: 2130 + 40 + 15 }), 55);
    assert.equal(await outputOf({ total_tokens: undefined }), 40);
    assert.equal(await outputOf({ total_tokens: 2130 + 40 + 16 }), 56);
    assert.equal(await outputOf({ total_tokens: 2185, completion_tokens_details: null }), 55);
    assert.equal(await outputOf({ total_tokens: 100 }), 40);
  });

  it('estimates an uncounted stream by its content: text, reasoning, refusals and arguments', async () => {
    const call = { tool_calls: [{ index: 0, function: { arguments: '{"path":"a.ts"}' } }] };
    const text = 'x'.repeat(40);
    const deltas = [{ content: '' }, { reasoning_content: text }, { content: text }, { refusal: text }, call];
    const { tokens, provenance } = await bill({ events: [...deltas.map((one) => says(one)), stops(), DONE] });
    // 120 letters and 19 as the arguments are spelt inside JSON.
    assert.deepEqual([tokens.output, tokens.input, provenance.output], [Math.ceil(139 / 4), 500, 'estimate']);
    const short = await bill({ events: ['a', 'b', 'c', '"'].map((content) => says({ content })) });
    assert.equal(short.tokens.output, 4);
  });

  it('does not treat a count in the middle of a stream as final, though the stream ends well', async () => {
    const so_far = { prompt_tokens: 100, completion_tokens: 1 };
    const word = (text: string) => says({ content: text });
    const events = [says({ content: 'x'.repeat(40) }, { usage: so_far }), word('y'), word('z'), stops(), DONE];
    const { tokens, provenance } = await bill({ events });
    assert.equal(tokens.output, Math.ceil(42 / 4));
    assert.equal(provenance.output, 'estimate');
  });

  it('counts an aborted stream as at least the usage reported until then', async () => {
    const so_far = { prompt_tokens: 100, completion_tokens: 9 };
    const { tokens, provenance } = await bill({ events: [says({ content: 'Hi' }, { usage: so_far })], facts: ABORTED });
    assert.deepEqual(tokens, { ...NOTHING, input: 100, output: 9 });
    assert.deepEqual([provenance.input, provenance.output], ['upstream', 'abort']);
  });

  it("is not misled by the model's text", async () => {
    const json = ['"usage":{"completion_tokens":1}', '"finish_reason":"stop"', '"delta":"'];
    const words = ['usage', 'error', ...json, '\\', '\\"'];
    const events = [...words.map((content) => says({ content })), stops(), counts(USAGE)];
    assert.deepEqual((await bill({ events })).tokens, TOKENS);
  });

  it('reads chunks with blanks between keys and values', async () => {
    const spaced = (value: unknown): Event => ['message', JSON.stringify(value, null, 1).replaceAll('\n', '')];
    const delta = { choices: [{ index: 0, delta: { content: 'x'.repeat(20) }, finish_reason: null }], usage: null };
    const { tokens } = await bill({ events: [spaced(delta)] });
    assert.equal(tokens.output, 5);
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE };
    assert.deepEqual((await bill({ events: [spaced(delta), spaced(last)] })).tokens, TOKENS);
  });
});
