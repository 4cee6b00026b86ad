import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { context, dataOf, writeStream } from './scene.ts';

const start: ModelEvent = { type: 'start', id: 'msg_1', model: 'up' };
const end = (more: Partial<ModelEvent & { type: 'end' }> = {}): ModelEvent => ({
  type: 'end',
  reason: 'finished',
  ...more,
});
const call = (index: number, name = 'f'): ModelEvent => ({
  type: 'part_start',
  index,
  part: { kind: 'tool_call', id: `call_${index}`, name },
});
const delta = (index: number, text: string): ModelEvent => ({ type: 'part_delta', index, text });
const part = (index: number, kind: 'text' | 'refusal' | 'reasoning', text: string): ModelEvent[] => [
  { type: 'part_start', index, part: { kind } },
  delta(index, text),
  { type: 'part_end', index },
];

function chunks(events: readonly ModelEvent[], answer = context()) {
  return dataOf(writeStream(events, answer).text).map((data) => (data === '[DONE]' ? data : JSON.parse(data)));
}

const deltasOf = (events: readonly ModelEvent[], answer = context()) =>
  chunks(events, answer).flatMap((chunk) => (chunk.choices?.[0] ? [chunk.choices[0].delta] : []));

describe('a stream written for a chat completions client', () => {
  test('has the shape of the protocol from the role to the end mark', () => {
    const usage = { input: 10, output: 5, cache_read: 3, cache_write: 2, reasoning: 4 };
    const head = { id: 'msg_1', object: 'chat.completion.chunk', created: 1_800_000_000, model: 'up' };
    const choice = (said: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta: said, finish_reason }],
      usage: null,
    });
    assert.deepEqual(chunks([start, ...part(0, 'reasoning', 'Hm'), ...part(1, 'text', 'Yes'), end({ usage })]), [
      choice({ role: 'assistant' }),
      choice({ reasoning_content: 'Hm' }),
      choice({ content: 'Yes' }),
      choice({}, 'stop'),
      {
        ...head,
        choices: [],
        usage: {
          prompt_tokens: 15,
          completion_tokens: 5,
          total_tokens: 20,
          prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
          completion_tokens_details: { reasoning_tokens: 4 },
        },
      },
      '[DONE]',
    ]);
  });

  test('says usage only to clients that asked, and none where none is known', () => {
    const usage = { input: 1, output: 1 };
    const silent = writeStream([start, end({ usage })], context({ include_usage: false })).text;
    assert.doesNotMatch(silent, /usage/);
    const unknown = chunks([start, end()]);
    assert.equal(
      unknown.some((chunk) => chunk.choices?.length === 0),
      false,
    );
  });

  test('usage told at the start counts where the end does not say otherwise', () => {
    const all = chunks([
      { ...start, usage: { input: 9, cache_read: 1, output: 1 } } as ModelEvent,
      end({ usage: { output: 5 } }),
    ]);
    const { prompt_tokens, completion_tokens } = all.at(-2).usage;
    assert.deepEqual([prompt_tokens, completion_tokens], [10, 5]);
  });

  test('usage counts what was written to the cache also where only its lifetimes were told', () => {
    const usage = { input: 10, output: 5, cache_write_5m: 2, cache_write_1h: 3 };
    const { prompt_tokens, prompt_tokens_details } = chunks([start, end({ usage })]).at(-2).usage;
    assert.deepEqual([prompt_tokens, prompt_tokens_details.cache_write_tokens], [15, 5]);
  });

  test('an answer without identifier and model gets those of the request', () => {
    const [first] = chunks([{ type: 'start' }]);
    assert.deepEqual([first.id, first.model], ['chatcmpl_0198abcd', 'asked-model']);
  });

  test('a free-text tool is called with its plain text', () => {
    const answer = context({ free_text_tools: new Set(['f']) });
    const events = [
      start,
      call(0),
      delta(0, '{"input":"say \\"'),
      delta(0, 'hi\\""}'),
      { type: 'part_end', index: 0 } as const,
    ];
    assert.deepEqual(
      deltasOf(events, answer).flatMap(({ tool_calls }) => tool_calls ?? []),
      [
        { index: 0, id: 'call_0', type: 'custom', custom: { name: 'f', input: '' } },
        { index: 0, custom: { input: 'say "' } },
        { index: 0, custom: { input: 'hi"' } },
      ],
    );
  });

  test('every reason for stopping has its word', () => {
    const word = (reason: (ModelEvent & { type: 'end' })['reason'], ...said: ModelEvent[]) =>
      chunks([start, ...said, end({ reason })]).find((chunk) => chunk.choices?.[0]?.finish_reason)?.choices[0]
        .finish_reason;
    assert.equal(word('finished'), 'stop');
    assert.equal(word('max_tokens'), 'length');
    assert.equal(word('context_window'), 'length');
    assert.equal(word('tool_calls'), 'tool_calls');
    assert.equal(word('content_filter'), 'content_filter');
    assert.equal(word('stop_sequence'), 'stop');
    assert.equal(word('paused'), 'stop');
    assert.equal(word('refusal', ...part(0, 'text', 'No')), 'content_filter');
    assert.equal(word('refusal', ...part(0, 'refusal', 'No')), 'stop');
  });

  test('what the client cannot get is noted', () => {
    const proof = { protocol: 'messages', kind: 'signature', value: 's' } as const;
    const { notes } = writeStream([
      start,
      { type: 'proof', index: 0, proof },
      end({ reason: 'stop_sequence', stop_sequence: 'X' }),
    ]);
    assert.deepEqual(notes, ['reasoning_proof', 'stop_sequence_found']);
    assert.deepEqual(writeStream([start, end({ reason: 'paused' })]).notes, ['paused_turn']);
  });

  test('a ping is a comment, and an error is the envelope of the protocol', () => {
    const problem = { status: 529, type: 'overloaded_error', message: 'Overloaded', context_overflow: false };
    const { text } = writeStream([start, { type: 'ping' }, { type: 'error', problem }]);
    assert.match(text, /^: ping$/m);
    const { error } = JSON.parse(dataOf(text).at(-1) ?? '');
    assert.deepEqual([error.message, error.type, error.code], ['Overloaded', 'server_error', 'server_is_overloaded']);
  });
});
