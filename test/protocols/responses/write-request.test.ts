import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { responsesProtocol } from '../../../engine/protocols/responses/index.ts';
import type { Conversation, Part, Tool, UpstreamTarget } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';

const TARGET: UpstreamTarget = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true };

function write(more: Partial<Conversation>, target = TARGET) {
  const notes = new Notes();
  const conversation = { model: 'm', instructions: [], turns: [], tools: [], stream: false, ...more };
  const body = responsesProtocol.adapter.writeRequest(conversation, target, notes);
  return { ...body, names: notes.names } as Record<string, unknown> & { input: unknown[]; names: readonly string[] };
}

const said = (role: 'user' | 'assistant' | 'instructions', ...parts: Part[]) => ({ turns: [{ role, parts }] });
const tool = (more: Partial<Tool> = {}): Tool => ({ name: 't', parameters: { type: 'object' }, ...more });

describe('what is said', () => {
  test('instructions are one developer message that keeps its blocks; later ones stand where they were said', () => {
    const { input } = write({
      instructions: [
        { kind: 'text', text: 'one' },
        { kind: 'text', text: 'two' },
      ],
      ...said('instructions', { kind: 'text', text: 'three' }),
    });
    assert.deepEqual(input, [
      {
        type: 'message',
        role: 'developer',
        content: [
          { type: 'input_text', text: 'one' },
          { type: 'input_text', text: 'two' },
        ],
      },
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'three' }] },
    ]);
  });

  test('what a tool gave back may have images, and says so when it failed', () => {
    const image = { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: 'AAAA' } } as const;
    const text = { kind: 'text', text: 'no such file' } as const;
    const result = { kind: 'tool_result', call_id: 'a' } as const;
    const { input, names } = write(
      said(
        'user',
        { ...result, parts: [text], is_error: true },
        { ...result, call_id: 'b', parts: [{ ...text, text: 'Error: it broke' }], is_error: true },
        { ...result, call_id: 'c', parts: [text, image], is_error: false },
        { ...result, call_id: 'd', parts: [], is_error: true },
        { ...result, call_id: 'e', parts: [], is_error: false },
      ),
    );
    const outputs = (input as { output: unknown }[]).map(({ output }) => output);
    assert.deepEqual(outputs, [
      'Error: no such file',
      'Error: it broke',
      [
        { type: 'input_text', text: 'no such file' },
        { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
      ],
      'Error: the tool failed.',
      '',
    ]);
    assert.deepEqual(names, ['result_error']);
  });

  test('calls of free-text tools have their text, and so have their results', () => {
    const { input, tools } = write({
      tools: [tool({ free_text: true, description: 'Edits.' })],
      turns: [
        { role: 'assistant', parts: [{ kind: 'tool_call', id: 'a', name: 't', arguments: '{"input":"x\\n"}' }] },
        { role: 'user', parts: [{ kind: 'tool_result', call_id: 'a', parts: [], is_error: false }] },
      ],
    });
    assert.deepEqual(input, [
      { type: 'custom_tool_call', call_id: 'a', name: 't', input: 'x\n' },
      { type: 'custom_tool_call_output', call_id: 'a', output: '' },
    ]);
    assert.deepEqual(tools, [{ type: 'custom', name: 't', description: 'Edits.' }]);
  });

  test('reasoning of this protocol goes back whole; that of others is left out, noted', () => {
    const own = { protocol: 'responses', kind: 'encrypted', value: 'abc', id: 'rs_1' } as const;
    const { input, names } = write(
      said(
        'assistant',
        { kind: 'reasoning', text: 'hm', proof: own },
        { kind: 'reasoning', text: 'signed', proof: { protocol: 'messages', kind: 'signature', value: 's' } },
        { kind: 'reasoning', text: 'plain' },
        { kind: 'text', text: 'so' },
      ),
    );
    assert.deepEqual(input, [
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'abc' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'so' }] },
    ]);
    assert.deepEqual(names, ['foreign_reasoning']);
  });

  test('reasoning that nothing follows is left out, as the protocol refuses it', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'abc' } as const;
    const thought: Part = { kind: 'reasoning', text: '', proof };
    const { input, names } = write({
      turns: [
        { role: 'assistant', parts: [thought, thought] },
        { role: 'user', parts: [{ kind: 'text', text: 'hi' }] },
      ],
    });
    assert.equal(input.length, 1);
    assert.deepEqual(names, ['lone_reasoning']);
  });

  test('documents go by their bytes, their URL or as text', () => {
    const { input, names } = write(
      said(
        'user',
        { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: 'AA' } },
        { kind: 'document', source: { kind: 'url', url: 'https://example.test/a.pdf' }, name: 'a.pdf' },
        { kind: 'document', source: { kind: 'text', text: 'words' }, name: 'notes' },
      ),
    );
    assert.deepEqual((input[0] as { content: unknown }).content, [
      { type: 'input_file', filename: 'document.pdf', file_data: 'data:application/pdf;base64,AA' },
      { type: 'input_file', filename: 'a.pdf', file_url: 'https://example.test/a.pdf' },
      { type: 'input_text', text: 'Document: notes\n\nwords' },
    ]);
    assert.deepEqual(names, ['text_document']);
  });
});

describe('settings', () => {
  test('the provider is asked to keep nothing unless the client wants it', () => {
    assert.equal(write({}).store, false);
    assert.equal(write({ store: true }).store, true);
  });

  test('encrypted reasoning is asked for where the client wants the model to think', () => {
    assert.equal(write({}).include, undefined);
    assert.deepEqual(write({ reasoning: { effort: 'low' } }).include, ['reasoning.encrypted_content']);
    assert.equal(write({ reasoning: { effort: 'none' } }).include, undefined);
    const never = write({ reasoning: { effort: 'high' } }, { ...TARGET, thinking: 'none' });
    assert.deepEqual([never.include, never.reasoning, never.names], [undefined, undefined, ['no_thinking']]);
  });

  test('a wish to think is an effort, and a summary where the client wants to see it', () => {
    assert.deepEqual(write({ reasoning: { effort: 'max', show: true } }).reasoning, { effort: 'max', summary: 'auto' });
    const efforts = [1024, 4096, 16_384].map((budget_tokens) => write({ reasoning: { budget_tokens } }));
    assert.deepEqual(
      efforts.map(({ reasoning }) => reasoning),
      [{ effort: 'low' }, { effort: 'medium' }, { effort: 'high' }],
    );
    assert.deepEqual(efforts[0]!.names, ['thinking_budget']);
  });

  test('a tool is strict only where its schema allows it, and never by default', () => {
    const open = { type: 'object', properties: { a: { type: 'string' } } };
    const closed = { ...open, required: ['a'], additionalProperties: false };
    const strict = (more: Partial<Tool>) => {
      const { tools, names } = write({ tools: [tool(more)] });
      return [(tools as { strict: boolean }[])[0]!.strict, names];
    };
    assert.deepEqual(strict({}), [false, []]);
    assert.deepEqual(strict({ strict: true, parameters: closed }), [true, []]);
    assert.deepEqual(strict({ strict: true, parameters: open }), [false, ['strict_schema']]);
  });

  test('the protocol takes no bound below 16 tokens, no stop sequences and no long users', () => {
    const body = write({
      max_output_tokens: 1,
      stop: ['x'],
      user: 'u'.repeat(65),
      top_k: 5,
      seed: 1,
      presence_penalty: 1,
    });
    assert.equal(body.max_output_tokens, 16);
    assert.match(body.user as string, /^[0-9a-f]{64}$/);
    assert.deepEqual([...body.names].sort(), [
      'long_user',
      'penalties',
      'seed',
      'small_output',
      'stop_sequences',
      'top_k',
    ]);
    assert.ok(!('stop' in body));
  });

  test('marks of the prompt cache become its key and how long it is kept', () => {
    const { names, ...body } = write({
      cache: { key: 'k', ttl: '1h' },
      ...said('user', { kind: 'text', text: 'x', cache: '1h' }),
    });
    assert.equal(body.prompt_cache_key, 'k');
    assert.equal(body.prompt_cache_retention, '24h');
    assert.deepEqual(names, ['part_cache']);
  });

  test('formats of the answer are said', () => {
    const schema = { type: 'object', properties: {}, additionalProperties: false, required: [] };
    assert.deepEqual(write({ output_format: { kind: 'json_schema', schema, strict: true }, verbosity: 'low' }).text, {
      verbosity: 'low',
      format: { type: 'json_schema', name: 'answer', schema, strict: true },
    });
    assert.deepEqual(write({ output_format: { kind: 'json_object' } }).text, { format: { type: 'json_object' } });
  });
});
