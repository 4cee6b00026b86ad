import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { readAsk } from './scene.ts';

function refusal(fields: Record<string, unknown>): { code: string; param: unknown; rule: unknown; message: string } {
  try {
    readAsk(fields);
  } catch (error) {
    assert.ok(error instanceof StageError);
    return { code: error.code, param: error.details.param, rule: error.details.rule, message: error.message };
  }
  throw new assert.AssertionError({ message: 'nothing was refused' });
}

describe('settings of a chat completions request', () => {
  test('everything the vocabulary has is read without a note', () => {
    const { conversation, notes } = readAsk({
      max_completion_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      frequency_penalty: 1,
      presence_penalty: -1,
      seed: 7,
      stop: 'END',
      reasoning_effort: 'high',
      verbosity: 'low',
      user: 'u1',
      metadata: { a: 'b' },
      service_tier: 'flex',
      store: true,
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' }, strict: true } },
      stream: true,
      stream_options: { include_usage: true },
    });
    const { instructions, turns, tools, model, ...settings } = conversation;
    assert.deepEqual(settings, {
      max_output_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      frequency_penalty: 1,
      presence_penalty: -1,
      seed: 7,
      stop: ['END'],
      reasoning: { effort: 'high' },
      verbosity: 'low',
      user: 'u1',
      metadata: { a: 'b' },
      service_tier: 'flex',
      store: true,
      cache: { key: 'k', ttl: '1h' },
      output_format: { kind: 'json_schema', name: 'x', schema: { type: 'object' }, strict: true },
      stream: true,
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
