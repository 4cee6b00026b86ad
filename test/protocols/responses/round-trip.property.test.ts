import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { responsesProtocol } from '../../../engine/protocols/responses/index.ts';
import type { Json, UpstreamTarget } from '../../../engine/protocols/translation/adapter.ts';
import type { Conversation, Part, TextPart, Turn } from '../../../engine/protocols/translation/conversation.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { answers, saidBy } from '../translation/answer-arbitraries.ts';
import { conversations } from '../translation/conversation-arbitraries.ts';
import { answerContext, eventsOf, readEvents, streamOf } from './scene.ts';

const TARGET: UpstreamTarget = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true };

/** What the protocol has words for. */
const SAYABLE = {
  url_documents: true,
  text_documents: false,
  result_errors: false,
  part_caches: false,
  reasoning: ['responses' as const],
};

/** Neighbours that stand in one message or turn of the protocol are one; fields that it does not have are gone. */
function comparable(conversation: Conversation): Record<string, unknown> {
  const { stop, top_k, frequency_penalty, presence_penalty, seed, instructions, turns, reasoning, ...rest } =
    conversation;
  void [stop, top_k, frequency_penalty, presence_penalty, seed];
  const { tools, output_format, cache, ...others } = rest;
  return {
    ...others,
    // What is said to nobody is not sent.
    ...(cache !== undefined && { cache }),
    ...(reasoning !== undefined && { reasoning: withoutFalse(reasoning) }),
    tools: tools.map(({ name, free_text, description }) => ({ name, free_text, description })),
    output_format: output_format?.kind,
    store: conversation.store ?? false,
    instructions: instructions.map(({ text }) => text),
    turns: mergedTurns(turns),
  };
}

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

const withoutFalse = (wish: object) => Object.fromEntries(Object.entries(wish).filter(([, value]) => value !== false));

function mergedTurns(turns: readonly Turn[]): unknown[] {
  const merged: { role: string; parts: Part[] }[] = [];
  for (const { role, parts } of turns) {
    const last = merged.at(-1);
    if (last?.role === role) last.parts.push(...parts.map(plain));
    else merged.push({ role, parts: parts.map(plain) });
  }
  return merged;
}

function plain(part: Part): Part {
  if (part.kind === 'document' && part.source.kind === 'base64') return { ...part, name: part.name ?? 'document.pdf' };
  if (part.kind === 'tool_result') return { ...part, parts: part.parts.map(plain) as typeof part.parts };
  if (part.kind === 'tool_call') return { ...part, arguments: JSON.stringify(JSON.parse(part.arguments)) };
  return part;
}

test('a conversation that is written and read again is the same, up to merging neighbours', () => {
  fc.assert(
    fc.property(conversations(SAYABLE), (conversation) => {
      const notes = new Notes();
      const written = responsesProtocol.adapter.writeRequest(conversation, TARGET, notes);
      const read = responsesProtocol.adapter.readRequest(JSON.parse(JSON.stringify(written)) as Json, new Notes());
      assert.deepEqual(json(comparable(read)), json(comparable(conversation)));
    }),
    { numRuns: times(25) },
  );
});

test('what a conversation loses on its way to the protocol is noted', () => {
  fc.assert(
    fc.property(conversations(), (conversation) => {
      const notes = new Notes();
      const written = JSON.stringify(responsesProtocol.adapter.writeRequest(conversation, TARGET, notes));
      const parts = conversation.turns.flatMap(({ parts: own }) => own);
      const foreign = parts.some((part) => part.kind === 'reasoning' && part.proof?.protocol !== 'responses');
      assert.equal(notes.names.includes('foreign_reasoning'), foreign);
      assert.equal(notes.names.includes('stop_sequences'), (conversation.stop?.length ?? 0) > 0);
      assert.equal(notes.names.includes('top_k'), conversation.top_k !== undefined);
      const texts = parts.filter((part): part is TextPart => part.kind === 'text');
      for (const { text } of texts) assert.ok(written.includes(JSON.stringify(text).slice(1, -1)));
    }),
    { numRuns: times(30) },
  );
});

/** What was said, with the proofs of other providers as the client keeps them. */
function heard(events: readonly ModelEvent[]) {
  return saidBy(events).map(({ proof: _proof, text, ...part }) => ({
    ...part,
    text: part.kind === 'tool_call' && text === '' ? '{}' : text,
  }));
}

function throughStream(events: readonly ModelEvent[]): ModelEvent[] {
  return readEvents(eventsOf(streamOf(events)).map(({ data }) => JSON.parse(data) as Record<string, unknown>));
}

function throughDocument(events: readonly ModelEvent[]): ModelEvent[] {
  const said = events.filter(({ type }) => type !== 'ping');
  return responsesProtocol.adapter.readDocument(
    responsesProtocol.adapter.writeDocument(said, answerContext(), new Notes()),
    new Notes(),
  );
}

test('an answer that is written and read again says the same, as a stream and whole', () => {
  fc.assert(
    fc.property(answers({ overlapping: false }), (events) => {
      const read = throughStream(events);
      const whole = throughDocument(events);
      assert.deepEqual(heard(read), heard(events));
      assert.deepEqual(heard(whole), heard(events));
      assert.deepEqual(read.at(-1), whole.at(-1));
      const end = events.at(-1) as ModelEvent & { type: 'end' };
      const told = read.at(-1) as ModelEvent & { type: 'end' };
      assert.equal(told.reason, end.reason);
      assert.deepEqual(
        { ...told.usage, cache_read: 0, cache_write: 0, reasoning: 0 },
        { ...end.usage, cache_read: 0, cache_write: 0, reasoning: 0 },
      );
    }),
    { numRuns: times(25) },
  );
});

test('parts that overlap arrive whole', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const sorted = (list: ReturnType<typeof heard>) => list.map((part) => JSON.stringify(part)).sort();
      assert.deepEqual(sorted(heard(throughStream(events))), sorted(heard(events)));
    }),
    { numRuns: times(50) },
  );
});

test('events are numbered without a gap, and every item is added, done and repeated at the end', () => {
  fc.assert(
    fc.property(answers(), (events) => {
      const writer = responsesProtocol.adapter.createWriter(answerContext(), new Notes());
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

const KEYS = [
  ...['model', 'input', 'instructions', 'tools', 'tool_choice', 'text', 'format', 'schema', 'reasoning', 'effort'],
  ...['summary', 'type', 'role', 'content', 'call_id', 'name', 'arguments', 'output', 'item', 'response', 'delta'],
  ...['output_index', 'encrypted_content', 'namespace', 'metadata', 'include', 'stream', 'usage', 'error', '__proto__'],
];
const WORDS = [
  ...['message', 'function_call', 'function_call_output', 'custom_tool_call', 'reasoning', 'tool_search_output'],
  ...['user', 'assistant', 'developer', 'input_text', 'input_image', 'input_file', 'output_text', 'namespace'],
  ...['response.created', 'response.output_item.added', 'response.output_item.done', 'response.completed', 'error'],
  ...['response.output_text.delta', 'response.function_call_arguments.delta', 'response.failed', 'custom', 'function'],
];
const hostile: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.constantFrom<unknown>(...WORDS),
    fc.constantFrom<unknown>(null, true, 0, -1, 1e308, '', 'x', [], {}),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 6, noNullPrototype: true }),
  ),
})).value;
const objects = fc.dictionary(fc.constantFrom(...KEYS), hostile, { maxKeys: 8, noNullPrototype: true });

function onlyStageErrors(step: () => unknown): void {
  try {
    step();
  } catch (error) {
    assert.ok(error instanceof StageError, String(error));
  }
}

test('a request of any JSON is read or refused, and never breaks the gateway', () => {
  fc.assert(
    fc.property(
      objects,
      fc.array(objects, { maxLength: 3 }),
      fc.array(objects, { maxLength: 3 }),
      (body, input, tools) => {
        onlyStageErrors(() => {
          const whole = { model: 'm', ...body, input, tools };
          const read = responsesProtocol.adapter.readRequest(whole, new Notes());
          JSON.stringify(responsesProtocol.adapter.writeRequest(read, TARGET, new Notes()));
        });
        onlyStageErrors(() => responsesProtocol.adapter.readRequest({ model: 'm', ...body }, new Notes()));
      },
    ),
    { numRuns: times(80) },
  );
});

test('an answer of any JSON is read or refused, and never breaks the gateway', () => {
  fc.assert(
    fc.property(fc.array(objects, { maxLength: 6 }), objects, (events, document) => {
      onlyStageErrors(() => {
        const reader = responsesProtocol.adapter.createReader(new Notes());
        for (const event of events) reader.read({ name: 'message', data: JSON.stringify(event) }, () => {});
        reader.end(() => {});
      });
      onlyStageErrors(() => responsesProtocol.adapter.readDocument(document, new Notes()));
      onlyStageErrors(() => responsesProtocol.adapter.readDocument({ output: events, usage: document }, new Notes()));
    }),
    { numRuns: times(80) },
  );
});
