/** Requests with audio and with tools of a provider, as the newest official SDKs describe them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { askBody, modelVia, type Nine, nineConfig, post, useNine } from '../support/nine.ts';
import { lossesOf, refusal } from '../support/odd.ts';

let nine: Nine;

interface Sections {
  readonly upstreams: readonly object[];
  readonly models: readonly object[];
  readonly routing: { readonly rules: readonly object[] };
}

useNine(
  (started) => {
    nine = started;
  },
  (url) => {
    const { upstreams, models, routing } = nineConfig(url) as unknown as Sections;
    const open = { ...upstreams[1]!, name: 'open', allow_fields: ['input_audio'] };
    const rules = [...routing.rules, { name: 'open', models: ['hears-1'], upstream: 'open' }];
    return {
      upstreams: [...upstreams, open],
      models: [...models, { ...models[0]!, id: 'hears-1', aliases: [], upstream_ids: {} }],
      routing: { ...routing, rules },
    };
  },
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

describe('tools that a provider has taught its models', () => {
  const SCREEN = 'https://screens.test/1.png';

  test('are not said to be run by the provider where the client runs them', async () => {
    const of_client = {
      messages: [{ type: 'bash_20250124', name: 'bash' }],
      responses: [{ type: 'local_shell' }],
    };
    for (const spoken of ['messages', 'responses'] as const) {
      const said = await refusal(nine, spoken, modelVia('chat'), { tools: of_client[spoken] });
      assert.match(said, /tools that a provider runs, or has taught its models, exist at that provider only/);
    }
  });

  test('may fail: a patch that could not be applied does not come as one that was', async () => {
    const operation = { type: 'delete_file', path: 'a.txt' };
    const input = [
      { role: 'user', content: 'Delete it.' },
      { type: 'apply_patch_call', call_id: 'c', status: 'completed', operation },
      { type: 'apply_patch_call_output', call_id: 'c', status: 'failed' },
    ];
    const sentTo = async (upstream: Protocol) => {
      nine.provider.reset();
      const answer = await post(nine.gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      return nine.provider.only().body.messages.at(-1);
    };
    assert.equal((await sentTo('messages')).content[0].is_error, true);
    assert.match(JSON.stringify((await sentTo('chat')).content), /Error: /);
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
    for (const upstream of ['messages', 'chat'] as const) {
      nine.provider.reset();
      const answer = await post(nine.gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(nine.provider.refused, []);
      assert.match(JSON.stringify(nine.provider.only().body), /screenshot.*wait/);
    }
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
      nine.provider.reset();
      const answer = await post(nine.gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(nine.provider.refused, []);
      const sent = JSON.stringify(nine.provider.only().body);
      for (const said of [SCREEN, 'screenshot', 'local_shell', 'a.txt', 'cat a.txt', 'Hello', 'delete_file', 'deleted'])
        assert.ok(sent.includes(said), said);
      assert.ok(!sent.includes('c4'), 'nobody answered the last call');
      assert.ok((await lossesOf(nine, answer)).includes('client_tool_history'));
    }
  });
});
