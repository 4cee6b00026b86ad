import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chatProtocol } from '../../../engine/protocols/chat/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/rules.ts';
import { saidBy } from '../translation/answer-arbitraries.ts';
import { chunk, finish, readData, readDeltas } from './scene.ts';

const calls = (...tool_calls: unknown[]) => ({ tool_calls });
const fn = (index: number | undefined, id: string | undefined, name: string | undefined, text: string | undefined) => ({
  ...(index !== undefined && { index }),
  ...(id !== undefined && { id, type: 'function' }),
  function: { ...(name !== undefined && { name }), ...(text !== undefined && { arguments: text }) },
});

const endOf = (events: readonly ModelEvent[]) => events.at(-1) as ModelEvent & { type: 'end' };

describe('text of a stream of chat completions', () => {
  test('passes at once, part by part: reasoning, text, refusal', () => {
    const events = readDeltas(
      { role: 'assistant', content: '' },
      { reasoning_content: 'Hm' },
      { reasoning: '...', content: null },
      { content: 'Hel' },
      { content: 'lo' },
      { refusal: 'No' },
    );
    assert.deepEqual(events, [
      { type: 'start', id: 'c1', model: 'up' },
      { type: 'part_start', index: 0, part: { kind: 'reasoning' } },
      { type: 'part_delta', index: 0, text: 'Hm' },
      { type: 'part_delta', index: 0, text: '...' },
      { type: 'part_end', index: 0 },
      { type: 'part_start', index: 1, part: { kind: 'text' } },
      { type: 'part_delta', index: 1, text: 'Hel' },
      { type: 'part_delta', index: 1, text: 'lo' },
      { type: 'part_end', index: 1 },
      { type: 'part_start', index: 2, part: { kind: 'refusal' } },
      { type: 'part_delta', index: 2, text: 'No' },
      { type: 'part_end', index: 2 },
      { type: 'end', reason: 'refusal' },
    ]);
  });

  test('content as a list of parts, with thinking, is read too', () => {
    const events = readDeltas({
      content: [
        { type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] },
        { type: 'text', text: 'Yes' },
      ],
    });
    assert.deepEqual(
      saidBy(events).map(({ kind, text }) => [kind, text]),
      [
        ['reasoning', 'Hm'],
        ['text', 'Yes'],
      ],
    );
  });

  test('only the first choice is read, and the others are noted', () => {
    const { events, notes } = readData([
      chunk({ content: 'a' }),
      chunk({ content: 'b' }, { index: 1, finish_reason: 'stop' }),
      finish('stop'),
    ]);
    assert.deepEqual(saidBy(events), [{ kind: 'text', text: 'a' }]);
    assert.deepEqual(notes, ['extra_choice']);
  });
});

describe('calls in a stream of chat completions', () => {
  const said = (...deltas: unknown[]) => saidBy(readDeltas(...deltas)).map(({ id, name, text }) => [id, name, text]);

  test('a call with whole arguments ends when the next one starts', () => {
    const events = readDeltas(calls(fn(0, 'a', 'f', '{"x":"}"}')), calls(fn(1, 'b', 'g', '{}')));
    assert.deepEqual(
      events.map((event) => `${event.type}${'index' in event ? event.index : ''}`),
      ['start', 'part_start0', 'part_delta0', 'part_end0', 'part_start1', 'part_delta1', 'part_end1', 'end'],
    );
  });

  test('whole calls that are all counted as the first one are grouped by their identifiers', () => {
    assert.deepEqual(said(calls(fn(0, 'a', 'f', '{}')), calls(fn(0, 'b', 'f', '{"z":1}'))), [
      ['a', 'f', '{}'],
      ['b', 'f', '{"z":1}'],
    ]);
  });

  test('whole calls that are all counted as the first one and have no identifiers are grouped by their names', () => {
    const calls_told = said(calls(fn(0, undefined, 'f', '{}')), calls(fn(0, undefined, 'f', '{"x":1}')));
    assert.deepEqual(
      calls_told.map(([, name, text]) => [name, text]),
      [
        ['f', '{}'],
        ['f', '{"x":1}'],
      ],
    );
  });

  test('calls without indices are grouped by identifiers', () => {
    assert.deepEqual(
      said(
        calls(fn(undefined, 'a', 'f', '{')),
        calls(fn(undefined, 'b', 'g', '{}')),
        calls(fn(undefined, 'a', undefined, '}')),
      ),
      [
        ['a', 'f', '{}'],
        ['b', 'g', '{}'],
      ],
    );
  });

  test('a name that is repeated, a name that comes late, an identifier that changes: still one call', () => {
    assert.deepEqual(said(calls(fn(0, 'a', 'f', '{')), calls(fn(0, 'a', 'f', '}'))), [['a', 'f', '{}']]);
    assert.deepEqual(said(calls(fn(0, 'a', undefined, '{')), calls(fn(0, undefined, 'f', '}'))), [['a', 'f', '{}']]);
    assert.deepEqual(said(calls(fn(0, 'a', 'f', '{')), calls(fn(0, 'b', undefined, '}'))), [['a', 'f', '{}']]);
    assert.deepEqual(said(calls(fn(0, 'a', 'f', '{}')), calls(fn(0, undefined, 'f', ''))), [['a', 'f', '{}']]);
  });

  test('calls without identifiers get different ones, the same for the same stream', () => {
    const deltas = [calls(fn(0, undefined, 'f', '{}')), calls(fn(1, undefined, 'f', '{}'))];
    const [one, two] = said(...deltas);
    assert.match(String(one?.[0]), /^call_[0-9a-f]{24}$/);
    assert.notEqual(one?.[0], two?.[0]);
    assert.deepEqual(said(...deltas), [one, two]);
  });

  test('empty arguments are an empty object, and arguments may be an object', () => {
    assert.deepEqual(said(calls(fn(0, 'a', 'f', undefined))), [['a', 'f', '{}']]);
    assert.deepEqual(said(calls({ index: 0, id: 'a', function: { name: 'f', arguments: { x: 1 } } })), [
      ['a', 'f', '{"x":1}'],
    ]);
  });

  test('plain text for a free-text tool becomes JSON, also when a character is cut in two', () => {
    const custom = (more: object) => calls({ index: 0, type: 'custom', custom: more });
    const [call] = said(custom({ name: 'f', input: 'a"\ud83d' }), custom({ input: '\ude42' }));
    assert.deepEqual(JSON.parse(String(call?.[2])), { input: 'a"🙂' });
  });

  test('the deprecated form is a call as well', () => {
    const events = readData([chunk({ function_call: { name: 'f', arguments: '{}' } }), finish('function_call')]).events;
    assert.equal(saidBy(events)[0]?.name, 'f');
    assert.equal(endOf(events).reason, 'tool_calls');
  });

  test('a call that never gets a name makes the answer invalid', () => {
    assert.throws(() => readDeltas(calls(fn(0, 'a', undefined, '{}'))), {
      name: 'StageError',
      code: 'upstream_invalid',
    });
  });
});

describe('the end of a stream of chat completions', () => {
  test('a server that tells its stop sequence is heard', () => {
    const { events } = readData([chunk({}, { finish_reason: 'stop', stop_reason: 'END' })]);
    assert.deepEqual(endOf(events), { type: 'end', reason: 'stop_sequence', stop_sequence: 'END' });
  });

  test('the last usage counts, wherever it stands; null says nothing', () => {
    const usage = (prompt_tokens: number) => ({ prompt_tokens, completion_tokens: 2, total_tokens: prompt_tokens + 2 });
    const { events } = readData([
      JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' } }], usage: usage(1) }),
      JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: usage(5) }),
      JSON.stringify({ choices: [], usage: null }),
      '[DONE]',
    ]);
    assert.deepEqual(endOf(events).usage, { input: 5, output: 2 });
  });

  test('cached tokens are no input, and reasoning that was left out of the output is added', () => {
    const usage = (more: object) => {
      const { events } = readData([finish('stop'), JSON.stringify({ choices: [], usage: more })]);
      return endOf(events).usage;
    };
    const details = {
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
      completion_tokens_details: { reasoning_tokens: 7 },
    };
    assert.deepEqual(usage({ prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, ...details }), {
      input: 30,
      output: 20,
      cache_read: 60,
      cache_write: 10,
      reasoning: 7,
    });
    assert.equal(usage({ prompt_tokens: 100, completion_tokens: 20, total_tokens: 127, ...details })?.output, 27);
    assert.equal(usage({ prompt_tokens: -1, completion_tokens: '5', total_tokens: 1e300 }), undefined);
  });

  test('a stream without a reason for stopping is complete if the server says so and nothing is missing', () => {
    const call = (args: string) =>
      chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 't', arguments: args } }] });
    assert.equal(endOf(readData([chunk({ content: 'a' }), '[DONE]']).events).reason, 'finished');
    assert.equal(endOf(readData([call('{"a":1}'), '[DONE]']).events).reason, 'tool_calls');
    for (const cut of [[chunk({ content: 'a' })], [call('{"a":1}')], ['[DONE]'], [call('{"a"'), '[DONE]']]) {
      assert.throws(() => readData(cut), { name: 'StageError', code: 'upstream_failed' });
    }
  });

  test('an event named error is an error, whatever its form', () => {
    const notes = new Notes();
    const reader = chatProtocol.adapter.createReader(notes);
    const events: ModelEvent[] = [];
    reader.read({ name: 'message', data: chunk({ content: 'a' }) }, (event) => events.push(event));
    reader.read({ name: 'error', data: '{"message":"out of memory","code":503}' }, (event) => events.push(event));
    const last = events.at(-1);
    assert.deepEqual(last?.type === 'error' && [last.problem.message, last.problem.status], ['out of memory', 503]);
  });

  test('an error in the stream ends it, byte for byte as the upstream said it', () => {
    const error = {
      message: "This model's maximum context length is 8 tokens.",
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    };
    const { events } = readData([chunk({ content: 'a' }), JSON.stringify({ error }), chunk({ content: 'b' })]);
    const last = events.at(-1);
    assert.equal(last?.type === 'error' && last.problem.message, error.message);
    assert.equal(last?.type === 'error' && last.problem.context_overflow, true);
  });

  test('an upstream that says it broke off has failed', () => {
    const { events } = readData([chunk({ content: 'a' }), finish('error')]);
    assert.equal(events.at(-1)?.type, 'error');
  });
});

describe('a whole answer of chat completions', () => {
  const read = (document: Record<string, unknown>) => chatProtocol.adapter.readDocument(document, new Notes());

  test("without a message is invalid; an error in its place is the upstream's error", () => {
    for (const document of [{}, { choices: [] }, { choices: [null] }, { choices: [{ message: 'x' }] }]) {
      assert.throws(() => read(document), { name: 'StageError', code: 'upstream_invalid' });
    }
    assert.equal(read({ error: { message: 'no' } }).at(-1)?.type, 'error');
  });
});
