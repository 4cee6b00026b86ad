import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAsk } from './scene.ts';

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

  test('results that stand together are one turn of the user, and text after them is the next', () => {
    const { turns } = messages(
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
          { id: 'b', type: 'custom', custom: { name: 'patch', input: 'say "hi"' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'one' },
      { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'two' }] },
      { role: 'user', content: 'And?' },
    );
    assert.deepEqual(turns.slice(1), [
      {
        role: 'assistant',
        parts: [
          { kind: 'tool_call', id: 'a', name: 'f', arguments: '{"x":1}' },
          { kind: 'tool_call', id: 'b', name: 'patch', arguments: '{"input":"say \\"hi\\""}' },
        ],
      },
      {
        role: 'user',
        parts: [
          { kind: 'tool_result', call_id: 'a', parts: [{ kind: 'text', text: 'one' }], is_error: false },
          { kind: 'tool_result', call_id: 'b', parts: [{ kind: 'text', text: 'two' }], is_error: false },
        ],
      },
      { role: 'user', parts: [{ kind: 'text', text: 'And?' }] },
    ]);
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
