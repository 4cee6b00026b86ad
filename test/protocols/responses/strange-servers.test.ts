/** Servers of the Responses protocol that leave out events, indexes or identifiers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { saidBy } from '../translation/answer-arbitraries.ts';
import { readEvents } from './scene.ts';

type Sent = Record<string, unknown>;

const message = (text: string, more: Sent = {}) => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text }],
  ...more,
});
const call = (args: string) => ({ type: 'function_call', id: 'fc_1', call_id: 'c', name: 't', arguments: args });
const completed = (...output: Sent[]) => ({ type: 'response.completed', response: { id: 'r', output } });
const added = (item: Sent, more: Sent = {}) => ({ type: 'response.output_item.added', item, ...more });
const piece = (delta: string, more: Sent = {}) => ({ type: 'response.output_text.delta', delta, ...more });
const said = (...sent: Sent[]) => saidBy(readEvents(sent));

test('texts and arguments that are told whole, and nowhere else, are passed on', () => {
  assert.deepEqual(
    said(
      added(call(''), { output_index: 0 }),
      { type: 'response.function_call_arguments.done', output_index: 0, item_id: 'fc_1', arguments: '{"a":1}' },
      completed(),
    ),
    said(completed(call('{"a":1}'))),
  );
  const place = { output_index: 0, content_index: 0, item_id: 'm' };
  const whole = { type: 'response.output_text.done', text: 'ab', ...place };
  assert.deepEqual(said(added(message(''), { output_index: 0 }), whole, completed()), said(completed(message('ab'))));
  assert.deepEqual(said(piece('a', place), whole, whole, completed()), said(completed(message('ab'))));
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
  const expected = said(completed({ type: 'reasoning', id: 'rs', summary }));
  assert.deepEqual(said(whole('one', 0), whole('two', 1), completed()), expected);
  assert.deepEqual(said(delta('one', 0), whole('one', 0), delta('two', 1), whole('two', 1), completed()), expected);
});

test('pieces that do not say whose they are belong to the item that comes whole', () => {
  const expected = said(completed(message('ab')));
  assert.deepEqual(said(piece('a'), piece('b'), completed(message('ab', { id: 'm' }))), expected);
  assert.deepEqual(
    said(piece('a'), piece('b'), { type: 'response.output_item.done', item: message('ab', { id: 'm' }) }, completed()),
    expected,
  );
  assert.deepEqual(said(piece('ab'), completed(message('ab'), call('{}'))), said(completed(message('ab'), call('{}'))));
});

test('an item that is counted here and named there is one item', () => {
  const start = added(message('', { id: 'm' }), { output_index: 1 });
  const end = { type: 'response.output_item.done', output_index: 1, item: message('ab', { id: 'm' }) };
  const expected = said(completed(message('ab')));
  assert.deepEqual(said(start, piece('a', { item_id: 'm' }), end, completed()), expected);
  assert.deepEqual(said(start, end, completed(message('ab', { id: 'm' }))), expected);
});
