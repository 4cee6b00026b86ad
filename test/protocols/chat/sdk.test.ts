import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import OpenAI from 'openai';
import { chatProtocol } from '../../../engine/protocols/chat/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { answers, saidBy } from '../translation/answer-arbitraries.ts';
import { context, writeStream } from './scene.ts';

/** The official client, answered with these bodies one after the other. */
function clientOf(type: 'text/event-stream' | 'application/json', ...bodies: string[]) {
  const requests: Record<string, unknown>[] = [];
  const fetch = async (_url: unknown, init?: { body?: unknown }) => {
    requests.push(JSON.parse(String(init?.body)));
    return new Response(bodies.shift() ?? '', { headers: { 'content-type': type } });
  };
  return { client: new OpenAI({ apiKey: 'k', baseURL: 'http://gateway.test/v1', maxRetries: 0, fetch }), requests };
}

const ASK = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };

/** What the client's final message must say. */
function expected(events: readonly ModelEvent[]) {
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

describe('the official client', () => {
  test('takes every stream, and its final message says what the model said', async () => {
    await fc.assert(
      fc.asyncProperty(answers(), async (events) => {
        const { client } = clientOf('text/event-stream', writeStream(events).text);
        const stream = client.chat.completions.stream({ ...ASK, stream_options: { include_usage: true } });
        const final = await stream.finalChatCompletion();
        assert.deepEqual(told(final.choices[0]!.message), expected(events));
        assert.ok((final.usage?.total_tokens ?? 0) >= (final.usage?.completion_tokens ?? 0));
      }),
      { numRuns: times(15) },
    );
  });

  test('takes every document', async () => {
    await fc.assert(
      fc.asyncProperty(answers({ pings: false }), async (events) => {
        const document = JSON.stringify(chatProtocol.adapter.writeDocument(events, context(), new Notes()));
        const { client } = clientOf('application/json', document);
        const { choices } = await client.chat.completions.create(ASK);
        assert.deepEqual(told(choices[0]!.message), expected(events));
      }),
      { numRuns: times(12) },
    );
  });

  test('runs tools that a stream calls, and sends what the adapter can read', async () => {
    const call = (index: number): ModelEvent[] => [
      { type: 'part_start', index, part: { kind: 'tool_call', id: `call_${index}`, name: 'add' } },
      { type: 'part_delta', index, text: `{"a":${index},"b":1}` },
    ];
    const ended = (index: number): ModelEvent => ({ type: 'part_end', index });
    const asked = [
      { type: 'start' },
      ...call(0),
      ...call(1),
      ended(1),
      ended(0),
      { type: 'end', reason: 'tool_calls' },
    ];
    const said = [
      { type: 'start' },
      { type: 'part_start', index: 0, part: { kind: 'text' } },
      { type: 'part_delta', index: 0, text: 'Done' },
      ended(0),
      { type: 'end', reason: 'finished' },
    ];
    const bodies = [asked, said].map((events) => writeStream(events as ModelEvent[]).text);
    const { client, requests } = clientOf('text/event-stream', ...bodies);
    const sums: number[] = [];
    const runner = client.chat.completions.runTools({
      ...ASK,
      stream: true,
      tools: [
        {
          type: 'function',
          function: {
            name: 'add',
            description: 'Adds',
            parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
            parse: JSON.parse,
            function: ({ a, b }: { a: number; b: number }) => {
              sums.push(a + b);
              return String(a + b);
            },
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), 'Done');
    assert.deepEqual(sums, [1, 2]);
    const { turns } = chatProtocol.adapter.readRequest(requests[1]!, new Notes());
    assert.deepEqual(
      turns.map(({ role, parts }) => [role, parts.map(({ kind }) => kind)]),
      [
        ['user', ['text']],
        ['assistant', ['tool_call', 'tool_call']],
        ['user', ['tool_result', 'tool_result']],
      ],
    );
  });

  test('gets the plain text of a free-text tool from a stream', async () => {
    const events: ModelEvent[] = [
      { type: 'start' },
      { type: 'part_start', index: 0, part: { kind: 'tool_call', id: 'call_0', name: 'patch' } },
      { type: 'part_delta', index: 0, text: '{"input":"a\\nb"}' },
      { type: 'part_end', index: 0 },
      { type: 'end', reason: 'tool_calls' },
    ];
    const { text } = writeStream(events, context({ free_text_tools: new Set(['patch']) }));
    const { client } = clientOf('text/event-stream', text);
    const { choices } = await client.chat.completions.stream(ASK).finalChatCompletion();
    const [call] = choices[0]?.message.tool_calls ?? [];
    assert.deepEqual(call?.type === 'custom' && call.custom, { name: 'patch', input: 'a\nb' });
  });

  test('throws the error that comes in a stream', async () => {
    const problem = { status: 429, type: 'rate_limit_error', message: 'Slow down', context_overflow: false };
    const { client } = clientOf('text/event-stream', writeStream([{ type: 'start' }, { type: 'error', problem }]).text);
    await assert.rejects(
      client.chat.completions.stream(ASK).finalChatCompletion(),
      (error: unknown) => error instanceof OpenAI.APIError && error.code === 'rate_limit_exceeded',
    );
  });
});
