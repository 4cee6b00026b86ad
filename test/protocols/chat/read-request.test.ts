import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { raisedBy } from '../../support/raised.ts';
import { readAsk } from './scene.ts';

function refusal(fields: Record<string, unknown>) {
  const { code, message, details } = raisedBy(() => readAsk(fields));
  return { code, message, param: details.param, rule: details.rule };
}

describe('settings of a chat completions request', () => {
  test('everything the vocabulary has is read without a note', () => {
    const schema = { name: 'x', schema: { type: 'object' }, strict: true };
    const same = {
      ...{ temperature: 0.5, top_p: 0.9, frequency_penalty: 1, presence_penalty: -1, seed: 7, verbosity: 'low' },
      ...{ user: 'u1', metadata: { a: 'b' }, service_tier: 'flex', store: true, stream: true },
    };
    const { conversation, notes } = readAsk({
      ...same,
      ...{ max_completion_tokens: 100, stop: 'END', reasoning_effort: 'high' },
      ...{ prompt_cache_key: 'k', prompt_cache_retention: '24h', stream_options: { include_usage: true } },
      response_format: { type: 'json_schema', json_schema: schema },
    });
    const { instructions, turns, tools, model, ...settings } = conversation;
    assert.deepEqual(settings, {
      ...same,
      ...{ max_output_tokens: 100, stop: ['END'], reasoning: { effort: 'high' }, cache: { key: 'k', ttl: '1h' } },
      output_format: { kind: 'json_schema', ...schema },
    });
    assert.deepEqual(notes, []);
  });

  test('an effort that is newer than this version is no reason to refuse', () => {
    const { conversation, notes } = readAsk({ reasoning_effort: 'ultra' });
    assert.equal(conversation.reasoning, undefined);
    assert.deepEqual(notes, ['unknown_effort']);
  });

  test('null says nothing, and defaults need no note', () => {
    const { conversation, notes } = readAsk({
      max_tokens: null,
      temperature: null,
      stop: null,
      tools: null,
      tool_choice: null,
      response_format: { type: 'text' },
      n: 1,
      logprobs: false,
      modalities: ['text'],
      top_p: 1,
      frequency_penalty: 0,
      presence_penalty: 0,
      stream_options: null,
      functions: null,
    });
    assert.deepEqual(Object.keys(conversation).sort(), ['instructions', 'model', 'stream', 'tools', 'turns']);
    assert.deepEqual(notes, []);
  });

  test('what no other protocol has is dropped with a note each', () => {
    const { notes } = readAsk({
      logprobs: true,
      logit_bias: { 1: 5 },
      prediction: { type: 'content', content: 'x' },
      moderation: { model: 'x' },
      prompt_cache_options: { mode: 'explicit' },
      safety_identifier: 's',
      user: 'u',
      stream_options: { include_obfuscation: true },
      messages: [{ role: 'user', name: 'Ada', content: 'Hi' }],
      some_new_field: 1,
    });
    assert.deepEqual([...notes].sort(), [
      'logit_bias',
      'message_name',
      'moderation',
      'prediction',
      'prompt_cache_options',
      'second_user',
      'stream_obfuscation',
      'token_probabilities',
      'unknown_field:some_new_field',
    ]);
  });

  test('what cannot be left out is refused with the rule and the place', () => {
    const audio = { role: 'user', content: [{ type: 'input_audio', input_audio: { data: '', format: 'wav' } }] };
    const file = { role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] };
    const cases: [Record<string, unknown>, string, string][] = [
      [{ n: 2 }, 'several_choices', 'n'],
      [{ functions: [] }, 'functions', 'functions'],
      [{ function_call: 'auto' }, 'functions', 'function_call'],
      [{ modalities: ['text', 'audio'] }, 'audio', 'modalities'],
      [{ messages: [audio] }, 'audio', 'messages.0.content.0'],
      [{ messages: [file] }, 'file_reference', 'messages.0.content.0.file.file_id'],
      [{ web_search_options: {} }, 'only_provider_tools', 'web_search_options'],
      [{ tools: [{ type: 'web_search' }] }, 'only_provider_tools', 'tools'],
    ];
    for (const [fields, rule, param] of cases) {
      const { code, ...told } = refusal(fields);
      assert.deepEqual([code, told.rule, told.param], ['not_translatable', rule, param]);
    }
  });

  test('a request that breaks the protocol is refused with the place and without its text', () => {
    const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
    const call = (value: unknown) => ({ messages: [{ role: 'assistant', tool_calls: [value] }] });
    const cases: [Record<string, unknown>, string][] = [
      [{ messages: 'secret' }, 'messages'],
      [{ messages: [] }, 'messages'],
      [{ messages: [null] }, 'messages.0'],
      [{ messages: [{ role: 'secret', content: 'x' }] }, 'messages.0.role'],
      [user(undefined), 'messages.0.content'],
      [user(7), 'messages.0.content'],
      [user([null]), 'messages.0.content.0'],
      [user([{ type: 'secret' }]), 'messages.0.content.0.type'],
      [user([{ type: 'text', text: 1 }]), 'messages.0.content.0.text'],
      [user([{ type: 'image_url', image_url: { url: 'secret' } }]), 'messages.0.content.0.image_url.url'],
      [
        user([{ type: 'image_url', image_url: { url: 'data:image/png,secret' } }]),
        'messages.0.content.0.image_url.url',
      ],
      [{ messages: [{ role: 'tool', content: 'secret' }] }, 'messages.0.tool_call_id'],
      [{ messages: [{ role: 'function', name: 'secret', content: '' }] }, 'messages.0.name'],
      [call({ type: 'function', function: { name: 'f' } }), 'messages.0.tool_calls.0.id'],
      [call({ id: 'a', function: null }), 'messages.0.tool_calls.0.function'],
      [{ temperature: 'secret' }, 'temperature'],
      [{ temperature: Number.POSITIVE_INFINITY }, 'temperature'],
      [{ max_tokens: -1 }, 'max_tokens'],
      [{ stop: [1] }, 'stop.0'],
      [{ reasoning_effort: 7 }, 'reasoning_effort'],
      [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
      [{ metadata: { secret: 1 } }, 'metadata'],
      [{ tools: [{ type: 'function' }] }, 'tools.0.function'],
      [{ tool_choice: 'secret' }, 'tool_choice'],
      [{ tool_choice: { type: 'function' } }, 'tool_choice.function'],
    ];
    for (const [fields, param] of cases) {
      const told = refusal(fields);
      assert.deepEqual([told.code, told.param], ['invalid_request', param]);
      assert.doesNotMatch(told.message, /secret/);
      assert.ok(told.message.startsWith(`${param}: `), told.message);
    }
  });
});

describe('tools of a chat completions request', () => {
  const fn = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });

  test('functions, functions without parameters and free-text tools', () => {
    const { conversation, notes } = readAsk({
      tools: [
        { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' }, strict: true } },
        { type: 'function', function: { name: 'g' } },
        {
          type: 'custom',
          custom: { name: 'h', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } } },
        },
      ],
    });
    const { tools } = conversation;
    assert.deepEqual(notes, ['tool_grammar']);
    assert.deepEqual(tools[0], { name: 'f', description: 'd', parameters: { type: 'object' }, strict: true });
    assert.deepEqual(tools[1], { name: 'g', parameters: { type: 'object', properties: {} } });
    assert.equal(tools[2]?.free_text, true);
    assert.match(tools[2]?.description ?? '', /grammar \(lark\):\nstart: "x"/);
  });

  test('the choice of a tool has every form', () => {
    const choice = (tool_choice: unknown) => readAsk({ tools: [fn('f')], tool_choice }).conversation.tool_choice;
    assert.deepEqual(choice('auto'), { kind: 'auto' });
    assert.deepEqual(choice('none'), { kind: 'none' });
    assert.deepEqual(choice('required'), { kind: 'any' });
    assert.deepEqual(choice({ type: 'function', function: { name: 'f' } }), { kind: 'tool', name: 'f' });
    assert.deepEqual(choice({ type: 'custom', custom: { name: 'f' } }), { kind: 'tool', name: 'f' });
  });

  test('allowed tools leave only those tools', () => {
    const allowed_tools = { mode: 'required', tools: [{ type: 'function', function: { name: 'g' } }] };
    const { conversation, notes } = readAsk({
      tools: [fn('f'), fn('g')],
      tool_choice: { type: 'allowed_tools', allowed_tools },
    });
    assert.deepEqual(
      conversation.tools.map(({ name }) => name),
      ['g'],
    );
    assert.deepEqual(conversation.tool_choice, { kind: 'any' });
    assert.deepEqual(notes, ['allowed_tools']);
  });

  test('tools that the provider runs are left out while others remain', () => {
    const { conversation, notes } = readAsk({ tools: [fn('f'), { type: 'web_search' }], web_search_options: {} });
    assert.equal(conversation.tools.length, 1);
    assert.deepEqual(notes, ['provider_tool']);
  });
});

const PNG = 'iVBORw0KGgo=';

function messages(...list: unknown[]) {
  return readAsk({ messages: list }).conversation;
}

describe('messages of a chat completions request', () => {
  test('leading system and developer messages are instructions, block by block, in order', () => {
    const { instructions, turns } = messages(
      { role: 'system', content: 'one' },
      {
        role: 'developer',
        content: [
          { type: 'text', text: 'two' },
          { type: 'text', text: 'three' },
        ],
      },
      { role: 'user', content: 'Hi' },
    );
    assert.deepEqual(
      instructions.map(({ text }) => text),
      ['one', 'two', 'three'],
    );
    assert.deepEqual(turns, [{ role: 'user', parts: [{ kind: 'text', text: 'Hi' }] }]);
  });

  test('a system message in the middle stays where it is', () => {
    const { instructions, turns } = messages(
      { role: 'user', content: 'Hi' },
      { role: 'developer', content: 'Now be short' },
      { role: 'user', content: 'Go' },
    );
    assert.deepEqual(instructions, []);
    assert.deepEqual(
      turns.map(({ role }) => role),
      ['user', 'instructions', 'user'],
    );
  });

  test('images come by data: URL or by address, with their detail', () => {
    const { turns } = messages({
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://example.test/a.png' } },
      ],
    });
    assert.deepEqual(turns[0]?.parts, [
      { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: PNG }, detail: 'low' },
      { kind: 'image', source: { kind: 'url', url: 'https://example.test/a.png' } },
    ]);
  });

  test('files come by data: URL or as bare base64; text files become text', () => {
    const text = Buffer.from('Hello, wörld').toString('base64');
    const { turns } = messages({
      role: 'user',
      content: [
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } },
        { type: 'file', file: { file_data: 'JVBERi0=' } },
        { type: 'file', file: { file_data: `data:text/plain;charset=utf-8;base64,${text}` } },
      ],
    });
    assert.deepEqual(turns[0]?.parts, [
      { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' }, name: 'a.pdf' },
      { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' } },
      { kind: 'document', source: { kind: 'text', text: 'Hello, wörld' } },
    ]);
  });

  test('a call of a free-text tool has its text as its one argument', () => {
    const tool_calls = [{ id: 'b', type: 'custom', custom: { name: 'patch', input: 'say "hi"' } }];
    const { turns } = messages({ role: 'user', content: 'Hi' }, { role: 'assistant', content: null, tool_calls });
    const args = '{"input":"say \\"hi\\""}';
    assert.deepEqual(turns[1]?.parts, [{ kind: 'tool_call', id: 'b', name: 'patch', arguments: args }]);
  });

  test('reasoning is read under both of its names, before the text', () => {
    for (const key of ['reasoning_content', 'reasoning']) {
      const { turns } = messages({ role: 'user', content: 'Hi' }, { role: 'assistant', content: 'Yes', [key]: 'Hm' });
      assert.deepEqual(turns[1]?.parts, [
        { kind: 'reasoning', text: 'Hm' },
        { kind: 'text', text: 'Yes' },
      ]);
    }
  });

  test('a refusal is read from its field and from content', () => {
    const { turns } = messages(
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, refusal: 'No.' },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'Never.' }] },
    );
    assert.deepEqual(
      turns.slice(1).map(({ parts }) => parts),
      [[{ kind: 'refusal', text: 'No.' }], [{ kind: 'refusal', text: 'Never.' }]],
    );
  });

  test('calls and results in the deprecated form become calls and results of tools, noted', () => {
    const { conversation, notes } = readAsk({
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'done' },
      ],
    });
    const [call] = conversation.turns[1]?.parts ?? [];
    const [result] = conversation.turns[2]?.parts ?? [];
    assert.equal(call?.kind === 'tool_call' && call.id, result?.kind === 'tool_result' && result.call_id);
    assert.deepEqual(notes, ['function_message']);
  });

  test('cache marks are read on parts, messages and tools', () => {
    const mark = { cache_control: { type: 'ephemeral' } };
    const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } };
    const { conversation, notes } = readAsk({
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'one', ...hour }] },
        { role: 'user', content: [{ type: 'text', text: 'two', prompt_cache_breakpoint: { mode: 'explicit' } }] },
        { role: 'user', content: 'three', ...mark },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } }, ...mark }],
    });
    assert.equal(conversation.instructions[0]?.cache, '1h');
    assert.deepEqual(
      conversation.turns.map(({ parts }) => (parts[0] as { cache?: string }).cache),
      ['5m', '5m'],
    );
    assert.equal(conversation.tools[0]?.cache, '5m');
    assert.deepEqual(notes, []);
  });

  test('lifetimes of the newer marks become the nearest ones, noted', () => {
    const part = (ttl: string) => ({ type: 'text', text: 'a', prompt_cache_breakpoint: { mode: 'explicit', ttl } });
    const { conversation, notes } = readAsk({ messages: [{ role: 'user', content: [part('30m'), part('12h')] }] });
    assert.deepEqual(
      conversation.turns[0]?.parts.map((one) => (one as { cache?: string }).cache),
      ['5m', '1h'],
    );
    assert.deepEqual(notes, ['prompt_cache_options']);
  });
});
