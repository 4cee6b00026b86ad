import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messagesProtocol } from '../../../engine/protocols/messages/index.ts';
import type { CacheTtl, Conversation, Part, Turn } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { type ConversationFeatures, conversations } from '../translation/conversation-arbitraries.ts';

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

test('a request that was written is read and written again the same', () => {
  fc.assert(
    fc.property(conversations({ part_caches: false }), (conversation) => {
      const once = JSON.parse(JSON.stringify(messagesProtocol.adapter.writeRequest(conversation, TARGET, new Notes())));
      const notes = new Notes();
      const again = messagesProtocol.adapter.writeRequest(
        messagesProtocol.adapter.readRequest(once, notes),
        TARGET,
        notes,
      );
      assert.deepEqual(JSON.parse(JSON.stringify(again)), once);
      assert.deepEqual(notes.names, once.messages.at(-1)?.role === 'assistant' ? ['begun_answer'] : []);
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

test('whatever a conversation has, the request is one that the protocol takes', () => {
  fc.assert(
    fc.property(conversations(), fc.constantFrom('none', 'budget', 'adaptive'), (conversation, thinking) => {
      const body = messagesProtocol.adapter.writeRequest(
        conversation,
        { max_output_tokens: 8000, thinking, sampling: true },
        new Notes(),
      );
      const messages = body.messages as { role: string; content: Record<string, unknown>[] }[];
      assert.deepEqual(
        messages.map(({ role }) => role),
        messages.map((_, index) => (index % 2 === 0 ? 'user' : 'assistant')),
      );
      for (const { content } of messages) {
        assert.ok(content.length > 0);
        const results = content.filter(({ type }) => type === 'tool_result').length;
        assert.ok(content.slice(0, results).every(({ type }) => type === 'tool_result'));
      }
      assert.deepEqual(unanswered(messages), []);
    }),
  );
});

/** Calls that the next message does not answer, and answers without a call. */
function unanswered(messages: readonly { content: Record<string, unknown>[] }[]): unknown[] {
  const ids = (index: number, type: string, key: string): unknown[] =>
    (messages[index]?.content ?? []).filter((block) => block.type === type).map((block) => block[key]);
  return messages.flatMap((_, index) => {
    const [called, answered] = [ids(index, 'tool_use', 'id'), ids(index + 1, 'tool_result', 'tool_use_id')];
    return [...called.filter((id) => !answered.includes(id)), ...answered.filter((id) => !called.includes(id))];
  });
}
