import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { responsesProtocol } from '../../../engine/protocols/responses/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { saidBy } from '../translation/answer-arbitraries.ts';
import { readEvents } from './scene.ts';

type Sent = Record<string, unknown>;

const created = { type: 'response.created', response: { id: 'resp_1', model: 'up' } };
const usage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 5 },
  total_tokens: 120,
};
const completed = (output?: unknown[]) => ({
  type: 'response.completed',
  response: { id: 'resp_1', status: 'completed', usage, ...(output && { output }) },
});
const item = (output_index: number, fields: Sent) => ({
  type: 'response.output_item.added',
  output_index,
  item: fields,
});
const done = (output_index: number, fields: Sent) => ({
  type: 'response.output_item.done',
  output_index,
  item: fields,
});
const read = (...sent: Sent[]) => readEvents([created, ...sent]);
const last = (events: readonly ModelEvent[]) => events.at(-1) as ModelEvent & { type: 'end' };

const message = (...content: Sent[]) => ({ type: 'message', id: 'msg_1', role: 'assistant', content });
const text = (value: string) => ({ type: 'output_text', text: value, annotations: [] });

test('each piece is passed on when it comes', () => {
  const reader = responsesProtocol.adapter.createReader(new Notes());
  const pass = (event: Sent) => {
    const events: ModelEvent[] = [];
    reader.read({ name: 'x', data: JSON.stringify(event) }, (next) => events.push(next));
    return events;
  };
  assert.deepEqual(pass(created), [{ type: 'start', id: 'resp_1', model: 'up' }]);
  assert.deepEqual(pass({ ...created, type: 'response.in_progress' }), []);
  assert.deepEqual(pass(item(0, message())), []);
  const at = { output_index: 0, content_index: 0, item_id: 'msg_1' };
  assert.deepEqual(pass({ type: 'response.content_part.added', ...at, part: text('') }), [
    { type: 'part_start', index: 0, part: { kind: 'text' } },
  ]);
  assert.deepEqual(pass({ type: 'response.output_text.delta', ...at, delta: 'He' }), [
    { type: 'part_delta', index: 0, text: 'He' },
  ]);
  assert.deepEqual(pass({ type: 'response.output_text.done', ...at, text: 'He' }), []);
  assert.deepEqual(pass({ type: 'response.content_part.done', ...at, part: text('He') }), [
    { type: 'part_end', index: 0 },
  ]);
  assert.deepEqual(pass(done(0, message(text('He')))), []);
  assert.deepEqual(pass(completed()), [
    {
      type: 'end',
      reason: 'finished',
      usage: { input: 30, output: 20, cache_read: 60, cache_write: 10, reasoning: 5 },
    },
  ]);
});

test('a finished item counts where pieces of it were left out', () => {
  const delta = { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hel' };
  const call = { type: 'function_call', call_id: 'c', name: 'n', arguments: '{"a":1}' };
  const events = read(
    item(0, message()),
    delta,
    done(0, message(text('Hello'), text('more'))),
    done(1, call),
    completed(),
  );
  assert.deepEqual(saidBy(events), [
    { kind: 'text', text: 'Hello' },
    { kind: 'text', text: 'more' },
    { kind: 'tool_call', text: '{"a":1}', name: 'n', id: 'c' },
  ]);
  assert.equal(last(events).reason, 'tool_calls');
});

test('an answer that is told at the end alone is read', () => {
  const events = read(completed([message(text('Hello'))]));
  assert.deepEqual(saidBy(events), [{ kind: 'text', text: 'Hello' }]);
});

test('items are grouped by identifiers at servers that do not count them', () => {
  const delta = (item_id: string, value: string) => ({ type: 'response.output_text.delta', item_id, delta: value });
  const other = { ...message(text('b')), id: 'msg_2' };
  const events = read(
    delta('msg_1', 'a'),
    delta('msg_2', 'b'),
    { type: 'response.output_item.done', item: message(text('a')) },
    { type: 'response.output_item.done', item: other },
    completed([message(text('a')), other]),
  );
  assert.deepEqual(
    saidBy(events).map((part) => part.text),
    ['a', 'b'],
  );
});

test('items without index and identifier come one after the other', () => {
  const added = { type: 'response.output_item.added', item: { type: 'message' } };
  const delta = (value: string) => ({ type: 'response.output_text.delta', delta: value });
  const events = read(added, delta('a'), added, delta('b'), delta('c'), completed());
  assert.deepEqual(
    saidBy(events).map((part) => part.text),
    ['a', 'bc'],
  );
  const whole = (value: string) => ({
    type: 'response.output_item.done',
    item: { type: 'message', content: [text(value)] },
  });
  const repeated = completed([whole('x').item, whole('y').item]);
  assert.deepEqual(
    saidBy(read(whole('x'), added, delta('y'), whole('y'), repeated)).map((part) => part.text),
    ['x', 'y'],
  );
  const ended = events.flatMap((event) => (event.type === 'part_end' ? [event.index] : []));
  assert.deepEqual(ended, [0, 1]);
});

test('the text of a custom call becomes its one argument, piece by piece', () => {
  const call = { type: 'custom_tool_call', call_id: 'c', name: 'patch', input: '' };
  const delta = (value: string) => ({ type: 'response.custom_tool_call_input.delta', output_index: 0, delta: value });
  const events = read(item(0, call), delta('a"'), delta('\nb'), done(0, { ...call, input: 'a"\nbc' }), completed());
  assert.equal(saidBy(events)[0]!.text, '{"input":"a\\"\\nbc"}');
  const empty = read(item(0, call), done(0, call), completed());
  assert.equal(saidBy(empty)[0]!.text, '{"input":""}');
});

describe('reasoning', () => {
  const summary = (summary_index: number, delta: string) => ({
    type: 'response.reasoning_summary_text.delta',
    output_index: 0,
    summary_index,
    delta,
  });
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [] };

  test('its summaries are one text, and what it must give back stands beside it', () => {
    const whole = {
      ...reasoning,
      summary: ['one', 'two'].map((value) => ({ type: 'summary_text', text: value })),
      encrypted_content: 'abc',
    };
    const events = read(
      item(0, reasoning),
      summary(0, 'one'),
      summary(1, 'tw'),
      summary(1, 'o'),
      done(0, whole),
      completed(),
    );
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'abc', id: 'rs_1' } as const;
    assert.deepEqual(saidBy(events), [{ kind: 'reasoning', text: 'one\n\ntwo', proof }]);
  });

  test('that is secret has no text but a proof, and without either it is no part', () => {
    const events = read(item(0, reasoning), done(0, { ...reasoning, encrypted_content: 'abc' }), completed());
    assert.equal(saidBy(events)[0]!.text, '');
    assert.equal(read(item(0, reasoning), done(0, reasoning), completed()).length, 2);
  });

  test('of open models comes as text; a summary beside it is left out, noted', () => {
    const notes = new Notes();
    const thought = { type: 'response.reasoning_text.delta', output_index: 0, content_index: 0, delta: 'hm' };
    const events = readEvents([created, item(0, reasoning), thought, summary(0, 'short'), completed()], notes);
    assert.deepEqual(saidBy(events), [{ kind: 'reasoning', text: 'hm' }]);
    assert.deepEqual(notes.names, ['second_reasoning']);
  });
});

describe('how it ends', () => {
  const reason = (sent: Sent) => last(read(sent)).reason;
  const incomplete = (why?: string) => ({
    type: 'response.incomplete',
    response: { status: 'incomplete', incomplete_details: why && { reason: why }, usage },
  });

  test('each reason is told', () => {
    assert.equal(reason(completed([message({ type: 'refusal', refusal: 'no' })])), 'refusal');
    assert.equal(reason(incomplete('max_output_tokens')), 'max_tokens');
    assert.equal(reason(incomplete('content_filter')), 'content_filter');
    assert.equal(reason(incomplete()), 'max_tokens');
  });

  test('an error is the last event, whichever way it is told', () => {
    const message_text = 'The server had an error';
    const failed = read(
      { type: 'response.failed', response: { error: { code: 'server_error', message: message_text } } },
      completed(),
    );
    const told = read({ type: 'error', code: 'rate_limit_exceeded', message: message_text, param: null });
    const nested = read({
      type: 'error',
      error: { type: 'x', code: 'context_length_exceeded', message: message_text },
    });
    const problems = [failed, told, nested].map((events) => {
      const event = events.at(-1)!;
      assert.equal(event.type, 'error');
      return event.type === 'error' ? event.problem : undefined;
    });
    assert.deepEqual(
      problems.map((problem) => [problem?.status, problem?.message, problem?.context_overflow]),
      [
        [500, message_text, false],
        [429, message_text, false],
        [400, message_text, true],
      ],
    );
  });

  test('a stream that ends before its answer is an error', () => {
    assert.throws(() => read(item(0, message())), { name: 'StageError', code: 'upstream_failed' });
  });
});

test('events and items that are not known are skipped, noted where something is lost', () => {
  const notes = new Notes();
  const search = { type: 'web_search_call', id: 'ws_1' };
  const quoted = message({ ...text('x'), annotations: [{ type: 'url_citation' }] });
  const sent = [
    { type: 'response.brand_new' },
    item(0, search),
    { type: 'response.web_search_call.searching', output_index: 0 },
    done(0, search),
    done(1, quoted),
    completed(),
  ];
  assert.deepEqual(saidBy(readEvents([created, ...sent], notes)), [{ kind: 'text', text: 'x' }]);
  assert.deepEqual(notes.names, ['answer_provider_tool', 'answer_citations']);
});

test('what is not the protocol is said to be so', () => {
  const reader = responsesProtocol.adapter.createReader(new Notes());
  for (const data of [
    '{',
    'null',
    '[]',
    '{}',
    '{"type":"response.output_text.delta"}',
    '{"type":"response.completed"}',
  ]) {
    assert.throws(
      () => reader.read({ name: 'x', data }, () => {}),
      { name: 'StageError', code: 'upstream_invalid' },
      data,
    );
  }
  for (const document of [{}, { output: {} }, { output: [], status: 'queued' }]) {
    assert.throws(() => responsesProtocol.adapter.readDocument(document, new Notes()), {
      name: 'StageError',
      code: 'upstream_invalid',
    });
  }
});

/** Servers of the Responses protocol that leave out events, indexes or identifiers. */

const told = (text: string, more: Sent = {}) => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
  ...more,
});
const call = (args: string) => ({ type: 'function_call', id: 'fc_1', call_id: 'c', name: 't', arguments: args });
const ended = (...output: Sent[]) => ({ type: 'response.completed', response: { id: 'r', output } });
const added = (item: Sent, more: Sent = {}) => ({ type: 'response.output_item.added', item, ...more });
const piece = (delta: string, more: Sent = {}) => ({ type: 'response.output_text.delta', delta, ...more });
const said = (...sent: Sent[]) => saidBy(readEvents(sent));

test('texts and arguments that are told whole, and nowhere else, are passed on', () => {
  assert.deepEqual(
    said(
      added(call(''), { output_index: 0 }),
      { type: 'response.function_call_arguments.done', output_index: 0, item_id: 'fc_1', arguments: '{"a":1}' },
      ended(),
    ),
    said(ended(call('{"a":1}'))),
  );
  const place = { output_index: 0, content_index: 0, item_id: 'm' };
  const whole = { type: 'response.output_text.done', text: 'ab', ...place };
  assert.deepEqual(said(added(told(''), { output_index: 0 }), whole, ended()), said(ended(told('ab'))));
  assert.deepEqual(said(piece('a', place), whole, whole, ended()), said(ended(told('ab'))));
});

test('summaries that are told whole are passed on once', () => {
  const place = (summary_index: number) => ({ output_index: 0, item_id: 'rs', summary_index });
  const delta = (text: string, at: number) => ({
    type: 'response.reasoning_summary_text.delta',
    delta: text,
    ...place(at),
  });
  const whole = (text: string, at: number) => ({ type: 'response.reasoning_summary_text.done', text, ...place(at) });
  const summary = ['one', 'two'].map((text) => ({ type: 'summary_text', text }));
  const expected = said(ended({ type: 'reasoning', id: 'rs', summary }));
  assert.deepEqual(said(whole('one', 0), whole('two', 1), ended()), expected);
  assert.deepEqual(said(delta('one', 0), whole('one', 0), delta('two', 1), whole('two', 1), ended()), expected);
});

test('pieces that do not say whose they are belong to the item that comes whole', () => {
  const expected = said(ended(told('ab')));
  assert.deepEqual(said(piece('a'), piece('b'), ended(told('ab', { id: 'm' }))), expected);
  assert.deepEqual(
    said(piece('a'), piece('b'), { type: 'response.output_item.done', item: told('ab', { id: 'm' }) }, ended()),
    expected,
  );
  assert.deepEqual(said(piece('ab'), ended(told('ab'), call('{}'))), said(ended(told('ab'), call('{}'))));
});

test('an item that is counted here and named there is one item', () => {
  const start = added(told('', { id: 'm' }), { output_index: 1 });
  const end = { type: 'response.output_item.done', output_index: 1, item: told('ab', { id: 'm' }) };
  const expected = said(ended(told('ab')));
  assert.deepEqual(said(start, piece('a', { item_id: 'm' }), end, ended()), expected);
  assert.deepEqual(said(start, end, ended(told('ab', { id: 'm' }))), expected);
});
