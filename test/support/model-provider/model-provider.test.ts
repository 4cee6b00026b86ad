/** Translation is measured by the scripted model provider, so the official SDKs must accept it as the real thing. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { type Answer, checkRequest, type ModelProvider, startModelProvider } from './model-provider.ts';

let provider: ModelProvider;
let messages: Anthropic;
let openai: OpenAI;

before(async () => {
  provider = await startModelProvider();
  messages = new Anthropic({ baseURL: provider.url, apiKey: 'key', authToken: null, maxRetries: 0 });
  openai = new OpenAI({ baseURL: `${provider.url}/v1`, apiKey: 'key', maxRetries: 0 });
});
after(() => provider.close());
beforeEach(() => provider.reset());

const ANSWER: Answer = {
  said: [
    { kind: 'thought', text: 'The user wants two files.' },
    { kind: 'text', text: 'I will look — gleich. 🙂' },
    { kind: 'call', name: 'read', arguments: '{"path": "/a/ü"}' },
    { kind: 'call', name: 'read', arguments: '{"path": "/b", "lines": [1, 2]}' },
  ],
  pings: true,
  mixed: true,
};

test('the Messages SDK understands its responses', async () => {
  provider.model = () => ANSWER;
  const ask = { model: 'm', max_tokens: 99, messages: [{ role: 'user' as const, content: 'Go.' }] };
  const streamed = await messages.messages.stream(ask).finalMessage();
  const whole = await messages.messages.create(ask);
  assert.deepEqual(
    streamed.content.map(({ type }) => type),
    ['thinking', 'text', 'tool_use', 'tool_use'],
  );
  assert.deepEqual(
    JSON.stringify(streamed.content).length,
    JSON.stringify(whole.content).length - ',"citations":null'.length,
  );
  assert.equal(streamed.usage.cache_read_input_tokens, 50_000);
  assert.equal(whole.usage.output_tokens, 217);
  assert.equal(streamed.stop_reason, 'tool_use');
  assert.deepEqual(provider.refused, []);
});

test('the SDK of chat completions understands its responses', async () => {
  provider.model = () => ANSWER;
  const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Go.' }] };
  const streamed = await openai.chat.completions
    .stream({ ...ask, stream_options: { include_usage: true } })
    .finalChatCompletion();
  const whole = await openai.chat.completions.create(ask);
  const calls = (from: typeof whole) =>
    from.choices[0]!.message.tool_calls!.map((call) => call.type === 'function' && call.function.arguments);
  assert.deepEqual(calls(streamed as typeof whole), calls(whole));
  assert.equal(calls(whole)[1], '{"path": "/b", "lines": [1, 2]}');
  assert.equal(streamed.choices[0]!.message.content, 'I will look — gleich. 🙂');
  assert.deepEqual(streamed.usage, whole.usage);
  assert.equal(whole.usage!.prompt_tokens, 51_003);
});

test('the SDK of Responses understands its responses', async () => {
  provider.model = () => ANSWER;
  const ask = { model: 'm', input: 'Go.' };
  const streamed = await openai.responses.stream(ask).finalResponse();
  const whole = await openai.responses.create(ask);
  assert.equal(streamed.output_text, whole.output_text);
  assert.equal(whole.output_text, 'I will look — gleich. 🙂');
  assert.deepEqual(
    whole.output.map(({ type }) => type),
    ['reasoning', 'message', 'function_call', 'function_call'],
  );
  assert.deepEqual(streamed.usage, whole.usage);
});

test('its errors are those of the SDKs', async () => {
  provider.model = () => ({ status: 429, message: 'slower, please' });
  const ask = { model: 'm', max_tokens: 99, messages: [{ role: 'user' as const, content: 'Go.' }] };
  await assert.rejects(messages.messages.create(ask), Anthropic.RateLimitError);
  await assert.rejects(openai.chat.completions.create(ask), OpenAI.RateLimitError);
  await assert.rejects(openai.responses.create({ model: 'm', input: 'Go.' }), OpenAI.RateLimitError);
  provider.model = () => ({
    said: [{ kind: 'text', text: 'Hello' }],
    fails: { after: 3, status: 529, message: 'too much' },
  });
  await assert.rejects(messages.messages.stream(ask).finalMessage(), /too much/);
  await assert.rejects(openai.chat.completions.stream(ask).finalChatCompletion(), /too much/);
  await assert.rejects(openai.responses.stream({ model: 'm', input: 'Go.' }).finalResponse(), /too much/);
});

const user = { role: 'user', content: 'Go.' };
const ask = { model: 'm', max_tokens: 2000, messages: [user] };
const call = { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} };
const chat_call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{}' } };
const image_result = {
  role: 'tool',
  tool_call_id: 'call_1',
  content: [{ type: 'image_url', image_url: { url: 'x' } }],
};
const REFUSED: readonly (readonly [
  what: string,
  protocol: 'messages' | 'chat' | 'responses',
  body: object,
  why: RegExp,
])[] = [
  ['an unknown field', 'messages', { ...ask, frequency_penalty: 1 }, /frequency_penalty: Extra inputs are not/],
  ['an unknown role', 'messages', { ...ask, messages: [{ role: 'tool', content: 'x' }] }, /messages\.0/],
  [
    'a call without its result',
    'messages',
    { ...ask, messages: [user, { role: 'assistant', content: [call] }, user] },
    /tool_result/,
  ],
  ['a budget that is too small', 'messages', { ...ask, thinking: { type: 'enabled', budget_tokens: 2000 } }, /greater/],
  ['an unknown field', 'chat', { model: 'm', messages: [user], top_k: 1 }, /top_k/],
  [
    'a call without an answer',
    'chat',
    { model: 'm', messages: [user, { role: 'assistant', tool_calls: [chat_call] }, user] },
    /responding to each/,
  ],
  [
    'an image in a result',
    'chat',
    { model: 'm', messages: [user, { role: 'assistant', tool_calls: [chat_call] }, image_result] },
    /messages\.2\.content/,
  ],
  ['an unknown field', 'responses', { model: 'm', input: 'x', stop: ['a'] }, /stop/],
  [
    'a call without its output',
    'responses',
    { model: 'm', input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }] },
    /No tool output found/,
  ],
  [
    'a thought it did not have',
    'responses',
    { model: 'm', input: [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }] },
    /could not be verified/,
  ],
];
for (const [what, protocol, body, why] of REFUSED) {
  test(`${protocol} rejects ${what}`, () => {
    assert.throws(() => checkRequest(protocol, body), why);
  });
}
