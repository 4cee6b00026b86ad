/** Requests and answers that are rare and legal, as the newest official SDKs describe them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { ModelProvider } from '../../support/model-provider/model-provider.ts';
import { answerChunks, answerJson, sse } from '../../support/model-provider/scripted-upstream.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { askBody, modelVia, nineConfig, post, useNine } from '../support/nine.ts';
import { auditRecord, ledgerRow } from '../support/state.ts';

let provider: ModelProvider;
let gateway: TestGateway;

interface Sections {
  readonly upstreams: readonly object[];
  readonly models: readonly object[];
  readonly routing: { readonly rules: readonly object[] };
}

useNine(
  (nine) => {
    ({ provider, gateway } = nine);
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

const idOf = ({ headers }: Response) => String(headers['x-gateway-request-id']);
const lossesOf = async (answer: Response) =>
  ((await auditRecord(gateway.database, idOf(answer))).record as { losses: readonly string[] }).losses;

/** The answer of a gateway whose upstream answers with this document. */
async function answered(spoken: Protocol, upstream: Protocol, document: object, more: object = {}): Promise<Response> {
  const { script } = provider.upstream;
  provider.upstream.script = answerJson(document);
  const answer = await post(gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi', more));
  provider.upstream.script = script;
  return answer;
}

/** The message of a refusal for which the upstream was not asked. */
async function refusal(spoken: Protocol, model: string, more: object): Promise<string> {
  const answer = await post(gateway, spoken, askBody(spoken, model, 'Hi', more));
  assert.equal(answer.status, 400, answer.text);
  assert.equal(provider.upstream.requests.length, 0);
  return answer.json().error.message;
}

const message = (id: string, ...content: object[]) => ({ type: 'message', id, role: 'assistant', content });
const text = (said: string) => ({ type: 'output_text', text: said, annotations: [] });
const response = (output: readonly object[], usage: object = {}) => ({
  ...{ id: 'resp_1', object: 'response', status: 'completed', model: 'm', output },
  usage: { input_tokens: 100, output_tokens: 20, total_tokens: 120, ...usage },
});
const completion = (said: object, usage: object = {}) => ({
  ...{ id: 'c', object: 'chat.completion', created: 1, model: 'm' },
  choices: [{ index: 0, message: { role: 'assistant', ...said }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, ...usage },
});

describe('tokens written to a cache for half a day or half an hour', () => {
  const split = { cached_tokens: 5, cache_write_tokens: 50 };
  const details = { ...split, cache_write_tokens_details: { ttl_12h_tokens: 40, ttl_30m_tokens: 10 } };
  const DOCUMENTS = {
    responses: response([message('msg_1', text('Hi'))], { input_tokens_details: details }),
    chat: completion({ content: 'Hi' }, { prompt_tokens_details: details }),
  };
  for (const upstream of ['responses', 'chat'] as const) {
    for (const spoken of [upstream, 'messages'] as const) {
      test(`are billed apart, as a ${upstream} upstream tells them to a ${spoken} client`, async () => {
        const answer = await answered(spoken, upstream, DOCUMENTS[upstream]);
        const row = await ledgerRow(gateway.database, idOf(answer));
        assert.deepEqual(
          [row.input_tokens, row.cache_read_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens],
          [45, 5, 10, 40],
        );
        if (spoken !== 'messages') return;
        const { cache_creation_input_tokens, cache_creation } = answer.json().usage;
        assert.equal(cache_creation_input_tokens, 50);
        assert.deepEqual(cache_creation, { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 40 });
      });
    }

    test(`are told as they are billed where the ${upstream} upstream's total is less than its parts`, async () => {
      const written = JSON.parse(
        JSON.stringify(DOCUMENTS[upstream]).replace('"cache_write_tokens":50', '"cache_write_tokens":0'),
      );
      const answer = await answered('messages', upstream, written);
      const row = await ledgerRow(gateway.database, idOf(answer));
      const { input_tokens, cache_creation_input_tokens } = answer.json().usage;
      assert.deepEqual([row.input_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens], [45, 10, 40]);
      assert.deepEqual([input_tokens, cache_creation_input_tokens], [45, 50]);
    });
  }
});

test('a prompt that is to be kept for half a day is kept for an hour by a Messages upstream, and where it is not to be kept, not', async () => {
  const marked = async (spoken: Protocol, prompt_cache_options: object) => {
    provider.reset();
    const body = askBody(spoken, modelVia('messages'), 'Hi', { prompt_cache_options });
    const answer = await post(gateway, spoken, body);
    assert.equal(answer.status, 200, answer.text);
    assert.ok((await lossesOf(answer)).includes('prompt_cache_options'));
    return provider.only().body.messages[0].content[0].cache_control;
  };
  for (const spoken of ['chat', 'responses'] as const) {
    assert.deepEqual(await marked(spoken, { ttl: '12h' }), { type: 'ephemeral', ttl: '1h' });
    assert.deepEqual(await marked(spoken, { ttl: '30m', mode: 'implicit' }), { type: 'ephemeral' });
    assert.equal(await marked(spoken, { ttl: '12h', mode: 'explicit' }), undefined);
  }
});

test('marks without a lifetime get that of the request, and none is kept for longer than one before it', async () => {
  const marked = async (spoken: Protocol, ttls: readonly (string | undefined)[], ttl?: string) => {
    provider.reset();
    const type = spoken === 'chat' ? 'text' : 'input_text';
    const content = ttls.map((one) => ({ type, text: 'x', prompt_cache_breakpoint: { mode: 'explicit', ttl: one } }));
    const said = [{ role: 'user', content }];
    const more = { prompt_cache_options: { mode: 'explicit', ttl } };
    const body = {
      ...askBody(spoken, modelVia('messages'), '', more),
      [spoken === 'chat' ? 'messages' : 'input']: said,
    };
    const answer = await post(gateway, spoken, body);
    assert.equal(answer.status, 200, answer.text);
    const blocks: readonly { cache_control?: { ttl?: string } }[] = provider.only().body.messages[0].content;
    return blocks.map(({ cache_control }) => cache_control?.ttl ?? '5m');
  };
  for (const spoken of ['chat', 'responses'] as const) {
    assert.deepEqual(await marked(spoken, [undefined, undefined], '12h'), ['1h', '1h']);
    assert.deepEqual(await marked(spoken, [undefined, undefined], '30m'), ['5m', '5m']);
    // A Messages upstream refuses a longer lifetime after a shorter one.
    assert.deepEqual(await marked(spoken, [undefined, '12h', '30m']), ['1h', '1h', '5m']);
  }
});

test('a request that only prepares the cache of a provider does not become one for an answer', async () => {
  for (const upstream of ['messages', 'chat'] as const) {
    for (const asked of [{ prompt_cache_options: { prewarm: true } }, { generate: false }]) {
      const said = await refusal('responses', modelVia(upstream), asked);
      assert.match(said, /^(?:prompt_cache_options\.prewarm|generate): the upstream would write an answer/);
    }
  }
  const ordinary = askBody('responses', modelVia('chat'), 'Hi', { prompt_cache_options: { prewarm: false } });
  assert.equal((await post(gateway, 'responses', ordinary)).status, 200);
});

describe('audio', () => {
  const heard = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }];

  test('is not billed as text: it takes an administrator who knows the price to let it pass', async () => {
    const said = await refusal('chat', modelVia('chat'), { messages: heard });
    assert.match(said, /^messages\[0\]\.content\[0\]: "audio" has no price .*"input_audio" to `allow_fields`/);
    const answer = await post(gateway, 'chat', askBody('chat', 'hears-1', '', { messages: heard }));
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
      assert.match(await refusal(spoken, modelVia(spoken), said), /^\w+\[0\]\.\S+: "audio" has no price/);
  });

  test('of a Responses client is refused as audio where it would have to be translated', async () => {
    const said = await refusal('responses', 'hears-1', { input: heard });
    assert.match(said, /^input\.0\.content\.0: the API of the upstream has no audio/);
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
      const said = await refusal(spoken, modelVia('chat'), { tools: of_client[spoken] });
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
      provider.reset();
      const answer = await post(gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      return provider.only().body.messages.at(-1);
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
      provider.reset();
      const answer = await post(gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(provider.refused, []);
      assert.match(JSON.stringify(provider.only().body), /screenshot.*wait/);
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
      provider.reset();
      const answer = await post(gateway, 'responses', { model: modelVia(upstream), input });
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(provider.refused, []);
      const sent = JSON.stringify(provider.only().body);
      for (const said of [SCREEN, 'screenshot', 'local_shell', 'a.txt', 'cat a.txt', 'Hello', 'delete_file', 'deleted'])
        assert.ok(sent.includes(said), said);
      assert.ok(!sent.includes('c4'), 'nobody answered the last call');
      assert.ok((await lossesOf(answer)).includes('client_tool_history'));
    }
  });
});

describe('a whole answer', () => {
  test('has all its items, also where they all have one identifier', async () => {
    const document = response([message('msg', text('One. ')), message('msg', text('Two.'))]);
    for (const spoken of ['messages', 'chat'] as const) {
      assert.equal(textIn(spoken, (await answered(spoken, 'responses', document)).json()), 'One. Two.');
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
      const answer = await answered('messages', upstream, document);
      assert.equal(textIn('messages', answer.json()), 'x');
      assert.deepEqual(await lossesOf(answer), [rule]);
    }
  });
});

describe('a stream', () => {
  const streamed = async (spoken: Protocol, upstream: Protocol, events: readonly string[]) => {
    const { script } = provider.upstream;
    provider.upstream.script = answerChunks(events);
    const answer = await post(gateway, spoken, askBody(spoken, modelVia(upstream), 'Hi', { stream: true }));
    provider.upstream.script = script;
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
    assert.deepEqual(await lossesOf(answer), ['answer_unknown_block']);
  });
});
