/** Requests and answers that are rare and legal, as the newest official SDKs describe them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { answerChunks, answerJson, sse } from '../../support/model-provider/scripted-upstream.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { askBody, modelVia, type Nine, nineConfig, post, TRANSLATED, useNine } from '../support/nine.ts';
import { answered, completion, lossesOf, message, refusal, response, text } from '../support/odd.ts';

let nine: Nine;

useNine(
  (started) => {
    nine = started;
  },
  (url) =>
    nineConfig(url, {
      upstreams: [{ name: 'open', type: 'compat', protocols: ['chat'], allow_fields: ['input_audio'], ...ONE_ATTEMPT }],
      models: [{ id: 'hears-1' }],
      rules: [{ name: 'open', models: ['hears-1'], upstream: 'open' }],
    }),
);

describe('audio', () => {
  const heard = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }];

  test('is not billed as text: it takes an administrator who knows the price to let it pass', async () => {
    const said = await refusal(nine, 'chat', modelVia('chat'), { messages: heard });
    assert.match(
      said,
      /^messages\[0\]\.content\[0\]: "audio" has no price .*`audio_input` in the pricing of the model/,
    );
    const answer = await post(nine.gateway, 'chat', askBody('chat', 'hears-1', '', { messages: heard }));
    assert.equal(answer.status, 200, answer.text);
  });

  test('is known by its type, by its key, and in the results of tools', async () => {
    const FORMS: readonly (readonly [Protocol, object])[] = [
      [
        'chat',
        { messages: [{ role: 'user', content: [{ type: 'audio_url', audio_url: { url: 'https://a.test/a' } }] }] },
      ],
      ['chat', { messages: [{ role: 'user', content: [{ input_audio: { data: 'AAAA', format: 'wav' } }] }] }],
      ['chat', { messages: [{ role: 'user', content: [{ type: 'Input_Audio', data: 'AAAA' }] }] }],
      ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
      ['responses', { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_audio' }] }] }],
    ];
    for (const [spoken, said] of FORMS)
      assert.match(await refusal(nine, spoken, modelVia(spoken), said), /^\w+\[0\]\.\S+: "audio" has no price/);
  });

  test('of a Responses client is refused as audio where it would have to be translated', async () => {
    const said = await refusal(nine, 'responses', 'hears-1', { input: heard });
    assert.match(said, /^input\.0\.content\.0: the protocol of the upstream has no audio/);
  });
});

describe('tools that a provider has trained its models on', () => {
  const SCREEN = 'https://screens.test/1.png';
  /** What an upstream of this protocol gets of the input of a Responses client. */
  const sentTo = async (upstream: Protocol, input: readonly object[]) => {
    nine.provider.reset();
    const answer = await post(nine.gateway, 'responses', { model: modelVia(upstream), input });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(nine.provider.refused, []);
    return { answer, body: nine.provider.only().body };
  };

  test('are not said to be run by the provider where the client runs them', async () => {
    const of_client = {
      messages: [{ type: 'bash_20250124', name: 'bash' }],
      responses: [{ type: 'local_shell' }],
    };
    for (const spoken of ['messages', 'responses'] as const) {
      const said = await refusal(nine, spoken, modelVia('chat'), { tools: of_client[spoken] });
      assert.match(said, /tools that a provider runs or has trained its models on exist only at that provider/);
    }
  });

  test('may fail: a patch that could not be applied does not come as one that was', async () => {
    const operation = { type: 'delete_file', path: 'a.txt' };
    const input = [
      { role: 'user', content: 'Delete it.' },
      { type: 'apply_patch_call', call_id: 'c', status: 'completed', operation },
      { type: 'apply_patch_call_output', call_id: 'c', status: 'failed' },
    ];
    const last = async (upstream: Protocol) => (await sentTo(upstream, input)).body.messages.at(-1);
    assert.equal((await last('messages')).content[0].is_error, true);
    assert.match(JSON.stringify((await last('chat')).content), /Error: /);
  });

  test('may be a computer that is told several actions at once, or none', async () => {
    const screen = (call_id: string) => ({
      ...{ type: 'computer_call_output', call_id },
      output: { type: 'computer_screenshot', image_url: SCREEN },
    });
    const input = [
      { role: 'user', content: 'Look around.' },
      { type: 'computer_call', call_id: 'c1', actions: [{ type: 'screenshot' }, { type: 'wait' }] },
      screen('c1'),
      { type: 'computer_call', call_id: 'c2' },
      screen('c2'),
    ];
    for (const upstream of ['messages', 'chat'] as const)
      assert.match(JSON.stringify((await sentTo(upstream, input)).body), /screenshot.*wait/);
  });

  test('keep their calls and results in the history of a Responses client', async () => {
    const input = [
      { role: 'user', content: 'Look around.' },
      {
        type: 'local_shell_call',
        id: 'ls',
        call_id: 'c1',
        status: 'completed',
        action: { type: 'exec', command: ['ls'] },
      },
      { type: 'function_call_output', call_id: 'c1', output: 'a.txt' },
      { type: 'shell_call', call_id: 'c2', action: { commands: ['cat a.txt'] } },
      {
        type: 'shell_call_output',
        call_id: 'c2',
        output: [{ stdout: 'Hello', stderr: '', outcome: { type: 'exit' } }],
      },
      { type: 'apply_patch_call', call_id: 'c3', operation: { type: 'delete_file', path: 'a.txt' } },
      { type: 'apply_patch_call_output', call_id: 'c3', status: 'completed', output: 'deleted' },
      { type: 'computer_call', id: 'cc', call_id: 'c5', action: { type: 'screenshot' } },
      { type: 'computer_call_output', call_id: 'c5', output: { type: 'computer_screenshot', image_url: SCREEN } },
      { type: 'local_shell_call', id: 'unanswered', call_id: 'c4', action: { type: 'exec', command: ['x'] } },
      { role: 'user', content: 'Go on.' },
    ];
    for (const upstream of ['messages', 'chat'] as const) {
      const { answer, body } = await sentTo(upstream, input);
      const sent = JSON.stringify(body);
      for (const said of [SCREEN, 'screenshot', 'local_shell', 'a.txt', 'cat a.txt', 'Hello', 'delete_file', 'deleted'])
        assert.ok(sent.includes(said), said);
      assert.ok(!sent.includes('c4'), 'nobody answered the last call');
      assert.ok((await lossesOf(nine, answer)).includes('client_tool_history'));
    }
  });
});

// A message without text is a message all the same: an upstream of another protocol gets one that it takes.
const HISTORY = [
  { role: 'user', content: 'Hi' },
  { role: 'assistant', content: 'Hello.' },
];

function bodyOf(spoken: Protocol, model: string, messages: readonly object[]): object {
  if (spoken === 'responses') return { model, input: messages };
  return { model, messages, ...(spoken === 'messages' && { max_tokens: 100 }) };
}

for (const [spoken, upstream] of TRANSLATED) {
  describe(`from a ${spoken} client to a ${upstream} upstream`, () => {
    const contents = spoken === 'messages' ? ['', []] : ['', ' ', []];
    for (const content of contents) {
      test(`a conversation that is ${JSON.stringify(content)} alone, or ends with it, is answered`, async () => {
        for (const before of [[], HISTORY]) {
          const body = bodyOf(spoken, modelVia(upstream), [...before, { role: 'user', content }]);
          const answer = await post(nine.gateway, spoken, body);
          assert.deepEqual(nine.provider.refused, []);
          assert.equal(answer.status, 200, answer.text);
          const said = nine.provider.asked.at(-1)!.seen.texts;
          assert.equal(said.length, before.length + 1);
          assert.equal(said.at(-1)![0], 'user');
        }
      });
    }
  });
}

describe('a whole answer', () => {
  test('has all its items, also where they all have one identifier', async () => {
    const document = response([message('msg', text('One. ')), message('msg', text('Two.'))]);
    for (const spoken of ['messages', 'chat'] as const) {
      assert.equal(textIn(spoken, (await answered(nine, spoken, 'responses', document)).json()), 'One. Two.');
    }
  });

  test('of Messages has an identifier of its own, as clients join turns of the same one', async () => {
    for (const id of ['chatcmpl-1', '', null, 7]) {
      const whole = { ...completion({ content: 'x' }), id };
      const chunk = { ...whole, choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }] };
      const ids: string[] = [];
      for (const stream of [false, true, true, false]) {
        nine.provider.upstream.script = stream
          ? answerChunks([`data: ${JSON.stringify(chunk)}\n\n`, 'data: [DONE]\n\n'])
          : answerJson(whole);
        const { text: said } = await post(
          nine.gateway,
          'messages',
          askBody('messages', modelVia('chat'), 'Hi', { stream }),
        );
        ids.push(stream ? eventsIn(said)[0]!.data.message.id : JSON.parse(said).id);
      }
      assert.equal(new Set(ids).size, 4, ids.join(' '));
      for (const one of ids) assert.match(one, /^msg_\w{10,}$/);
    }
  });

  test('loses nothing that is not in the audit record', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } };
    const LOST: readonly (readonly [Protocol, object, string])[] = [
      ['chat', completion({ content: 'x', images: [image] }), 'answer_extras'],
      ['chat', completion({ content: [{ type: 'text', text: 'x' }, image] }), 'answer_extras'],
      ['responses', response([message('m', text('x'), { type: 'output_audio', data: 'A' })]), 'answer_unknown_part'],
      ['responses', response([{ ...message('m', text('x')), phase: 'commentary' }]), 'answer_phase'],
    ];
    for (const [upstream, document, rule] of LOST) {
      const answer = await answered(nine, 'messages', upstream, document);
      assert.equal(textIn('messages', answer.json()), 'x');
      assert.deepEqual(await lossesOf(nine, answer), [rule]);
    }
  });
});

describe('a stream', () => {
  const streamed = async (spoken: Protocol, upstream: Protocol, events: readonly string[]) => {
    const { script } = nine.provider.upstream;
    nine.provider.upstream.script = answerChunks(events);
    const answer = await post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi', { stream: true }));
    nine.provider.upstream.script = script;
    return answer;
  };

  test('whose only chunk has the whole message, as some servers send it, says that message', async () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"a":1}' } };
    const whole = { ...completion({ content: 'Whole.', tool_calls: [call] }), object: 'chat.completion.chunk' };
    const events = [`data: ${JSON.stringify(whole)}\n\n`, 'data: [DONE]\n\n'];
    const said = eventsIn((await streamed('messages', 'chat', events)).text).map(({ data }) => data);
    assert.equal(said.find(({ delta }) => delta?.type === 'text_delta')?.delta.text, 'Whole.');
    assert.equal(said.find(({ delta }) => delta?.type === 'input_json_delta')?.delta.partial_json, '{"a":1}');
  });

  test('whose last chunk repeats the whole message does not say it twice', async () => {
    const piece = { ...completion({}), choices: [{ index: 0, delta: { content: 'Once.' }, finish_reason: null }] };
    const events = [piece, completion({ content: 'Once.' })].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
    const { text: body } = await streamed('messages', 'chat', [...events, 'data: [DONE]\n\n']);
    assert.equal(textIn('messages', eventsIn(body)), 'Once.');
  });

  test('tells in the audit record of deltas that nobody knows yet', async () => {
    const index = 0;
    const answer = await streamed('chat', 'messages', [
      sse({ type: 'message_start', message: { id: 'm', content: [], usage: { input_tokens: 5, output_tokens: 1 } } }),
      sse({ type: 'content_block_start', index, content_block: { type: 'text', text: 'x' } }),
      sse({ type: 'content_block_delta', index, delta: { type: 'delta_of_2031', value: 'lost' } }),
      sse({ type: 'content_block_stop', index }),
      sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } }),
      sse({ type: 'message_stop' }),
    ]);
    assert.deepEqual(await lossesOf(nine, answer), ['answer_unknown_block']);
  });
});
