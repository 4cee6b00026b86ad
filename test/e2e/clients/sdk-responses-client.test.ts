/** The official SDK of Responses, with what it has of helpers, at upstreams of every protocol. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';
import type { FunctionTool, ResponseInputItem } from 'openai/resources/responses/responses';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { type ModelProvider, sayWhatWasSeen } from '../../support/model-provider/model-provider.ts';
import { until } from '../../support/until.ts';
import { cancelling, clientsOf, modelVia, useNine } from '../support/nine.ts';
import { ledgerRows } from '../support/state.ts';
import { agent, assertAllSeen, CALLS, CITIES, PDF, PIXEL, resultsSeen, SUMMARY, weatherIn } from './agent-model.ts';

let provider: ModelProvider;
let gateway: TestGateway;
let client: OpenAI;

useNine((nine) => {
  ({ provider, gateway, openai: client } = nine);
}, cancelling);

const weather: FunctionTool = {
  type: 'function',
  name: 'weather',
  description: 'Tells the weather',
  parameters: { ...CITIES, required: ['city'] },
  strict: true,
};
const user = (text: string): ResponseInputItem => ({ role: 'user', content: [{ type: 'input_text', text }] });

/** Answers every call of a response, and gives the whole of it back as the next input. */
function nextInput(
  before: readonly ResponseInputItem[],
  output: OpenAI.Responses.ResponseOutputItem[],
): ResponseInputItem[] {
  const results = output.flatMap((item): ResponseInputItem[] =>
    item.type === 'function_call'
      ? [{ type: 'function_call_output', call_id: item.call_id, output: weatherIn(JSON.parse(item.arguments)) }]
      : [],
  );
  return [...before, ...withoutParsed(output), ...results];
}

/** Items of an answer as the protocol takes them back: without what the SDK's helpers added to them. */
function withoutParsed(output: OpenAI.Responses.ResponseOutputItem[]): ResponseInputItem[] {
  return JSON.parse(JSON.stringify(output, (key, value) => (key.startsWith('parsed') ? undefined : value)));
}

const askVia = (upstream: Protocol) => ({
  model: modelVia(upstream),
  store: false,
  include: ['reasoning.encrypted_content' as const],
});

for (const upstream of PROTOCOLS) {
  const ask = askVia(upstream);
  const at = `at a ${upstream} upstream`;

  test(`instructions, developer messages, images, files and tools reach the model ${at}`, async () => {
    provider.model = sayWhatWasSeen;
    const answer = await client.responses.create({
      ...ask,
      instructions: 'You are terse.',
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be kind.' }] },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Look:' },
            { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'low' },
            { type: 'input_image', image_url: 'https://images.test/a.png', detail: 'auto' },
            { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
          ],
        },
        { role: 'assistant', content: 'I see.' },
        user('And now?'),
      ],
      tools: [
        weather,
        { type: 'function', name: 'nothing', parameters: { type: 'object', properties: {} }, strict: false },
      ],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      max_output_tokens: 900,
      temperature: 0.5,
      metadata: { purpose: 'test' },
    });
    const { seen } = provider.only();
    assertAllSeen(seen);
    assert.equal(answer.output_text, JSON.stringify(seen));
    assert.deepEqual([answer.object, answer.status, answer.error], ['response', 'completed', null]);
  });

  for (const stream of [false, true]) {
    test(`a loop of thoughts and parallel calls runs to its end ${at}${stream ? ' while streaming' : ''}`, async () => {
      provider.model = agent;
      const run = (input: ResponseInputItem[]) => {
        const params = {
          ...ask,
          input,
          tools: [weather],
          reasoning: { effort: 'low' as const, summary: 'auto' as const },
        };
        return stream ? client.responses.stream(params).finalResponse() : client.responses.create(params);
      };
      const input = [user('Weather in two cities?')];
      const first = await run(input);
      const types = first.output.map(({ type }) => type);
      assert.deepEqual(types, ['reasoning', 'message', 'function_call', 'function_call']);
      const [thought] = first.output;
      assert.equal(thought?.type === 'reasoning' && thought.summary[0]?.text, 'Two cities, so two calls.');
      const second = await run(nextInput(input, first.output));
      assert.equal(second.output_text, SUMMARY);
      assert.deepEqual(provider.refused, []);
      const { seen } = provider.asked[1]!;
      assert.deepEqual(seen.thoughts, ['Two cities, so two calls.']);
    });
  }

  test(`a stream has numbered events in the order of the protocol, and its items are done with all they say ${at}`, async () => {
    provider.model = () => CALLS;
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of await client.responses.create({ ...ask, input: 'Go.', tools: [weather], stream: true }))
      events.push(event);
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, index) => index),
    );
    const types = events.map(({ type }) => type);
    assert.deepEqual(types.slice(0, 2), ['response.created', 'response.in_progress']);
    assert.equal(types.at(-1), 'response.completed');
    const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event.item] : []));
    const calls = done.flatMap((item) => (item.type === 'function_call' ? [JSON.parse(item.arguments).city] : []));
    assert.deepEqual(calls.sort(), ['São Paulo "SP"', 'Zürich']);
    const last = events.at(-1)!;
    assert.ok(last.type === 'response.completed');
    assert.equal(last.response.output.length, 4);
  });

  // Where both sides speak the same protocol, the bytes pass as they are.
  const test_translated = upstream === 'responses' ? () => {} : test;
  test_translated(`a free-text tool is called with plain text and takes plain text back ${at}`, async () => {
    const patch = '*** Begin Patch\n+"ü"\n*** End Patch';
    const args = JSON.stringify({ input: patch });
    provider.model = ({ seen }) =>
      seen.results.length === 0
        ? { said: [{ kind: 'call', name: 'apply_patch', arguments: args }] }
        : { said: [{ kind: 'text', text: JSON.stringify(seen.calls[0]![2]) }] };
    const tools = [
      { type: 'custom' as const, name: 'apply_patch', description: 'Patches', format: { type: 'text' as const } },
    ];
    const input = [user('Patch it.')];
    const first = await client.responses.stream({ ...ask, input, tools }).finalResponse();
    const [call] = first.output;
    assert.ok(call?.type === 'custom_tool_call');
    assert.equal(call.input, patch);
    const result = { type: 'custom_tool_call_output' as const, call_id: call.call_id, output: 'patched' };
    const next = [...input, ...withoutParsed(first.output), result];
    const second = await client.responses.create({ ...ask, input: next, tools });
    assert.deepEqual(JSON.parse(second.output_text), { input: patch });
    assert.deepEqual(provider.refused, []);
  });

  test(`structured output is asked for and parsed ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'text', text: '{"city":"Bern"}' }] });
    const format = makeParseableTextFormat(
      { type: 'json_schema', name: 'city', schema: CITIES, strict: true },
      JSON.parse,
    );
    const whole = await client.responses.parse({ ...ask, input: 'Where?', text: { format } });
    const streamed = await client.responses.stream({ ...ask, input: 'Where?', text: { format } }).finalResponse();
    for (const { output_parsed } of [whole, streamed]) assert.deepEqual(output_parsed, { city: 'Bern' });
    assert.deepEqual(provider.refused, []);
  });

  test(`a model that runs out of tokens leaves the answer incomplete ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'text', text: 'No more' }], stop: 'length' });
    const whole = await client.responses.create({ ...ask, input: 'Go.' });
    const streamed = await client.responses.stream({ ...ask, input: 'Go.' }).finalResponse();
    for (const { status, incomplete_details, output_text } of [whole, streamed]) {
      assert.deepEqual(
        [status, incomplete_details?.reason, output_text],
        ['incomplete', 'max_output_tokens', 'No more'],
      );
    }
  });

  test(`usage counts cached and reasoning tokens ${at}`, async () => {
    const whole = await client.responses.create({ ...ask, input: 'Go.' });
    const streamed = await client.responses.stream({ ...ask, input: 'Go.' }).finalResponse();
    for (const { usage } of [whole, streamed]) {
      assert.deepEqual(
        [usage?.input_tokens, usage?.input_tokens_details.cached_tokens, usage?.output_tokens, usage?.total_tokens],
        [51_003, 50_000, 217, 51_220],
      );
      assert.equal(usage?.output_tokens_details.reasoning_tokens, 64);
    }
  });
}

test('a failure is retried, and what the caller did wrong is not', async () => {
  const ask = askVia('messages');
  const { openai: retrying } = clientsOf(gateway, gateway.token, 2);
  let failures = 1;
  provider.model = () =>
    failures-- > 0
      ? { status: 500, message: 'hiccup', headers: { 'retry-after-ms': '1' } }
      : { said: [{ kind: 'text', text: 'ok' }] };
  assert.equal((await retrying.responses.create({ ...ask, input: 'Go.' })).output_text, 'ok');
  assert.equal(provider.asked.length, 2);
  provider.model = () => ({ status: 400, message: 'wrong' });
  await assert.rejects(retrying.responses.create({ ...ask, input: 'Go.' }), OpenAI.BadRequestError);
  assert.equal(provider.asked.length, 3);
});

test('an abort in the middle is settled', async () => {
  const ask = askVia('messages');
  provider.model = () => ({ said: [{ kind: 'text', text: 'Hello there, world.' }], stalls_after: 6 });
  const email = 'responses-leaver@example.com';
  const { openai } = clientsOf(gateway, await gateway.newToken({ user: email }));
  const stream = openai.responses.stream({ ...ask, input: 'Go.' });
  stream.on('response.output_text.delta', () => stream.abort());
  await assert.rejects(stream.finalResponse(), OpenAI.APIUserAbortError);
  const row = await until('it is settled', async () =>
    (await ledgerRows(gateway.database)).find(({ user_email }) => user_email === email),
  );
  assert.equal(row.aborted, true);
});

test('results of tools that are images reach a model', async () => {
  for (const upstream of PROTOCOLS) {
    provider.reset();
    provider.model = (asked) => (asked.seen.results.length === 0 ? CALLS : { said: [{ kind: 'text', text: 'Done.' }] });
    const ask = { model: modelVia(upstream), tools: [weather] };
    const first = await client.responses.create({ ...ask, input: 'Go.' });
    const input = nextInput([user('Go.')], first.output);
    const image = {
      type: 'input_image' as const,
      image_url: `data:image/png;base64,${PIXEL}`,
      detail: 'auto' as const,
    };
    const pictured = input.map((item) => (item.type === 'function_call_output' ? { ...item, output: [image] } : item));
    await client.responses.create({ ...ask, input: pictured });
    assert.deepEqual(provider.asked[1]!.seen.images, [PIXEL, PIXEL]);
    assert.equal(resultsSeen(provider.asked[1]!).length, 2);
    assert.deepEqual(provider.refused, []);
  }
});
