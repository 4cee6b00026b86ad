import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Facts } from '../../../engine/simulate/stage-harness.ts';
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
  it('bills a document by its usage, of which cached tokens are a part', async () => {
    const { tokens, provenance, cost_nano_usd } = await bill({ events: document(USAGE) });
    assert.deepEqual(tokens, TOKENS);
    assert.equal(cost_nano_usd, 100 * 3000 + 2000 * 300 + 30 * 3750 + 40 * 15_000);
    assert.equal(provenance.cost, 'upstream');
  });

  it('bills a stream the same wherever its usage comes: alone at the end, with the stop, in every chunk or several times', async () => {
    const hello = says({ content: 'Hello' });
    const earlier = { ...USAGE, completion_tokens: 1, total_tokens: 2131 };
    const streams: Event[][] = [
      [hello, stops(), counts(USAGE), DONE],
      [hello, stops({ usage: USAGE }), DONE],
      [says({ content: 'Hello' }, { usage: null }), stops({ usage: null }), counts(USAGE)],
      [says({ content: 'Hello' }, { usage: earlier }), stops({ usage: USAGE })],
      [counts(earlier), hello, stops(), counts(USAGE), counts(USAGE), DONE],
    ];
    for (const events of streams) {
      const { tokens, provenance } = await bill({ events });
      assert.deepEqual(tokens, TOKENS);
      assert.equal(provenance.cost, 'upstream');
    }
  });

  it('estimates what a stream says whole, without deltas and without a usage, and not what it repeats', async () => {
    const call = { type: 'function', function: { name: 'f', arguments: 'y'.repeat(80) } };
    const message = { role: 'assistant', content: 'x'.repeat(400), tool_calls: [call] };
    const whole: Event = ['message', { choices: [{ index: 0, message, finish_reason: 'stop' }] }];
    const outputOf = async (events: Event[]) => (await bill({ events: [...events, DONE] })).tokens.output;
    assert.equal(await outputOf([whole]), 480 / 4);
    assert.equal(await outputOf([says({ content: 'x'.repeat(40) }), whole]), 10);
    assert.equal(await outputOf([['message', { error: { message: 'content' } }]]), 0);
  });

  it('bills cache writes by the last usage alone, whether or not it tells their lifetimes', async () => {
    const written = { cache_write_tokens: 30, cache_write_tokens_details: { ttl_12h_tokens: 30 } };
    const earlier = { ...USAGE, prompt_tokens_details: { cached_tokens: 2000, ...written } };
    const { tokens } = await bill({ events: [counts(earlier), says({ content: 'Hi' }), stops(), counts(USAGE), DONE] });
    assert.deepEqual(tokens, TOKENS);
  });

  it('adds to the output what only the total has, as some leave reasoning out of everything else', async () => {
    const outputOf = async (usage: object) => (await bill({ events: document({ ...USAGE, ...usage }) })).tokens.output;
    assert.equal(await outputOf({ total_tokens: 2130 + 40 + 15 }), 55);
    assert.equal(await outputOf({ total_tokens: undefined }), 40);
    assert.equal(await outputOf({ total_tokens: 2130 + 40 + 16 }), 56);
    assert.equal(await outputOf({ total_tokens: 2185, completion_tokens_details: null }), 55);
    assert.equal(await outputOf({ total_tokens: 100 }), 40);
  });

  it('reads what some upstreams call cached tokens', async () => {
    const usage = {
      prompt_tokens: 100,
      prompt_cache_hit_tokens: 60,
      prompt_cache_miss_tokens: 40,
      completion_tokens: 5,
    };
    assert.deepEqual((await bill({ events: document(usage) })).tokens, {
      ...NOTHING,
      input: 40,
      cache_read: 60,
      output: 5,
    });
  });

  it('estimates what a stream never counted by what it said: text, reasoning, refusals and arguments', async () => {
    const call = { tool_calls: [{ index: 0, function: { arguments: '{"path":"a.ts"}' } }] };
    const events = [
      says({ role: 'assistant', content: '' }),
      says({ reasoning_content: 'x'.repeat(40) }),
      says({ content: 'x'.repeat(40) }),
      says({ refusal: 'x'.repeat(40) }),
      says(call),
      stops(),
      DONE,
    ];
    const { tokens, provenance } = await bill({ events });
    // 120 letters and 19 as the arguments are spelt inside JSON.
    assert.equal(tokens.output, Math.ceil(139 / 4));
    assert.equal(tokens.input, 500);
    assert.equal(provenance.output, 'estimate');
    const short = await bill({ events: ['a', 'b', 'c', '"'].map((content) => says({ content })) });
    assert.equal(short.tokens.output, 4);
  });

  it('takes what was counted in the middle of a stream for no final count, though the stream ends well', async () => {
    const so_far = { prompt_tokens: 100, completion_tokens: 1 };
    const word = (text: string) => says({ content: text });
    const events = [says({ content: 'x'.repeat(40) }, { usage: so_far }), word('y'), word('z'), stops(), DONE];
    const { tokens, provenance } = await bill({ events });
    assert.equal(tokens.output, Math.ceil(42 / 4));
    assert.equal(provenance.output, 'estimate');
  });

  it('counts an aborted stream as at least what was reported until then', async () => {
    const so_far = { prompt_tokens: 100, completion_tokens: 9 };
    const { tokens, provenance } = await bill({ events: [says({ content: 'Hi' }, { usage: so_far })], facts: ABORTED });
    assert.deepEqual(tokens, { ...NOTHING, input: 100, output: 9 });
    assert.deepEqual([provenance.input, provenance.output], ['upstream', 'abort']);
  });

  it('charges several answers that were never counted for up to all of their bounds', async () => {
    const events = Array.from({ length: 30 }, () => says({ content: 'word' }));
    const bounded = { 'request.max_tokens': 10 };
    assert.equal((await bill({ events, facts: bounded })).tokens.output, 10);
    assert.equal((await bill({ events, facts: { ...bounded, 'request.choices': 2 } })).tokens.output, 20);
  });

  it('charges nothing for an error in the place of an answer, and what was said for one in its middle', async () => {
    const error = { error: { message: 'overloaded', code: 502 } };
    for (const event of [
      [undefined, error],
      ['message', error],
      ['error', error],
    ] satisfies Event[]) {
      const { tokens, cost_nano_usd } = await bill({ events: [event] });
      assert.deepEqual([tokens, cost_nano_usd], [NOTHING, 0]);
    }
    const { tokens, provenance } = await bill({ events: [says({ content: 'x'.repeat(40) }), ['message', error]] });
    assert.equal(tokens.output, 10);
    assert.equal(provenance.output, 'estimate');
  });

  it('is not misled by what the model says', async () => {
    const words = [
      'usage',
      'error',
      '"usage":{"completion_tokens":1}',
      '"finish_reason":"stop"',
      '"delta":"',
      '\\',
      '\\"',
    ];
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

  it('leaves out numbers that cannot be right and says so', async () => {
    for (const usage of [
      { ...USAGE, prompt_tokens: -1 },
      { ...USAGE, completion_tokens: 1e300 },
      { ...USAGE, prompt_tokens_details: { cached_tokens: '5' } },
      { ...USAGE, prompt_tokens: 100 },
    ]) {
      const { tokens } = await bill({ events: document(usage), relayed_bytes: 400 });
      assert.ok(tokens.input >= 100, JSON.stringify(usage));
      assert.ok(tokens.output > 0 && tokens.output <= 100, JSON.stringify(usage));
    }
  });

  it('goes by the protocol of the upstream and not by that of the client, which are two where a stage translates', async () => {
    const usage = {
      input_tokens: 100,
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 30,
      output_tokens: 40,
    };
    const message: Event[] = [[undefined, { type: 'message', content: [], usage }]];
    const translated = await bill({ events: message, facts: { 'route.protocol': 'messages' } });
    const own = await bill({ events: document(USAGE) });
    assert.deepEqual(translated, own);
    const crossed = await bill({ events: document(USAGE), facts: { 'request.protocol': 'messages' } });
    assert.deepEqual(crossed, { ...own, protocol: 'messages' });
  });

  it('survives anything in the place of a chunk', async () => {
    const odd = [
      '',
      'null',
      '[]',
      '7',
      '{',
      '"x"',
      '{"choices":{}}',
      '{"choices":[null,7],"usage":7}',
      '{"usage":[]}',
      '{"error":null}',
    ];
    const { tokens } = await bill({
      events: [...odd.map((data): Event => ['message', data]), stops(), counts(USAGE), DONE],
    });
    assert.deepEqual(tokens, TOKENS);
    for (const data of odd) assert.ok((await bill({ events: [[undefined, data]] })).cost_nano_usd >= 0);
  });
});
