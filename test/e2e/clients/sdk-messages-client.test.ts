/** The official Messages SDK, with what it has of helpers, at upstreams of every protocol. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { type ModelProvider, sayWhatWasSeen } from '../../support/model-provider/model-provider.ts';
import { until } from '../../support/until.ts';
import { cancelling, clientsOf, modelVia, useNine } from '../support/nine.ts';
import { ledgerRows } from '../support/state.ts';
import { agent, assertAllSeen, CALLS, CITIES, PDF, PIXEL, resultsSeen, SUMMARY, weatherIn } from './agent-model.ts';

let provider: ModelProvider;
let gateway: TestGateway;
let client: Anthropic;

useNine((nine) => {
  ({ provider, gateway, messages: client } = nine);
}, cancelling);

const user = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam => ({ role: 'user', content });
const weather: Anthropic.Tool = {
  name: 'weather',
  description: 'Tells the weather',
  input_schema: { ...CITIES, required: ['city'] },
};

const askVia = (upstream: Protocol) => ({
  model: modelVia(upstream),
  max_tokens: 4000,
  messages: [user('Weather in two cities?')],
});

for (const upstream of PROTOCOLS) {
  const ask = askVia(upstream);
  const at = `at a ${upstream} upstream`;

  test(`system blocks, images, documents and tools reach the model ${at}`, async () => {
    provider.model = sayWhatWasSeen;
    const answer = await client.messages.create({
      ...ask,
      system: [
        { type: 'text', text: 'You are terse.' },
        { type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral', ttl: '1h' } },
      ],
      tools: [weather, { name: 'nothing', input_schema: { type: 'object' } }],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      messages: [
        user([
          { type: 'text', text: 'Look:' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          { type: 'image', source: { type: 'url', url: 'https://images.test/a.png' } },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: PDF }, title: 'a.pdf' },
        ]),
        { role: 'assistant', content: 'I see.' },
        user('And now?'),
      ],
      stop_sequences: upstream === 'responses' ? [] : ['END'],
      metadata: { user_id: 'user-1' },
    });
    const { seen } = provider.only();
    assertAllSeen(seen);
    assert.equal(answer.content[0]?.type === 'text' && answer.content[0].text, JSON.stringify(seen));
    assert.deepEqual([answer.type, answer.role, answer.stop_reason], ['message', 'assistant', 'end_turn']);
  });

  test(`thoughts and parallel calls stream, and come back to the model that made them ${at}`, async () => {
    provider.model = agent;
    const thinking = { type: 'adaptive' as const };
    const first = await client.messages.stream({ ...ask, thinking, tools: [weather] }).finalMessage();
    assert.deepEqual(
      first.content.map(({ type }) => type),
      ['thinking', 'text', 'tool_use', 'tool_use'],
    );
    assert.equal(first.stop_reason, 'tool_use');
    const thought = first.content[0];
    assert.equal(thought?.type === 'thinking' && thought.thinking, 'Two cities, so two calls.');
    const results = first.content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result', tool_use_id: block.id, content: weatherIn(block.input as { city: string }) }]
        : [],
    );
    const messages = [...ask.messages, { role: 'assistant' as const, content: first.content }, user(results)];
    const second = await client.messages.stream({ ...ask, thinking, tools: [weather], messages }).finalText();
    assert.equal(second, SUMMARY);
    assert.deepEqual(provider.asked[1]!.seen.thoughts, ['Two cities, so two calls.']);
    assert.deepEqual(provider.refused, []);
  });

  for (const stream of [false, true]) {
    test(`the tool runner runs to its end ${at}${stream ? ' while streaming' : ''}`, async () => {
      provider.model = agent;
      const tool = betaTool({ name: 'weather', description: 'Tells the weather', inputSchema: CITIES, run: weatherIn });
      // A runner leaves its conversation with the provider, until it learns that this one keeps none.
      const thread = upstream === 'messages' ? { thread: false } : {};
      const params = { ...ask, tools: [tool], stream, ...thread };
      const runner = client.beta.messages.toolRunner(params as Parameters<typeof client.beta.messages.toolRunner>[0]);
      const final = await runner.runUntilDone();
      assert.equal(final.content[0]?.type === 'text' && final.content[0].text, SUMMARY);
      assert.deepEqual(provider.refused, []);
    });
  }

  test(`images and failures in results of tools reach the model ${at}`, async () => {
    provider.model = (asked) => (asked.seen.results.length === 0 ? CALLS : { said: [{ kind: 'text', text: 'Done.' }] });
    const first = await client.messages.create({ ...ask, tools: [weather] });
    const [one, other] = first.content.filter((block) => block.type === 'tool_use');
    const image = {
      type: 'image' as const,
      source: { type: 'base64' as const, media_type: 'image/png' as const, data: PIXEL },
    };
    const messages = [
      ...ask.messages,
      { role: 'assistant' as const, content: first.content },
      user([
        { type: 'tool_result', tool_use_id: one!.id, content: [{ type: 'text', text: 'a map' }, image] },
        { type: 'tool_result', tool_use_id: other!.id, content: 'no such city', is_error: true },
        { type: 'text', text: 'Go on.' },
      ]),
    ];
    await client.messages.create({ ...ask, tools: [weather], messages });
    const { seen } = provider.asked[1]!;
    assert.deepEqual(seen.images, [PIXEL]);
    assert.match(
      resultsSeen(provider.asked[1]!)[1]!,
      upstream === 'messages' ? /: no such city$/ : /: Error: no such city$/,
    );
    assert.deepEqual(seen.texts.at(-1), ['user', 'Go on.']);
    assert.deepEqual(provider.refused, []);
  });

  test(`structured output is asked for and parsed ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'text', text: '{"city":"Bern"}' }] });
    const format = jsonSchemaOutputFormat(CITIES);
    const answer = await client.messages.parse({ ...ask, output_config: { format } });
    assert.deepEqual(answer.parsed_output, { city: 'Bern' });
    const { body } = provider.only();
    const sent =
      body.output_config?.format.schema ?? body.response_format?.json_schema.schema ?? body.text?.format.schema;
    assert.deepEqual(sent.properties, CITIES.properties);
  });

  const STOPS = [
    ['length', 'max_tokens'],
    ['refused', 'refusal'],
    ['finished', 'end_turn'],
  ] as const;
  for (const [stop, expected] of STOPS) {
    test(`a model that stops because of ${stop} is said to have stopped by ${expected} ${at}`, async () => {
      provider.model = () => ({ said: [{ kind: stop === 'refused' ? 'refusal' : 'text', text: 'No more.' }], stop });
      for (const answer of [await client.messages.create(ask), await client.messages.stream(ask).finalMessage()]) {
        assert.equal(answer.stop_reason, expected);
        assert.equal(answer.content[0]?.type === 'text' && answer.content[0].text, 'No more.');
      }
    });
  }

  test(`usage tells cached tokens apart ${at}`, async () => {
    for (const { usage } of [await client.messages.create(ask), await client.messages.stream(ask).finalMessage()]) {
      assert.deepEqual(
        [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.output_tokens],
        [1003, 50_000, 0, 217],
      );
    }
  });
}

test('a failure is retried, and what the caller did wrong is not', async () => {
  const ask = askVia('chat');
  const { messages: retrying } = clientsOf(gateway, gateway.token, 2);
  let failures = 1;
  provider.model = () =>
    failures-- > 0
      ? { status: 500, message: 'hiccup', headers: { 'retry-after-ms': '1' } }
      : { said: [{ kind: 'text', text: 'ok' }] };
  const answer = await retrying.messages.create(ask);
  assert.equal(answer.content[0]?.type === 'text' && answer.content[0].text, 'ok');
  assert.equal(provider.asked.length, 2);
  provider.model = () => ({ status: 400, message: 'wrong' });
  await assert.rejects(retrying.messages.create(ask), Anthropic.BadRequestError);
  assert.equal(provider.asked.length, 3);
});

test('an abort in the middle is settled', async () => {
  const ask = askVia('chat');
  provider.model = () => ({ said: [{ kind: 'text', text: 'Hello there, world.' }], stalls_after: 6 });
  const token = await gateway.newToken({ user: 'messages-leaver@example.com' });
  const stream = clientsOf(gateway, token).messages.messages.stream(ask);
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  const row = await until('it is settled', async () =>
    (await ledgerRows(gateway.database)).find(({ user_email }) => user_email === 'messages-leaver@example.com'),
  );
  assert.equal(row.aborted, true);
});
