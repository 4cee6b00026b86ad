/** The official clients read whatever the gateway writes, and hear what the upstream said. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import SDK from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import type { Protocol } from '../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../engine/domain/protocols/definitions.ts';
import type { ModelEvent } from '../../engine/domain/protocols/translation/conversation.ts';
import { proofToText } from '../../engine/domain/protocols/translation/made-reasoning.ts';
import { Notes } from '../../engine/domain/protocols/translation/rules.ts';
import { eventsIn } from '../e2e/streams/streams.ts';
import { times } from '../support/times.ts';
import { ANSWER_CONTEXT, answers, saidBy } from './translation/answer-arbitraries.ts';

const CONTEXT = { ...ANSWER_CONTEXT, include_usage: true };

function streamOf(protocol: Protocol, events: readonly ModelEvent[]): string {
  const writer = DEFINITIONS[protocol].adapter.createWriter(CONTEXT, new Notes());
  return events.map((event) => writer.write(event)).join('');
}

const documentOf = (protocol: Protocol, events: readonly ModelEvent[]): string =>
  JSON.stringify(DEFINITIONS[protocol].adapter.writeDocument(events, CONTEXT, new Notes()));

/** Options of a client whose every request is answered with this. */
function answeredWith(body: string) {
  const type = body.startsWith('{') ? 'application/json' : 'text/event-stream';
  const fetch = async () => new Response(body, { headers: { 'content-type': type } });
  return { apiKey: 'k', baseURL: 'http://gateway.test/v1', maxRetries: 0, fetch };
}

/** Checks answers of a model. */
function ofEvery(check: (events: readonly ModelEvent[]) => Promise<void>, pings = true): Promise<void> {
  return fc.assert(fc.asyncProperty(answers({ pings }), check), { numRuns: times(20) });
}

describe('the official client of chat completions', () => {
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

  function reported(message: OpenAI.ChatCompletionMessage) {
    const calls = (message.tool_calls ?? []).map((call) => {
      assert.ok(call.type === 'function');
      return { id: call.id, name: call.function.name, arguments: call.function.arguments };
    });
    return { content: message.content || null, refusal: message.refusal || null, calls };
  }

  test('takes every stream', () =>
    ofEvery(async (events) => {
      const client = new OpenAI(answeredWith(streamOf('chat', events)));
      const stream = client.chat.completions.stream({ ...ASK, stream_options: { include_usage: true } });
      const final = await stream.finalChatCompletion();
      assert.deepEqual(reported(final.choices[0]!.message), expected(events));
      assert.ok((final.usage?.total_tokens ?? 0) >= (final.usage?.completion_tokens ?? 0));
    }));

  test('takes every document', () =>
    ofEvery(async (events) => {
      const client = new OpenAI(answeredWith(documentOf('chat', events)));
      const { choices } = await client.chat.completions.create(ASK);
      assert.deepEqual(reported(choices[0]!.message), expected(events));
    }, false));
});

describe('the official client of Responses', () => {
  const ASK = { model: 'm', input: 'hi' } as const;

  /** Empty parts are items as well, but say nothing. */
  const telling = (parts: readonly { kind: string; text: string }[]) =>
    parts.filter(({ kind, text }) => text !== '' || kind === 'tool_call');

  /** What the final response says, in the words of `saidBy`. */
  function reported(output: readonly OpenAI.Responses.ResponseOutputItem[]) {
    return telling(
      output.flatMap((item) => {
        if (item.type === 'function_call')
          return [{ kind: 'tool_call', text: item.arguments, name: item.name, id: item.call_id }];
        if (item.type === 'reasoning') return [{ kind: 'reasoning', text: item.summary[0]?.text ?? '' }];
        if (item.type !== 'message') return [];
        return item.content.map((part) =>
          part.type === 'refusal' ? { kind: 'refusal', text: part.refusal } : { kind: 'text', text: part.text },
        );
      }),
    );
  }

  /** Calls without arguments have an empty object for clients. */
  const expected = (events: readonly ModelEvent[]) =>
    telling(
      saidBy(events).map(({ proof: _proof, text, ...part }) => ({
        ...part,
        text: part.kind === 'tool_call' && text === '' ? '{}' : text,
      })),
    );

  test('follows every stream', () =>
    ofEvery(async (events) => {
      const stream = new OpenAI(answeredWith(streamOf('responses', events))).responses.stream(ASK);
      const deltas: string[] = [];
      stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
      const response = await stream.finalResponse();
      assert.deepEqual(reported(response.output), expected(events));
      const texts = new Set(
        events.flatMap((event) => (event.type === 'part_start' && event.part.kind === 'text' ? [event.index] : [])),
      );
      const spoken = events.flatMap((event) =>
        event.type === 'part_delta' && texts.has(event.index) ? [event.text] : [],
      );
      assert.equal(deltas.join(''), spoken.join(''));
    }));

  test('reads every document', () =>
    ofEvery(async (events) => {
      const client = new OpenAI(answeredWith(documentOf('responses', events)));
      const response = await client.responses.create(ASK);
      assert.deepEqual(reported(response.output), expected(events));
      const texts = expected(events).filter(({ kind }) => kind === 'text');
      assert.equal(response.output_text, texts.map(({ text }) => text).join(''));
    }, false));
});

describe('the official client of Messages', () => {
  const ASK = { model: 'm', max_tokens: 9, messages: [] };
  const asked = (events: readonly ModelEvent[]) =>
    new SDK(answeredWith(streamOf('messages', events))).messages.stream(ASK).finalMessage();

  /** What the blocks of a message say. */
  const reported = (content: readonly unknown[]) =>
    content.map((block) => {
      const { type, text, thinking, signature, data, id, name, input } = block as Record<string, string>;
      if (type === 'text') return { kind: 'text', text };
      if (type === 'tool_use') return { kind: 'tool_call', name, id, input };
      if (type === 'redacted_thinking') return { kind: 'reasoning', text: '', proof: data };
      return { kind: 'reasoning', text: thinking, proof: signature };
    });

  /** A refusal is text, and every proof a mark of where it comes from. */
  const expected = (events: readonly ModelEvent[]) =>
    saidBy(events).map(({ kind, text, name, id, proof }) => {
      if (kind === 'tool_call') return { kind, name, id, input: JSON.parse(text) };
      if (kind === 'reasoning') return { kind, text, proof: proofToText(proof, CONTEXT.made_by) };
      return { kind: 'text', text };
    });

  test('reads every stream', () =>
    ofEvery(async (events) => {
      const message = await asked(events);
      assert.deepEqual(reported(message.content), expected(events));
      const { usage } = events.find((event) => event.type === 'end')!;
      assert.equal(message.usage.input_tokens, usage?.input);
      assert.equal(message.usage.output_tokens, usage?.output);
      const unknown = usage?.cache_read === undefined && usage?.cache_write === undefined ? undefined : 0;
      assert.equal(message.usage.cache_read_input_tokens, usage?.cache_read ?? unknown);
      assert.equal(message.usage.cache_creation_input_tokens, usage?.cache_write ?? unknown);
    }));

  test('gets an error in the stream as its own kind of error', async () => {
    const message = 'maximum context length is 5';
    const problem = { status: 400, message, code: 'context_length_exceeded', context_overflow: true };
    const events: ModelEvent[] = [{ type: 'start' }, { type: 'error', problem }];
    await assert.rejects(asked(events), /prompt is too long: maximum context length is 5/);
  });
});

test('blocks of Messages are numbered from 0 and never overlap, whatever the upstream did', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const data = eventsIn(streamOf('messages', events)).filter(({ name }) => name !== 'ping');
      assert.ok(data.every(({ name, data: { type } }) => name === type));
      const names = data.map(({ name }) => name);
      assert.equal(names[0], 'message_start');
      assert.deepEqual(names.slice(-2), ['message_delta', 'message_stop']);
      let [open, next] = [-1, 0];
      for (const { name, data: event } of data.slice(1, -2)) {
        if (name === 'content_block_start') {
          assert.equal(open, -1);
          assert.equal(event.index, next);
          open = next++;
        } else assert.equal(event.index, open);
        if (name === 'content_block_stop') open = -1;
      }
      assert.equal(open, -1);
    }),
  );
});

test('events of Responses are numbered without a gap, and every item is added, done and repeated at the end', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const sent = eventsIn(streamOf('responses', events));
      const bodies = sent.map(({ data }) => data);
      const sequence_numbers = bodies.map(({ sequence_number }) => sequence_number);
      assert.deepEqual(
        sequence_numbers,
        bodies.map((_, index) => index),
      );
      for (const { name, data } of sent) assert.equal(name, data.type);
      const done = bodies.filter(({ type }) => type === 'response.output_item.done');
      const added = bodies.filter(({ type }) => type === 'response.output_item.added');
      assert.equal(done.length, added.length);
      const by_index = done.toSorted((a, b) => a.output_index - b.output_index);
      assert.deepEqual(
        bodies.at(-1).response.output,
        by_index.map(({ item }) => item),
      );
    }),
    { numRuns: times(30) },
  );
});
