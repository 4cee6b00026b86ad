/** The official SDK of chat completions, with what it has of helpers, at upstreams of every protocol. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { makeParseableResponseFormat } from 'openai/lib/parser';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { type ModelProvider, sayWhatWasSeen } from '../../support/model-provider/model-provider.ts';
import { until } from '../../support/until.ts';
import { cancelling, clientsOf, modelVia, useNine } from '../support/nine.ts';
import { ledgerRow, ledgerRows } from '../support/state.ts';
import { agent, assertAllSeen, CITIES, PDF, PIXEL, resultsSeen, SUMMARY, weatherIn } from './agent-model.ts';

let provider: ModelProvider;
let gateway: TestGateway;
let client: OpenAI;

useNine((nine) => {
  ({ provider, gateway, openai: client } = nine);
}, cancelling);

const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
const parameters = { ...CITIES, required: ['city'] };
const weather: ChatCompletionTool = {
  type: 'function',
  function: { name: 'weather', description: 'Tells the weather', parameters },
};

const askVia = (upstream: Protocol) => ({ model: modelVia(upstream), messages: [user('Weather in two cities?')] });

for (const upstream of PROTOCOLS) {
  const ask = askVia(upstream);
  const at = `at a ${upstream} upstream`;

  test(`system and developer messages, images, files and tools reach the model ${at}`, async () => {
    provider.model = sayWhatWasSeen;
    const answer = await client.chat.completions.create({
      ...ask,
      messages: [
        { role: 'system', content: 'You are terse.' },
        { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look:' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
            { type: 'image_url', image_url: { url: 'https://images.test/a.png' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` } },
          ],
        },
        { role: 'assistant', content: 'I see.' },
        user('And now?'),
      ],
      tools: [weather, { type: 'function', function: { name: 'nothing' } }],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      max_completion_tokens: 900,
      temperature: 0.5,
      user: 'user-1',
      ...(upstream !== 'responses' && { stop: ['END'] }),
    });
    const { seen } = provider.only();
    assertAllSeen(seen);
    assert.equal(answer.choices[0]!.message.content, JSON.stringify(seen));
    assert.deepEqual([answer.object, answer.choices[0]!.finish_reason], ['chat.completion', 'stop']);
  });

  for (const stream of [false, true]) {
    test(`runTools runs to its end ${at}${stream ? ' while streaming' : ''}`, async () => {
      provider.model = agent;
      const run = {
        name: 'weather',
        description: 'Tells the weather',
        parameters,
        parse: JSON.parse,
        function: weatherIn,
      };
      const tools = [{ type: 'function' as const, function: run }];
      const runner = stream
        ? client.chat.completions.runTools({ ...ask, tools, stream: true })
        : client.chat.completions.runTools({ ...ask, tools });
      assert.equal(await runner.finalContent(), SUMMARY);
      assert.deepEqual(provider.refused, []);
    });
  }

  test(`thoughts are shown as reasoning_content ${at}`, async () => {
    provider.model = agent;
    const whole = await client.chat.completions.create({ ...ask, tools: [weather], reasoning_effort: 'low' });
    const { message } = whole.choices[0]!;
    assert.equal((message as { reasoning_content?: string }).reasoning_content, 'Two cities, so two calls.');
    let thought = '';
    for await (const chunk of await client.chat.completions.create({ ...ask, tools: [weather], stream: true }))
      thought += (chunk.choices[0]?.delta as { reasoning_content?: string })?.reasoning_content ?? '';
    assert.equal(thought, 'Two cities, so two calls.');
  });

  test(`a thought given back does no harm ${at}`, async () => {
    provider.model = agent;
    const first = await client.chat.completions.create({ ...ask, tools: [weather], reasoning_effort: 'low' });
    const { message } = first.choices[0]!;
    const results = (message.tool_calls ?? []).map((call): ChatCompletionMessageParam => {
      assert.ok(call.type === 'function');
      return { role: 'tool', tool_call_id: call.id, content: weatherIn(JSON.parse(call.function.arguments)) };
    });
    const messages = [...ask.messages, message, ...results];
    const second = await client.chat.completions.create({
      ...ask,
      messages,
      tools: [weather],
      reasoning_effort: 'low',
    });
    assert.equal(second.choices[0]!.message.content, SUMMARY);
    assert.equal(resultsSeen(provider.asked[1]!).length, 2);
    assert.deepEqual(provider.refused, []);
  });

  test(`structured output is asked for and parsed ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'text', text: '{"city":"Bern"}' }] });
    const format = { type: 'json_schema' as const, json_schema: { name: 'city', schema: CITIES, strict: true } };
    const response_format = makeParseableResponseFormat(format, JSON.parse);
    const answer = await client.chat.completions.parse({ ...ask, response_format });
    assert.deepEqual(answer.choices[0]!.message.parsed, { city: 'Bern' });
    const streamed = await client.chat.completions.stream({ ...ask, response_format }).finalChatCompletion();
    assert.deepEqual(streamed.choices[0]!.message.parsed, { city: 'Bern' });
    assert.deepEqual(provider.refused, []);
  });

  test(`JSON mode is understood ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'text', text: '{}' }] });
    const messages = [user('Answer with JSON.')];
    const answer = await client.chat.completions.create({ ...ask, messages, response_format: { type: 'json_object' } });
    assert.equal(answer.choices[0]!.message.content, '{}');
  });

  const STOPS = [
    ['length', 'length'],
    ['finished', 'stop'],
    ...(upstream === 'messages' ? ([['sequence', 'stop']] as const) : []),
  ] as const;
  for (const [stop, expected] of STOPS) {
    test(`a model that stops because of ${stop} finishes by ${expected} ${at}`, async () => {
      provider.model = () => ({ said: [{ kind: 'text', text: 'No more.' }], stop });
      const whole = await client.chat.completions.create(ask);
      assert.equal(whole.choices[0]!.finish_reason, expected);
      const finishes: unknown[] = [];
      for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }))
        finishes.push(...chunk.choices.map(({ finish_reason }) => finish_reason));
      assert.deepEqual(
        finishes.filter((reason) => reason !== null),
        [expected],
      );
    });
  }

  test(`a refusal is seen as one ${at}`, async () => {
    provider.model = () => ({ said: [{ kind: 'refusal', text: 'I will not.' }] });
    const whole = (await client.chat.completions.create(ask)).choices[0]!.message;
    const streamed = (await client.chat.completions.stream(ask).finalChatCompletion()).choices[0]!.message;
    for (const { refusal, content } of [whole, streamed]) assert.equal(refusal ?? content, 'I will not.');
  });

  test(`usage counts cached and reasoning tokens, and a stream tells it only when asked ${at}`, async () => {
    const stream_options = { include_usage: true };
    const told = [
      (await client.chat.completions.create(ask)).usage,
      (await client.chat.completions.stream({ ...ask, stream_options }).finalChatCompletion()).usage,
    ];
    for (const usage of told) {
      assert.deepEqual(
        [
          usage?.prompt_tokens,
          usage?.prompt_tokens_details?.cached_tokens,
          usage?.completion_tokens,
          usage?.total_tokens,
        ],
        [51_003, 50_000, 217, 51_220],
      );
      assert.equal(usage?.completion_tokens_details?.reasoning_tokens, 64);
    }
    const { data, response } = await client.chat.completions.create({ ...ask, stream: true }).withResponse();
    for await (const chunk of data) {
      assert.equal(chunk.usage ?? null, null);
      assert.equal(chunk.choices.length, 1);
    }
    const row = await ledgerRow(gateway.database, String(response.headers.get('x-gateway-request-id')));
    assert.deepEqual([row.input_tokens, row.cache_read_tokens, row.output_tokens], [1003, 50_000, 217]);
    assert.equal(row.provenance.cost, 'upstream');
  });
}

test('a failure is retried, and what the caller did wrong is not', async () => {
  const ask = askVia('responses');
  const { openai: retrying } = clientsOf(gateway, gateway.token, 2);
  let failures = 1;
  provider.model = () =>
    failures-- > 0
      ? { status: 500, message: 'hiccup', headers: { 'retry-after-ms': '1' } }
      : { said: [{ kind: 'text', text: 'ok' }] };
  assert.equal((await retrying.chat.completions.create(ask)).choices[0]!.message.content, 'ok');
  assert.equal(provider.asked.length, 2);
  provider.model = () => ({ status: 400, message: 'wrong' });
  await assert.rejects(retrying.chat.completions.create(ask), OpenAI.BadRequestError);
  assert.equal(provider.asked.length, 3);
});

test('an abort in the middle is settled', async () => {
  const ask = askVia('responses');
  provider.model = () => ({ said: [{ kind: 'text', text: 'Hello there, world.' }], stalls_after: 5 });
  const email = 'chat-leaver@example.com';
  const stream = clientsOf(gateway, await gateway.newToken({ user: email })).openai.chat.completions.stream(ask);
  stream.on('content', () => stream.abort());
  await assert.rejects(stream.finalChatCompletion(), OpenAI.APIUserAbortError);
  const row = await until('it is settled', async () =>
    (await ledgerRows(gateway.database)).find(({ user_email }) => user_email === email),
  );
  assert.equal(row.aborted, true);
});
