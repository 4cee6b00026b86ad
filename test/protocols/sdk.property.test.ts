/** The official clients of chat completions and Responses read whatever the gateway writes; that of Messages has its own file. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import { chatProtocol } from '../../engine/domain/protocols/chat/index.ts';
import { responsesProtocol } from '../../engine/domain/protocols/responses/index.ts';
import type { ModelEvent } from '../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../engine/domain/protocols/translation/rules.ts';
import { times } from '../support/times.ts';
import { eventsOf, streamOf } from './responses/scene.ts';
import { ANSWER_CONTEXT, answers, saidBy } from './translation/answer-arbitraries.ts';

/** The official client, whose every request is answered with this. */
function clientOf(body: string, type: 'text/event-stream' | 'application/json'): OpenAI {
  const fetch = async () => new Response(body, { headers: { 'content-type': type } });
  return new OpenAI({ apiKey: 'k', baseURL: 'http://gateway.test/v1', maxRetries: 0, fetch });
}

/** What writers of chat completions are told of the request. */
const CONTEXT = { ...ANSWER_CONTEXT, request_id: '0198-abcd', include_usage: true };

function chatStream(events: readonly ModelEvent[]): string {
  const writer = chatProtocol.adapter.createWriter(CONTEXT, new Notes());
  return events.map((event) => writer.write(event)).join('');
}

const ASK = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };

/** What the client's final message must say. */
function expectedInChat(events: readonly ModelEvent[]) {
  const parts = saidBy(events);
  const joined = (kind: string) => parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join('');
  const calls = parts.filter(({ kind }) => kind === 'tool_call');
  return {
    content: joined('text') || null,
    refusal: joined('refusal') || null,
    calls: calls.map(({ id, name, text }) => ({ id, name, arguments: text || '{}' })),
  };
}

function told(message: OpenAI.ChatCompletionMessage) {
  const calls = (message.tool_calls ?? []).map((call) => {
    assert.ok(call.type === 'function');
    return { id: call.id, name: call.function.name, arguments: call.function.arguments };
  });
  return { content: message.content || null, refusal: message.refusal || null, calls };
}

describe('the official client of chat completions', () => {
  test('takes every stream, and its final message says what the model said', async () => {
    await fc.assert(
      fc.asyncProperty(answers(), async (events) => {
        const client = clientOf(chatStream(events), 'text/event-stream');
        const stream = client.chat.completions.stream({ ...ASK, stream_options: { include_usage: true } });
        const final = await stream.finalChatCompletion();
        assert.deepEqual(told(final.choices[0]!.message), expectedInChat(events));
        assert.ok((final.usage?.total_tokens ?? 0) >= (final.usage?.completion_tokens ?? 0));
      }),
      { numRuns: times(15) },
    );
  });

  test('takes every document', async () => {
    await fc.assert(
      fc.asyncProperty(answers({ pings: false }), async (events) => {
        const document = JSON.stringify(chatProtocol.adapter.writeDocument(events, CONTEXT, new Notes()));
        const client = clientOf(document, 'application/json');
        const { choices } = await client.chat.completions.create(ASK);
        assert.deepEqual(told(choices[0]!.message), expectedInChat(events));
      }),
      { numRuns: times(12) },
    );
  });
});

const streaming = (events: readonly ModelEvent[]) => clientOf(streamOf(events), 'text/event-stream');
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
      const document = responsesProtocol.adapter.writeDocument(events, ANSWER_CONTEXT, new Notes());
      const response = await clientOf(JSON.stringify(document), 'application/json').responses.create(REQUEST);
      assert.deepEqual(telling(saidIn(response.output)), telling(expected(events)));
      const texts = expected(events).filter(({ kind }) => kind === 'text');
      assert.equal(response.output_text, texts.map(({ text }) => text).join(''));
    }),
    { numRuns: times(12) },
  );
});

test('events are numbered without a gap, and every item is added, done and repeated at the end', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const writer = responsesProtocol.adapter.createWriter(ANSWER_CONTEXT, new Notes());
      const sent = events.flatMap((event) => eventsOf(writer.write(event)));
      const bodies = sent.map(({ data }) => JSON.parse(data) as Record<string, unknown>);
      assert.deepEqual(
        bodies.map(({ sequence_number }) => sequence_number),
        bodies.map((_, index) => index),
      );
      for (const [index, { name }] of sent.entries()) assert.equal(name, bodies[index]!.type);
      const done = bodies.filter(({ type }) => type === 'response.output_item.done');
      const added = bodies.filter(({ type }) => type === 'response.output_item.added');
      assert.equal(done.length, added.length);
      const last = bodies.at(-1)!.response as { output: unknown[] };
      const by_index = [...done].sort((a, b) => Number(a.output_index) - Number(b.output_index));
      assert.deepEqual(
        last.output,
        by_index.map(({ item }) => item),
      );
    }),
    { numRuns: times(30) },
  );
});
