import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import type { Conversation, Part, TextPart, Turn } from '../../../engine/protocols/translation/conversation.ts';
import { TARGET, writeAsk } from './scene.ts';

const text = (said: string) => ({ kind: 'text', text: said }) as const;
const call = (id: string) => ({ kind: 'tool_call', id, name: 'f', arguments: '{}' }) as const;
const result = (call_id: string, parts: readonly TextPart[], is_error = false) =>
  ({ kind: 'tool_result', call_id, parts, is_error }) as const;
const image = { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: 'iVBO' } } as const;

function messagesOf(turns: readonly Turn[], instructions: Conversation['instructions'] = []) {
  const { body, notes } = writeAsk({ turns, instructions });
  return { messages: body.messages as Record<string, unknown>[], notes };
}

describe('messages written for a chat completions upstream', () => {
  test('results follow their calls at once, whatever stands between them in the conversation', () => {
    const { messages, notes } = messagesOf([
      { role: 'user', parts: [text('Hi')] },
      { role: 'assistant', parts: [call('a')] },
      { role: 'assistant', parts: [call('b')] },
      { role: 'instructions', parts: [text('Be short')] },
      { role: 'user', parts: [result('a', [text('1')]), text('And?')] },
      { role: 'user', parts: [result('b', [text('2')])] },
    ]);
    assert.deepEqual(
      messages.map(({ role, tool_call_id, content }) => [role, tool_call_id ?? content]),
      [
        ['user', 'Hi'],
        ['assistant', null],
        ['tool', 'a'],
        ['tool', 'b'],
        // Templates of many models refuse the role system anywhere but at the beginning, and two messages of the user.
        [
          'user',
          [
            { type: 'text', text: '<system_message>\nBe short\n</system_message>' },
            { type: 'text', text: 'And?' },
          ],
        ],
      ],
    );
    assert.equal((messages[1]?.tool_calls as unknown[] | undefined)?.length, 2);
    assert.deepEqual(notes, ['instructions_turn']);
  });

  test('several texts of a result are one text, as many servers take or see no other', () => {
    const results = (...parts: TextPart[]) =>
      messagesOf([
        { role: 'assistant', parts: [call('a')] },
        { role: 'user', parts: [result('a', parts)] },
      ]);
    const { messages, notes } = results(text('one'), { ...text('two'), cache: '5m' });
    assert.equal(messages[1]?.content, 'one\ntwo');
    assert.deepEqual(notes, ['part_cache', 'result_texts']);
    assert.deepEqual(results(text('one')).notes, []);
    assert.equal(results().messages[1]?.content, '');
  });

  test('an image of a result goes into a user message right after the results', () => {
    const { messages, notes } = messagesOf([
      { role: 'assistant', parts: [call('a'), call('b')] },
      {
        role: 'user',
        parts: [
          { kind: 'tool_result', call_id: 'a', parts: [image], is_error: false },
          result('b', [text('2')]),
          text('x'),
        ],
      },
    ]);
    assert.deepEqual(messages.slice(1), [
      { role: 'tool', tool_call_id: 'a', content: 'See the next message.' },
      { role: 'tool', tool_call_id: 'b', content: '2' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Part of the result of tool call a:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBO' } },
          { type: 'text', text: 'x' },
        ],
      },
    ]);
    assert.deepEqual(notes, ['result_attachments']);
  });

  test('a failed result says so in its text, once', () => {
    const { messages, notes } = messagesOf([
      { role: 'assistant', parts: [call('a'), call('b'), call('c')] },
      {
        role: 'user',
        parts: [result('a', [text('no')], true), result('b', [text('Error: no')], true), result('c', [], true)],
      },
    ]);
    assert.deepEqual(
      messages.slice(1).map(({ content }) => content),
      ['Error: no', 'Error: no', 'Error: the tool failed.'],
    );
    assert.deepEqual(notes, ['result_error']);
  });

  test('reasoning without a proof is reasoning_content; with one it is left out and noted', () => {
    const proof = { protocol: 'messages', kind: 'signature', value: 's' } as const;
    const { messages, notes } = messagesOf([
      { role: 'user', parts: [text('Hi')] },
      { role: 'assistant', parts: [{ kind: 'reasoning', text: 'mine' }, text('Yes')] },
      { role: 'user', parts: [text('Hi')] },
      { role: 'assistant', parts: [{ kind: 'reasoning', text: 'theirs', proof }, text('Yes')] },
      { role: 'user', parts: [text('Hi')] },
      { role: 'assistant', parts: [{ kind: 'reasoning', text: 'theirs', proof }] },
    ]);
    assert.deepEqual(messages[1], { role: 'assistant', content: 'Yes', reasoning_content: 'mine' });
    assert.deepEqual(messages[3], { role: 'assistant', content: 'Yes' });
    assert.equal(messages.length, 5, 'nothing remains of the last turn');
    assert.deepEqual(notes, ['foreign_reasoning']);
  });

  test('text after a call goes before it, noted', () => {
    const { messages, notes } = messagesOf([{ role: 'assistant', parts: [call('a'), text('done')] }]);
    assert.equal(messages[0]?.content, 'done');
    assert.deepEqual(notes, ['part_order']);
  });

  test('documents: bytes are a file, text is text below its title, an address is refused', () => {
    const document = (source: object) =>
      ({ role: 'user', parts: [{ kind: 'document', source, name: 'a' } as Part] }) as Turn;
    const { messages, notes } = messagesOf([
      document({ kind: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' }),
      document({ kind: 'text', text: 'Hello' }),
    ]);
    assert.deepEqual(messages[0]?.content, [
      { type: 'file', file: { filename: 'a', file_data: 'data:application/pdf;base64,JVBERi0=' } },
      { type: 'text', text: 'Document: a\n\nHello' },
    ]);
    assert.deepEqual(notes, ['text_document']);
    assert.throws(
      () => messagesOf([document({ kind: 'url', url: 'https://example.test/a.pdf' })]),
      (error: unknown) => error instanceof StageError && error.details.rule === 'document_url',
    );
  });
});

describe('settings written for a chat completions upstream', () => {
  test('a thinking model is bounded by the newer field, any other by the one every server knows', () => {
    const bound = (thinking: 'none' | 'budget' | 'adaptive') =>
      Object.keys(writeAsk({ max_output_tokens: 9 }, { ...TARGET, thinking }).body).filter((key) =>
        key.startsWith('max_'),
      );
    assert.deepEqual(bound('none'), ['max_tokens']);
    assert.deepEqual(bound('budget'), ['max_completion_tokens']);
    assert.deepEqual(bound('adaptive'), ['max_completion_tokens']);
  });

  test('a budget of thinking becomes an effort, and a model that cannot think is not told to', () => {
    const effort = (budget_tokens: number) => writeAsk({ reasoning: { budget_tokens } }).body.reasoning_effort;
    assert.deepEqual([1024, 4096, 31_999].map(effort), ['low', 'medium', 'high']);
    assert.deepEqual(writeAsk({ reasoning: { budget_tokens: 1024 } }).notes, ['thinking_budget']);
    const off = writeAsk({ reasoning: { effort: 'high', show: true } }, { ...TARGET, thinking: 'none' });
    assert.equal('reasoning_effort' in off.body, false);
    assert.deepEqual(off.notes, ['reasoning_display', 'no_thinking']);
  });

  test('a stream asks for usage', () => {
    assert.deepEqual(writeAsk({ stream: true }).body.stream_options, { include_usage: true });
    assert.equal('stream_options' in writeAsk({ stream: false }).body, false);
  });

  test('metadata goes out only with store, as upstreams refuse it otherwise', () => {
    assert.deepEqual(writeAsk({ metadata: { a: 'b' }, store: false }).notes, ['unstored_metadata']);
    assert.deepEqual(writeAsk({ metadata: { a: 'b' }, store: true }).body.metadata, { a: 'b' });
  });

  test('a long user becomes a digest that is always the same', () => {
    const user = JSON.stringify({ device: 'd'.repeat(64), session: 's' });
    const one = writeAsk({ user });
    assert.match(String(one.body.user), /^[0-9a-f]{64}$/);
    assert.equal(one.body.user, writeAsk({ user }).body.user);
    assert.deepEqual(one.notes, ['long_user']);
  });

  test('what only other protocols have is noted', () => {
    const { body, notes } = writeAsk({
      top_k: 5,
      service_tier: 'standard_only',
      instructions: [{ kind: 'text', text: 'a', cache: '1h' }],
    });
    assert.deepEqual(Object.keys(body), ['model', 'messages', 'stream']);
    assert.deepEqual(notes, ['part_cache', 'top_k', 'service_tier']);
  });
});
