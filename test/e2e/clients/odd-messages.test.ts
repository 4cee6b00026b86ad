/** Requests that are rare and legal, as the newest official SDKs describe them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import { askBody, modelVia, type Nine, nineConfig, post, TRANSLATED, useNine } from '../support/nine.ts';
import { refusal } from '../support/odd.ts';

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
});

// A message without text is still a message: an upstream of another protocol gets one that it accepts.
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
      test(`a conversation that is only ${JSON.stringify(content)}, or ends with it, gets a response`, async () => {
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
