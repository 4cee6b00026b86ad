import assert from 'node:assert/strict';
import { test } from 'node:test';
import SDK from '@anthropic-ai/sdk';
import fc from 'fast-check';
import { messagesProtocol } from '../../../engine/domain/protocols/messages/index.ts';
import type {
  CacheTtl,
  Conversation,
  ModelEvent,
  Part,
  ReasoningProof,
  Turn,
} from '../../../engine/domain/protocols/translation/conversation.ts';
import { proofToText } from '../../../engine/domain/protocols/translation/made-reasoning.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { eventsIn } from '../../e2e/streams/streams.ts';
import { times } from '../../support/times.ts';
import { ANSWER_CONTEXT, answers, saidBy } from '../translation/answer-arbitraries.ts';
import { type ConversationFeatures, conversations } from '../translation/conversation-arbitraries.ts';

/** What the writers of answers are told of the request. */
const ANSWER = { ...ANSWER_CONTEXT, request_id: '0190-aa-bb' };

/** The stream that a client gets for these events. */
function streamOf(events: readonly ModelEvent[]): string {
  const writer = messagesProtocol.adapter.createWriter(ANSWER, new Notes());
  return events.map((event) => writer.write(event)).join('');
}

/** The official client, whose every request is answered with this stream. */
function clientOf(stream: string): SDK {
  const fetch = async (): Promise<Response> =>
    new Response(stream, { headers: { 'content-type': 'text/event-stream', 'request-id': 'req_1' } });
  return new SDK({ apiKey: 'none', baseURL: 'http://gateway.test', maxRetries: 0, fetch });
}

/** What a Messages upstream says that says these events: a refusal is text, every proof a mark of where it comes from. */
const asMessages = (events: readonly ModelEvent[]) =>
  saidBy(events).map(({ proof, ...part }) => ({
    ...part,
    ...(part.kind === 'refusal' && { kind: 'text' }),
    ...(part.kind === 'reasoning' && { proof: ownProof(proof) }),
  }));

const ownProof = (proof: ReasoningProof | undefined): ReasoningProof => ({
  protocol: 'messages',
  kind: 'signature',
  value: proofToText(proof, ANSWER.made_by),
});

const endOf = (events: readonly ModelEvent[]) => events.find((event) => event.type === 'end');

/** Blocks of a message as the official client has them. */
function saidIn(content: readonly unknown[]): unknown[] {
  return content.map((block) => {
    const { type, text, thinking, signature, data, id, name, input } = block as Record<string, string>;
    if (type === 'text') return { kind: 'text', text };
    if (type === 'tool_use') return { kind: 'tool_call', name, id, input };
    if (type === 'redacted_thinking') return { kind: 'reasoning', text: '', proof: data };
    return { kind: 'reasoning', text: thinking, proof: signature };
  });
}

/** Parts in the shape of `saidIn`. */
function expectedOf(events: readonly ModelEvent[]): unknown[] {
  return asMessages(events).map(({ kind, text, name, id, proof }) => {
    if (kind === 'text') return { kind, text };
    if (kind === 'tool_call') return { kind, name, id, input: JSON.parse(text) };
    return { kind, text, proof: proof?.value ?? '' };
  });
}

test('the official client reads every answer: the same texts, thoughts and calls, in order', async () => {
  await fc.assert(
    fc.asyncProperty(answers(), async (events) => {
      const stream = clientOf(streamOf(events)).messages.stream({ model: 'm', max_tokens: 9, messages: [] });
      const message = await stream.finalMessage();
      assert.deepEqual(saidIn(message.content), expectedOf(events));
      const { usage } = endOf(events)!;
      assert.equal(message.usage.input_tokens, usage?.input);
      assert.equal(message.usage.output_tokens, usage?.output);
      const unknown = usage?.cache_read === undefined && usage?.cache_write === undefined ? undefined : 0;
      assert.equal(message.usage.cache_read_input_tokens, usage?.cache_read ?? unknown);
      assert.equal(message.usage.cache_creation_input_tokens, usage?.cache_write ?? unknown);
    }),
    { numRuns: times(30) },
  );
});

test('an error in the stream reaches the official client as its own kind of error', async () => {
  const message = 'maximum context length is 5';
  const problem = { status: 400, message, code: 'context_length_exceeded', context_overflow: true };
  const client = clientOf(streamOf([{ type: 'start' }, { type: 'error', problem }]));
  const asked = client.messages.stream({ model: 'm', max_tokens: 9, messages: [] });
  await assert.rejects(asked.finalMessage(), /prompt is too long: maximum context length is 5/);
});

test('blocks of a stream are numbered from 0 and never overlap, whatever the upstream did', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const data = eventsIn(streamOf(events)).filter(({ name }) => name !== 'ping');
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

const TARGET = { max_output_tokens: 8000, thinking: 'adaptive', sampling: true } as const;

/** What every Messages conversation can say. */
const SAYABLE: Partial<ConversationFeatures> = {
  instructions_turns: false,
  image_details: false,
  refusals: false,
  free_text_tools: false,
  part_caches: false,
  reasoning: ['messages'],
};

/** Takes away the settings that Messages has no word for, or not together with others. */
function withoutForeign(conversation: Conversation): Conversation {
  const { frequency_penalty, presence_penalty, seed, verbosity, store, metadata, cache, output_format, ...rest } =
    conversation;
  const { service_tier, temperature, top_p, top_k, reasoning, tool_choice, parallel_tool_calls, ...others } = rest;
  const single = parallel_tool_calls === false;
  const choice = tool_choice ?? (single ? ({ kind: 'auto' } as const) : undefined);
  const format =
    output_format?.kind === 'json_schema'
      ? { output_format: { kind: 'json_schema' as const, schema: output_format.schema, strict: true } }
      : {};
  const turns: Turn[] = [...conversation.turns, { role: 'user', parts: [{ kind: 'text', text: 'Go on.' }] }];
  const thinks = reasoning !== undefined && thinkable({ ...conversation, turns });
  return {
    max_output_tokens: 4000,
    ...others,
    ...format,
    ...(service_tier === 'default' && { service_tier }),
    ...(!thinks && temperature !== undefined && { temperature }),
    ...(!thinks && temperature === undefined && top_p !== undefined && { top_p }),
    ...(!thinks && top_k !== undefined && { top_k }),
    ...(thinks && { reasoning }),
    // That calls may be parallel is what nothing said means, and no call can be.
    ...(choice && { tool_choice: choice }),
    ...(single && choice?.kind !== 'none' && { parallel_tool_calls }),
    turns,
  };
}

/** Whether upstreams take reasoning here: no call is forced, and the results at the end answer calls that were thought about. */
function thinkable({ tool_choice, turns }: Conversation): boolean {
  if (tool_choice?.kind === 'any' || tool_choice?.kind === 'tool') return false;
  const [before, last] = merged(turns).slice(-2);
  return last?.parts[0]?.kind !== 'tool_result' || before?.parts[0]?.kind === 'reasoning';
}

/** Neighbours of the same role as one turn, results first. */
function merged(turns: readonly Turn[]): Turn[] {
  const out: { role: Turn['role']; parts: Part[] }[] = [];
  for (const { role, parts } of turns) {
    const last = out.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else out.push({ role, parts: [...parts] });
  }
  return out.map(({ role, parts }) => ({
    role,
    parts: [
      ...parts.filter(({ kind }) => kind === 'tool_result'),
      ...parts.filter(({ kind }) => kind !== 'tool_result'),
    ],
  }));
}

/** Writes and reads a conversation as JSON, as on the wire. */
function thereAndBack(conversation: Conversation, notes: Notes): Conversation {
  const body = JSON.parse(JSON.stringify(messagesProtocol.adapter.writeRequest(conversation, TARGET, notes)));
  return messagesProtocol.adapter.readRequest(body, notes);
}

test('a conversation that Messages can say comes back as it was, and nothing is noted', () => {
  fc.assert(
    fc.property(conversations(SAYABLE).map(withoutForeign), (conversation) => {
      const notes = new Notes();
      const back = thereAndBack(conversation, notes);
      assert.deepEqual({ ...back, turns: merged(back.turns) }, { ...conversation, turns: merged(conversation.turns) });
      assert.deepEqual(notes.names, []);
    }),
  );
});

test('cache marks come back where they were, the last four of them, none for longer than one before it', () => {
  fc.assert(
    fc.property(conversations({ ...SAYABLE, part_caches: true }).map(withoutForeign), (conversation) => {
      const notes = new Notes();
      const back = thereAndBack(conversation, notes);
      const [before, after] = [marks(conversation), marks(back)];
      const long = before.lastIndexOf('1h') + 1;
      assert.deepEqual(after, [...Array(long).fill('1h'), ...before.slice(long)].slice(-4));
      assert.deepEqual(notes.names, before.length > 4 ? ['cache_marks'] : []);
    }),
  );
});

/** Cache marks in the order of the prompt. */
function marks({ tools, instructions, turns }: Conversation): CacheTtl[] {
  const marked: { readonly cache?: CacheTtl }[] = [...tools, ...instructions];
  for (const part of merged(turns).flatMap((turn) => turn.parts)) {
    if (part.kind === 'tool_result') marked.push(...part.parts);
    if (part.kind !== 'reasoning' && part.kind !== 'refusal') marked.push(part);
  }
  return marked.flatMap(({ cache }) => cache ?? []);
}
