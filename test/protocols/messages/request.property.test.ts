/** What a client of Messages says reaches an upstream of Messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { definition } from '../../../engine/domain/protocols/messages/index.ts';
import type { CacheTtl, Conversation, Turn } from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { type ConversationFeatures, conversations, joinedTurns } from '../translation/conversation-arbitraries.ts';

/** Conversations without settings, in which the user spoke last; `part_caches` says whether there are cache marks. */
const sayable = (features: Pick<ConversationFeatures, 'part_caches'>): fc.Arbitrary<Conversation> =>
  conversations({
    ...features,
    instructions_turns: false,
    image_details: false,
    refusals: false,
    free_text_tools: false,
    reasoning: ['messages'],
  }).map(({ model, instructions, tools, stream, turns }) => ({
    ...{ model, instructions, tools, stream, max_output_tokens: 4000 },
    turns: [...turns, { role: 'user', parts: [{ kind: 'text', text: 'Go on.' }] }],
  }));

/** Neighbours of the same role as one turn, results first. */
const merged = (turns: readonly Turn[]): readonly Turn[] =>
  joinedTurns(turns).map(({ role, parts }) => ({
    role,
    parts: [
      ...parts.filter(({ kind }) => kind === 'tool_result'),
      ...parts.filter(({ kind }) => kind !== 'tool_result'),
    ],
  }));

/** Writes and reads a conversation as JSON, as on the wire. */
function thereAndBack(conversation: Conversation, notes: Notes): Conversation {
  const target = { max_output_tokens: 8000, thinking: 'adaptive', sampling: true } as const;
  const body = JSON.parse(JSON.stringify(definition.adapter.writeRequest(conversation, target, notes)));
  return definition.adapter.readRequest(body, notes);
}

test('a conversation that Messages can express comes back unchanged, without notes', () => {
  fc.assert(
    fc.property(sayable({ part_caches: false }), (conversation) => {
      const notes = new Notes();
      const back = thereAndBack(conversation, notes);
      assert.deepEqual({ ...back, turns: merged(back.turns) }, { ...conversation, turns: merged(conversation.turns) });
      assert.deepEqual(notes.names, []);
    }),
  );
});

test('cache marks come back where they were, the last four of them, none for longer than one before it', () => {
  fc.assert(
    fc.property(sayable({ part_caches: true }), (conversation) => {
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
