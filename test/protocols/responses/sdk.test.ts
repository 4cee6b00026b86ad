import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import { responsesProtocol } from '../../../engine/protocols/responses/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { answers, saidBy } from '../translation/answer-arbitraries.ts';
import { answerContext, streamOf } from './scene.ts';

/** The official SDK, whose every request is answered with this. */
function client(body: string, type: string): OpenAI {
  const answer = async () => new Response(body, { headers: { 'content-type': type } });
  return new OpenAI({ apiKey: 'k', baseURL: 'http://gateway.test/v1', maxRetries: 0, fetch: answer });
}

const streaming = (events: readonly ModelEvent[]) => client(streamOf(events), 'text/event-stream');
const REQUEST = { model: 'm', input: 'hi' } as const;

/** What the SDK's final response says, in the words of `saidBy`. */
function saidIn(output: readonly OpenAI.Responses.ResponseOutputItem[]) {
  return output.flatMap((item) => {
    if (item.type === 'function_call')
      return [{ kind: 'tool_call', text: item.arguments, name: item.name, id: item.call_id }];
    if (item.type === 'reasoning') return [{ kind: 'reasoning', text: item.summary[0]?.text ?? '' }];
    if (item.type !== 'message') return [];
    return item.content.map((part) =>
      part.type === 'refusal' ? { kind: 'refusal', text: part.refusal } : { kind: 'text', text: part.text },
    );
  });
}

/** Calls without arguments have an empty object for clients. */
function expected(events: readonly ModelEvent[]) {
  return saidBy(events).map(({ proof: _proof, text, ...part }) => ({
    ...part,
    text: part.kind === 'tool_call' && text === '' ? '{}' : text,
  }));
}

/** Empty parts are items as well, but say nothing. */
const telling = (parts: readonly { kind: string; text: string }[]) =>
  parts.filter(({ kind, text }) => text !== '' || kind === 'tool_call');

test('the official SDK follows every stream and hears what the upstream said', async () => {
  await fc.assert(
    fc.asyncProperty(answers(), async (events) => {
      const stream = streaming(events).responses.stream(REQUEST);
      const deltas: string[] = [];
      stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
      const response = await stream.finalResponse();
      assert.deepEqual(telling(saidIn(response.output)), telling(expected(events)));
      const spoken = events.flatMap((event) => (event.type === 'part_delta' ? [event] : []));
      const texts = new Set(
        events.flatMap((event) => (event.type === 'part_start' && event.part.kind === 'text' ? [event.index] : [])),
      );
      assert.equal(
        deltas.join(''),
        spoken
          .filter(({ index }) => texts.has(index))
          .map(({ text }) => text)
          .join(''),
      );
    }),
    { numRuns: times(15) },
  );
});

test('the official SDK reads every whole answer', async () => {
  await fc.assert(
    fc.asyncProperty(answers({ pings: false }), async (events) => {
      const document = responsesProtocol.adapter.writeDocument(events, answerContext(), new Notes());
      const response = await client(JSON.stringify(document), 'application/json').responses.create(REQUEST);
      assert.deepEqual(telling(saidIn(response.output)), telling(expected(events)));
      const texts = expected(events).filter(({ kind }) => kind === 'text');
      assert.equal(response.output_text, texts.map(({ text }) => text).join(''));
    }),
    { numRuns: times(12) },
  );
});

const answer = (text: string): ModelEvent[] => [
  { type: 'start' },
  { type: 'part_start', index: 0, part: { kind: 'text' } },
  { type: 'part_delta', index: 0, text },
  { type: 'part_end', index: 0 },
  { type: 'end', reason: 'finished', usage: { input: 1, output: 2 } },
];

test('the official SDK parses structured output of a whole answer and of a stream', async () => {
  const format = { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true } as const;
  const request = { ...REQUEST, text: { format } };
  const document = responsesProtocol.adapter.writeDocument(answer('{"a":1}'), answerContext(), new Notes());
  const whole = await client(JSON.stringify(document), 'application/json').responses.parse(request);
  assert.deepEqual(JSON.parse(whole.output_text), { a: 1 });
  const streamed = await streaming(answer('{"a":2}')).responses.stream(request).finalResponse();
  assert.deepEqual(JSON.parse(streamed.output_text), { a: 2 });
  assert.equal(streamed.usage?.total_tokens, 3);
});

test('the official SDK hears custom calls and searches', async () => {
  const events: ModelEvent[] = [
    { type: 'start' },
    { type: 'part_start', index: 0, part: { kind: 'tool_call', id: 'call_1', name: 'patch' } },
    { type: 'part_delta', index: 0, text: '{"input":"a\\nb"}' },
    { type: 'part_end', index: 0 },
    { type: 'part_start', index: 1, part: { kind: 'tool_call', id: 'call_2', name: 'find' } },
    { type: 'part_delta', index: 1, text: '{"query":"x"}' },
    { type: 'part_end', index: 1 },
    { type: 'end', reason: 'tool_calls' },
  ];
  const more = {
    free_text_tools: new Set(['patch']),
    tool_addresses: new Map([['find', { name: 'find', search: true }]]),
  };
  const { output } = await client(streamOf(events, more), 'text/event-stream')
    .responses.stream(REQUEST)
    .finalResponse();
  assert.deepEqual(
    output.map((item) => [item.type, 'input' in item ? item.input : 'arguments' in item ? item.arguments : undefined]),
    [
      ['custom_tool_call', 'a\nb'],
      ['tool_search_call', { query: 'x' }],
    ],
  );
});

test('the official SDK raises an error that comes in the middle of a stream', async () => {
  const problem = { status: 529, message: 'Overloaded', type: 'overloaded_error', context_overflow: false };
  const events: ModelEvent[] = [...answer('x').slice(0, 3), { type: 'error', problem }];
  await assert.rejects(streaming(events).responses.stream(REQUEST).finalResponse(), /Overloaded/);
});
