import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { messagesProtocol } from '../../../engine/protocols/messages/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { eventsIn } from '../../e2e/streams/streams.ts';
import { ANSWER, clientOf, readStream, streamOf } from './scene.ts';

const START = {
  type: 'message_start',
  message: { id: 'msg_1', model: 'big', usage: { input_tokens: 5, output_tokens: 1 } },
};
const STOP = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
];

/** A block with these deltas. */
const block = (index: number, content_block: unknown, ...deltas: readonly unknown[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];

const raises = (code: string) => (error: unknown) => error instanceof StageError && error.code === code;

describe('reading a stream', () => {
  test('every upstream event leads at once to what can be said', () => {
    const reader = messagesProtocol.adapter.createReader(new Notes());
    const steps = [
      START,
      ...block(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: 'Hm' },
        { type: 'signature_delta', signature: 'sig' },
      ),
      { type: 'ping' },
      ...block(1, { type: 'text', text: '' }, { type: 'text_delta', text: 'Hi' }),
      ...STOP,
    ].map((event) => {
      const read: ModelEvent[] = [];
      reader.read({ name: event.type, data: JSON.stringify(event) }, (one) => read.push(one));
      return read;
    });
    assert.deepEqual(steps, [
      [{ type: 'start', id: 'msg_1', model: 'big', usage: { input: 5, output: 1 } }],
      [{ type: 'part_start', index: 0, part: { kind: 'reasoning' } }],
      [{ type: 'part_delta', index: 0, text: 'Hm' }],
      [],
      [
        { type: 'proof', index: 0, proof: { protocol: 'messages', kind: 'signature', value: 'sig' } },
        { type: 'part_end', index: 0 },
      ],
      [{ type: 'ping' }],
      [{ type: 'part_start', index: 1, part: { kind: 'text' } }],
      [{ type: 'part_delta', index: 1, text: 'Hi' }],
      [{ type: 'part_end', index: 1 }],
      [],
      [{ type: 'end', reason: 'finished', usage: { input: 5, output: 9 } }],
    ]);
  });

  test('usage is the last word on each count', () => {
    const usage = { input_tokens: 5, cache_read_input_tokens: 7, cache_creation_input_tokens: 3, output_tokens: 1 };
    const cache_creation = { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 };
    const later = { input_tokens: null, output_tokens: 20, output_tokens_details: { thinking_tokens: 4 } };
    const read = readStream([
      { type: 'message_start', message: { usage: { ...usage, cache_creation } } },
      { type: 'message_delta', delta: {}, usage: { output_tokens: 10 } },
      { type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: 'END' }, usage: later },
      { type: 'message_stop' },
    ]);
    assert.deepEqual(read.at(-1), {
      type: 'end',
      reason: 'stop_sequence',
      stop_sequence: 'END',
      usage: {
        input: 5,
        output: 20,
        cache_read: 7,
        cache_write: 3,
        cache_write_5m: 1,
        cache_write_1h: 2,
        reasoning: 4,
      },
    });
  });

  test('arguments come from deltas, or from the start of the block when nothing streams', () => {
    const tool = { type: 'tool_use', id: 'toolu_1', name: 'read' };
    const texts = (...events: readonly object[]) =>
      readStream([START, ...events, ...STOP] as never).flatMap((event) =>
        event.type === 'part_delta' ? [event.text] : [],
      );
    const empty = { type: 'input_json_delta', partial_json: '' };
    assert.deepEqual(
      texts(
        ...block(
          0,
          { ...tool, input: {} },
          empty,
          { ...empty, partial_json: '{"a":' },
          { ...empty, partial_json: '1}' },
        ),
      ),
      ['{"a":', '1}'],
    );
    assert.deepEqual(texts(...block(0, { ...tool, input: {} }, empty)), ['{}']);
    assert.deepEqual(texts(...block(0, { ...tool, input: { a: 1 } })), ['{"a":1}']);
  });

  test('blocks of the provider are left out with a note, and text may follow', () => {
    const notes = new Notes();
    const read = readStream(
      [
        START,
        ...block(
          0,
          { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
          { type: 'input_json_delta', partial_json: '{"q":1}' },
        ),
        ...block(1, { type: 'web_search_tool_result', tool_use_id: 's', content: [] }),
        ...block(2, { type: 'hologram' }, { type: 'hologram_delta' }),
        ...block(
          3,
          { type: 'text', text: '' },
          { type: 'text_delta', text: 'Hi' },
          { type: 'citations_delta', citation: {} },
        ),
        { type: 'hologram_event' },
        ...STOP,
      ],
      notes,
    );
    assert.deepEqual(
      read.map(({ type }) => type),
      ['start', 'part_start', 'part_delta', 'part_end', 'end'],
    );
    assert.deepEqual(notes.names, ['answer_provider_tool', 'answer_unknown_block', 'answer_citations']);
  });

  test('an error ends the answer, and nothing is owed after it', () => {
    const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    assert.deepEqual(readStream([START, error, ...block(0, { type: 'text', text: 'x' })]).slice(1), [
      {
        type: 'error',
        problem: { status: 529, message: 'Overloaded', type: 'overloaded_error', context_overflow: false },
      },
    ]);
  });

  test('a stream without its end is one that failed, unless it says why the model stopped', () => {
    const said = [START, ...block(0, { type: 'text', text: 'x' })];
    assert.deepEqual(readStream([...said, STOP[0]!]), readStream([...said, ...STOP]));
    assert.throws(() => readStream(said), raises('upstream_failed'));
    const open = { type: 'message_delta', delta: { stop_reason: null }, usage: { output_tokens: 1 } };
    assert.throws(() => readStream([...said, open]), raises('upstream_failed'));
    assert.throws(() => readStream([START, open, STOP[1]!]), raises('upstream_failed'), 'nothing came');
    assert.throws(() => readStream([]), raises('upstream_failed'));
  });

  test('events that are not the protocol are invalid', () => {
    const reader = messagesProtocol.adapter.createReader(new Notes());
    for (const data of [
      '<html>',
      '[]',
      'null',
      '"x"',
      '{"type":"content_block_delta","index":9,"delta":{}}',
      '{"type":"content_block_start"}',
    ]) {
      assert.throws(() => reader.read({ name: 'message', data }, () => {}), raises('upstream_invalid'), data);
    }
    assert.throws(
      () => messagesProtocol.adapter.readDocument({ type: 'message' }, new Notes()),
      raises('upstream_invalid'),
    );
  });
});

describe('writing a stream', () => {
  const call = (index: number): ModelEvent => ({
    type: 'part_start',
    index,
    part: { kind: 'tool_call', id: `c${index}`, name: 't' },
  });
  const delta = (index: number, text: string): ModelEvent => ({ type: 'part_delta', index, text });
  const end = (index: number): ModelEvent => ({ type: 'part_end', index });

  test('an answer has the shape and order of the protocol', () => {
    const stream = streamOf([
      { type: 'start', id: 'x', model: 'big' },
      { type: 'part_start', index: 0, part: { kind: 'reasoning' } },
      delta(0, 'Hm'),
      { type: 'proof', index: 0, proof: { protocol: 'messages', kind: 'signature', value: 'sig' } },
      end(0),
      { type: 'ping' },
      call(1),
      delta(1, '{}'),
      end(1),
      { type: 'end', reason: 'tool_calls', usage: { input: 3, output: 4, cache_read: 5, reasoning: 2 } },
    ]);
    const usage = {
      input_tokens: 0,
      output_tokens: 0,
    };
    const message = {
      id: 'msg_0190aabb',
      type: 'message',
      role: 'assistant',
      model: 'big',
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage,
    };
    assert.deepEqual(
      eventsIn(stream).map(({ data }) => data),
      [
        { type: 'message_start', message },
        { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
        {
          type: 'content_block_delta',
          index: 0,
          delta: { type: 'signature_delta', signature: 'gw:messages@u:signature::sig' },
        },
        { type: 'content_block_stop', index: 0 },
        { type: 'ping' },
        { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', id: 'c1', name: 't', input: {} } },
        { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{}' } },
        { type: 'content_block_stop', index: 1 },
        {
          type: 'message_delta',
          delta: { stop_reason: 'tool_use', stop_sequence: null },
          usage: {
            ...usage,
            input_tokens: 3,
            output_tokens: 4,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 5,
            output_tokens_details: { thinking_tokens: 2 },
          },
        },
        { type: 'message_stop' },
      ],
    );
  });

  test('a call that starts while another is open waits for it, and is written at once when it ends', () => {
    const writer = messagesProtocol.adapter.createWriter(ANSWER, new Notes());
    const written = [
      call(0),
      call(1),
      delta(1, '[1'),
      delta(0, '[0'),
      delta(1, ']'),
      delta(0, ']'),
      end(1),
      end(0),
    ].map((event) => eventsIn(writer.write(event)).map(({ data }) => data.index ?? data.type));
    // Each step, as the numbers of the blocks it wrote about.
    assert.deepEqual(written, [[0], [], [], [0], [], [0], [], [0, 1, 1, 1]]);
  });

  test('parts without content are no blocks, as clients could not send them back', () => {
    const stream = streamOf([
      { type: 'start' },
      { type: 'part_start', index: 0, part: { kind: 'text' } },
      end(0),
      { type: 'part_start', index: 1, part: { kind: 'reasoning' } },
      end(1),
      { type: 'part_start', index: 2, part: { kind: 'text' } },
      delta(2, 'x'),
      end(2),
      { type: 'end', reason: 'finished' },
    ]);
    const started = eventsIn(stream).filter(({ name }) => name === 'content_block_start');
    assert.deepEqual(
      started.map(({ data }) => data.index),
      [0],
    );
  });

  test('an answer without a model gets it from the request', () => {
    const { data } = eventsIn(streamOf([{ type: 'start' }]))[0]!;
    const { id, model } = data.message as Record<string, unknown>;
    assert.deepEqual([id, model], ['msg_0190aabb', 'asked-model']);
  });

  test('a refusal is text, and the reason the model stopped', () => {
    const refusal: ModelEvent[] = [
      { type: 'start' },
      { type: 'part_start', index: 0, part: { kind: 'refusal' } },
      delta(0, 'No.'),
      end(0),
      { type: 'end', reason: 'finished' },
    ];
    const events = eventsIn(streamOf(refusal)).map(({ data }) => data);
    assert.deepEqual(events[1]!.content_block, { type: 'text', text: '' });
    assert.deepEqual(events.at(-2)!.delta, { stop_reason: 'refusal', stop_sequence: null });
    assert.equal(messagesProtocol.adapter.writeDocument(refusal, ANSWER, new Notes()).stop_reason, 'refusal');
  });

  test('an error in the stream reaches the official client as its own kind of error', async () => {
    const problem = {
      status: 400,
      message: 'maximum context length is 5',
      code: 'context_length_exceeded',
      context_overflow: true,
    };
    const stream = streamOf([{ type: 'start' }, { type: 'error', problem }]);
    const asked = clientOf(stream).messages.stream({ model: 'm', max_tokens: 9, messages: [] });
    await assert.rejects(asked.finalMessage(), /prompt is too long: maximum context length is 5/);
  });

  test('a whole answer with arguments that are not JSON keeps their text', () => {
    const notes = new Notes();
    const events: ModelEvent[] = [
      { type: 'start' },
      call(0),
      delta(0, '{"a":'),
      end(0),
      { type: 'end', reason: 'max_tokens' },
    ];
    const { content } = messagesProtocol.adapter.writeDocument(events, ANSWER, notes);
    assert.deepEqual(content, [{ type: 'tool_use', id: 'c0', name: 't', input: { arguments: '{"a":' } }]);
    assert.deepEqual(notes.names, ['answer_arguments']);
  });
});
