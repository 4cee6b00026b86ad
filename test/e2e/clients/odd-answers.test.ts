/** Answers that are rare and legal, as the newest official SDKs describe them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { answerChunks, answerJson, sse } from '../../support/model-provider/scripted-upstream.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { askBody, modelVia, type Nine, post, useNine } from '../support/nine.ts';
import { answered, completion, lossesOf, message, response, text } from '../support/odd.ts';

let nine: Nine;
useNine((started) => {
  nine = started;
});

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
