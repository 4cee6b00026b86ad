/** The official SDKs, with their helpers, at upstreams of every protocol. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';
import type OpenAI from 'openai';
import { makeParseableResponseFormat, makeParseableTextFormat } from 'openai/lib/parser';
import type { ChatCompletionTool } from 'openai/resources/chat/completions';
import type { FunctionTool, ResponseInputItem } from 'openai/resources/responses/responses';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { Answer, Model } from '../../support/model-provider/model-provider.ts';
import { modelVia, useNine } from '../support/nine.ts';
import { CITIES } from './talking-client.ts';

const nine = useNine();

/** One SDK, at an upstream of this protocol. */
interface Sdk {
  /** Requests the weather with its helper, which calls the tools, and returns the model's final text. */
  runTools(upstream: Protocol, stream: boolean): Promise<string | null | undefined>;
  /** Requests the weather, shows the thought, and where possible, returns it with the results of the tools. */
  think(upstream: Protocol): Promise<string | undefined>;
  /** Requests a city by a schema, whole and as a stream where it can. */
  parse(upstream: Protocol): Promise<readonly unknown[]>;
}

/** The first response of an agent: a thought, a text and two tool calls at once. */
const CALLS: Answer = {
  said: [
    { kind: 'thought', text: 'Two cities, so two calls.' },
    { kind: 'text', text: 'Let me look.' },
    { kind: 'call', name: 'weather', arguments: '{"city": "Zürich"}' },
    { kind: 'call', name: 'weather', arguments: '{"city": "São Paulo \\"SP\\""}' },
  ],
  mixed: true,
};

/** Calls tools in the first turn, and repeats their results in the second, each with the city of its call. */
const agent: Model = ({ seen: { results, calls, texts } }) => {
  if (results.length === 0) return CALLS;
  const said = texts.filter(([role]) => role === 'tool').map(([, text]) => text);
  const cityOf = (id: string) => (calls.find(([, called]) => called === id)![2] as { city: string }).city;
  const summary = results.map((id, index) => `${cityOf(id)}: ${said[index]}`).join('; ');
  return { said: [{ kind: 'text', text: summary }] };
};
const SUMMARY = 'Zürich: 12 degrees in Zürich; São Paulo "SP": 12 degrees in São Paulo "SP"';
const weatherIn = ({ city }: { readonly city: string }): string => `12 degrees in ${city}`;

const WEATHER = { name: 'weather', description: 'Tells the weather' };
const parameters = { ...CITIES, required: ['city'] };
const THOUGHT = 'Two cities, so two calls.';

const chatTool: ChatCompletionTool = { type: 'function', function: { ...WEATHER, parameters } };
const askChat = (upstream: Protocol) => ({
  model: modelVia(upstream),
  messages: [{ role: 'user' as const, content: 'Weather in two cities?' }],
});

const chat: Sdk = {
  runTools(upstream, stream) {
    const run = { ...WEATHER, parameters, parse: JSON.parse, function: weatherIn };
    const params = { ...askChat(upstream), tools: [{ type: 'function' as const, function: run }] };
    const { completions } = nine.openai.chat;
    return (stream ? completions.runTools({ ...params, stream }) : completions.runTools(params)).finalContent();
  },
  async think(upstream) {
    const params = { ...askChat(upstream), tools: [chatTool] };
    const { completions } = nine.openai.chat;
    const whole = await completions.create({ ...params, reasoning_effort: 'low' });
    assert.equal((whole.choices[0]!.message as { reasoning_content?: string }).reasoning_content, THOUGHT);
    let thought = '';
    for await (const chunk of await completions.create({ ...params, stream: true }))
      thought += (chunk.choices[0]?.delta as { reasoning_content?: string })?.reasoning_content ?? '';
    return thought;
  },
  async parse(upstream) {
    const format = { type: 'json_schema' as const, json_schema: { name: 'city', schema: CITIES, strict: true } };
    const params = { ...askChat(upstream), response_format: makeParseableResponseFormat(format, JSON.parse) };
    const { completions } = nine.openai.chat;
    const whole = await completions.parse(params);
    const streamed = await completions.stream(params).finalChatCompletion();
    return [whole, streamed].map(({ choices }) => choices[0]!.message.parsed);
  },
};

const messagesTool: Anthropic.Tool = { ...WEATHER, input_schema: parameters };
const userSays = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam => ({ role: 'user', content });
const askMessages = (upstream: Protocol) => ({
  model: modelVia(upstream),
  max_tokens: 4000,
  messages: [userSays('Weather in two cities?')],
});

const messages: Sdk = {
  async runTools(upstream, stream) {
    const tool = betaTool({ ...WEATHER, inputSchema: CITIES, run: weatherIn });
    // A runner leaves its conversation with the provider, until it learns that this one keeps none.
    const thread = upstream === 'messages' ? { thread: false } : {};
    const params = { ...askMessages(upstream), tools: [tool], stream, ...thread };
    const { toolRunner } = nine.messages.beta.messages;
    const runner = toolRunner.call(nine.messages.beta.messages, params as Parameters<typeof toolRunner>[0]);
    const [block] = (await runner.runUntilDone()).content;
    return block?.type === 'text' ? block.text : undefined;
  },
  async think(upstream) {
    const params = { ...askMessages(upstream), thinking: { type: 'adaptive' as const }, tools: [messagesTool] };
    const first = await nine.messages.messages.stream(params).finalMessage();
    const types = first.content.map(({ type }) => type);
    assert.deepEqual([types, first.stop_reason], [['thinking', 'text', 'tool_use', 'tool_use'], 'tool_use']);
    const results = first.content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result', tool_use_id: block.id, content: weatherIn(block.input as { city: string }) }]
        : [],
    );
    const turns = [...params.messages, { role: 'assistant' as const, content: first.content }, userSays(results)];
    assert.equal(await nine.messages.messages.stream({ ...params, messages: turns }).finalText(), SUMMARY);
    assert.deepEqual(nine.provider.asked[1]!.seen.thoughts, [THOUGHT]);
    const [thought] = first.content;
    return thought?.type === 'thinking' ? thought.thinking : undefined;
  },
  async parse(upstream) {
    const format = jsonSchemaOutputFormat(CITIES);
    const response = await nine.messages.messages.parse({ ...askMessages(upstream), output_config: { format } });
    const { body } = nine.provider.only();
    const sent =
      body.output_config?.format.schema ?? body.response_format?.json_schema.schema ?? body.text?.format.schema;
    assert.deepEqual(sent.properties, CITIES.properties);
    return [response.parsed_output];
  },
};

const responsesTool: FunctionTool = { type: 'function', ...WEATHER, parameters, strict: true };
const inputOf = (text: string): ResponseInputItem => ({ role: 'user', content: [{ type: 'input_text', text }] });
const askResponses = (upstream: Protocol) => ({
  model: modelVia(upstream),
  store: false,
  include: ['reasoning.encrypted_content' as const],
});

/** Items of a response as the protocol accepts them back: without the additions of the SDK's helpers. */
function withoutParsed(output: OpenAI.Responses.ResponseOutputItem[]): ResponseInputItem[] {
  return JSON.parse(JSON.stringify(output, (key, value) => (key.startsWith('parsed') ? undefined : value)));
}

/** The SDK has no loop of its own: two turns, and the first response. */
async function twoTurns(upstream: Protocol, stream: boolean) {
  const run = (input: ResponseInputItem[]) => {
    const reasoning = { effort: 'low' as const, summary: 'auto' as const };
    const params = { ...askResponses(upstream), input, tools: [responsesTool], reasoning };
    return stream ? nine.openai.responses.stream(params).finalResponse() : nine.openai.responses.create(params);
  };
  const input = [inputOf('Weather in two cities?')];
  const { output } = await run(input);
  const results = output.flatMap((item): ResponseInputItem[] =>
    item.type === 'function_call'
      ? [{ type: 'function_call_output', call_id: item.call_id, output: weatherIn(JSON.parse(item.arguments)) }]
      : [],
  );
  const { output_text } = await run([...input, ...withoutParsed(output), ...results]);
  return { output, output_text };
}

const responses: Sdk = {
  runTools: async (upstream, stream) => (await twoTurns(upstream, stream)).output_text,
  async think(upstream) {
    const { output } = await twoTurns(upstream, true);
    const types = output.map(({ type }) => type);
    assert.deepEqual(types, ['reasoning', 'message', 'function_call', 'function_call']);
    assert.deepEqual(nine.provider.asked[1]!.seen.thoughts, [THOUGHT]);
    const [thought] = output;
    return thought?.type === 'reasoning' ? thought.summary[0]?.text : undefined;
  },
  async parse(upstream) {
    const asked = { type: 'json_schema' as const, name: 'city', schema: CITIES, strict: true };
    const text = { format: makeParseableTextFormat(asked, JSON.parse) };
    const params = { ...askResponses(upstream), input: 'Where?', text };
    const whole = await nine.openai.responses.parse(params);
    const streamed = await nine.openai.responses.stream(params).finalResponse();
    return [whole, streamed].map(({ output_parsed }) => output_parsed);
  },
};

for (const [spoken, sdk] of Object.entries({ messages, chat, responses })) {
  for (const upstream of PROTOCOLS) {
    describe(`the SDK of ${spoken} at a ${upstream} upstream`, () => {
      test('runs tools to the end, also in a stream', async () => {
        nine.provider.model = agent;
        for (const stream of [false, true]) assert.equal(await sdk.runTools(upstream, stream), SUMMARY);
        assert.deepEqual(nine.provider.refused, []);
      });

      test('shows reasoning, which returns to its model', async () => {
        nine.provider.model = agent;
        assert.equal(await sdk.think(upstream), THOUGHT);
        assert.deepEqual(nine.provider.refused, []);
      });

      test('parses structured output', async () => {
        nine.provider.model = () => ({ said: [{ kind: 'text', text: '{"city":"Bern"}' }] });
        for (const parsed of await sdk.parse(upstream)) assert.deepEqual(parsed, { city: 'Bern' });
        assert.deepEqual(nine.provider.refused, []);
      });
    });
  }
}

for (const upstream of ['messages', 'chat'] as const) {
  test(`calls a free-text tool of Responses with plain text and accepts plain text back at a ${upstream} upstream`, async () => {
    const patch = '*** Begin Patch\n+"ü"\n*** End Patch';
    const args = JSON.stringify({ input: patch });
    nine.provider.model = ({ seen }) =>
      seen.results.length === 0
        ? { said: [{ kind: 'call', name: 'apply_patch', arguments: args }] }
        : { said: [{ kind: 'text', text: JSON.stringify(seen.calls[0]![2]) }] };
    const format = { type: 'text' as const };
    const tools = [{ type: 'custom' as const, name: 'apply_patch', description: 'Patches', format }];
    const input = [inputOf('Patch it.')];
    const ask = askResponses(upstream);
    const first = await nine.openai.responses.stream({ ...ask, input, tools }).finalResponse();
    const [call] = first.output;
    assert.ok(call?.type === 'custom_tool_call');
    assert.equal(call.input, patch);
    const result = { type: 'custom_tool_call_output' as const, call_id: call.call_id, output: 'patched' };
    const next = [...input, ...withoutParsed(first.output), result];
    const second = await nine.openai.responses.create({ ...ask, input: next, tools });
    assert.deepEqual(JSON.parse(second.output_text), { input: patch });
    assert.deepEqual(nine.provider.refused, []);
  });
}
