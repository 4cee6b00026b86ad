/** Requests that are rare and legal, and models that want user and assistant to take turns. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { askBody, modelVia, nineConfig, post, useNine } from '../support/nine.ts';
import { lossesOf, refusal } from '../support/odd.ts';

const nine = useNine((url) =>
  nineConfig(url, {
    upstreams: [
      { name: 'open', type: 'compat', protocols: ['chat'], allow_fields: ['input_audio'], ...ONE_ATTEMPT },
      { name: 'own', type: 'compat', protocols: ['chat'], supports: { strict_turns: true }, ...ONE_ATTEMPT },
    ],
    models: [
      { id: 'hears-1' },
      { id: 'coder-small', upstream_ids: { chat: 'mistralai/Devstral-Small-2507' } },
      { id: 'local', upstream_ids: { own: 'q4.gguf' } },
    ],
    rules: [
      { name: 'open', models: ['hears-1'], upstream: 'open' },
      { name: 'small', models: ['coder-small'], upstream: 'chat' },
      { name: 'local', models: ['local'], upstream: 'own' },
    ],
  }),
);

describe('audio', () => {
  const heard = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }];

  test('is not billed as text: only a configured price lets it pass', async () => {
    const said = await refusal(nine, 'chat', modelVia('chat'), { messages: heard });
    assert.match(
      said,
      /^messages\[0\]\.content\[0\]: "audio" has no price .*`audio_input` in the pricing of the model/,
    );
    const answer = await post(nine.gateway, 'chat', askBody('chat', 'hears-1', '', { messages: heard }));
    assert.equal(answer.status, 200, answer.text);
  });

  test('is known by its type, by its key, and in the results of tools', async () => {
    const user = (part: object) => ({ messages: [{ role: 'user', content: [part] }] });
    const FORMS: readonly (readonly [Protocol, object])[] = [
      ['chat', user({ type: 'audio_url', audio_url: { url: 'https://a.test/a' } })],
      ['chat', user({ input_audio: { data: 'AAAA', format: 'wav' } })],
      ['chat', user({ type: 'Input_Audio', data: 'AAAA' })],
      ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
      ['responses', { input: [{ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_audio' }] }] }],
    ];
    for (const [spoken, said] of FORMS)
      assert.match(await refusal(nine, spoken, modelVia(spoken), said), /^\w+\[0\]\.\S+: "audio" has no price/);
  });
});

for (const [which, model, is_strict] of [
  ['known by its name', 'coder-small', true],
  ['known by its upstream', 'local', true],
  ['and no other', 'via-chat', false],
] as const) {
  test(`a model that wants user and assistant to take turns, ${which}, gets a message between results and the user`, async () => {
    const said = [
      { type: 'tool_result', tool_use_id: '1', content: 'found' },
      { type: 'text', text: 'b' },
    ];
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'find', input: {} }] },
      { role: 'user', content: said },
    ];
    const tools = [{ name: 'find', input_schema: { type: 'object' } }];
    const answer = await post(nine.gateway, 'messages', askBody('messages', model, '', { messages, tools }));
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(nine.provider.only().body.messages.slice(2), [
      { role: 'tool', tool_call_id: '1', content: 'found' },
      ...(is_strict ? [{ role: 'assistant', content: 'I have the results.' }] : []),
      { role: 'user', content: 'b' },
    ]);
    assert.deepEqual(await lossesOf(nine, answer), is_strict ? ['user_after_results'] : []);
  });
}
