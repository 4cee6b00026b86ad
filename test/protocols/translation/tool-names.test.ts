/** Names of tools that an upstream does not take are shortened on the way up and restored on the way down. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Conversation } from '../../../engine/protocols/translation/conversation.ts';
import { renameTools } from '../../../engine/protocols/translation/features/tool-names.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';

const LONG = `mcp__a_server_with_a_long_name__${'and_a_tool_'.repeat(5)}`;

function conversation(names: readonly string[], more: Partial<Conversation> = {}): Conversation {
  const tools = names.map((name) => ({ name, parameters: {} }));
  return { model: 'm', instructions: [], turns: [], tools, stream: false, ...more };
}

function namesOf({ tools }: Conversation): string[] {
  return tools.map(({ name }) => name);
}

describe('a name above 64 characters', () => {
  it('is shortened in tools, in the choice of a tool and in calls, and restored', () => {
    const call = { kind: 'tool_call', id: 'c1', name: LONG, arguments: '{}' } as const;
    const notes = new Notes();
    const asked = conversation(['short', LONG], {
      tool_choice: { kind: 'tool', name: LONG },
      turns: [{ role: 'assistant', parts: [{ kind: 'text', text: 'Calling.' }, call] }],
    });
    const { conversation: renamed, restore } = renameTools(asked, 'chat', notes);
    const [kept, short = ''] = namesOf(renamed);
    assert.equal(kept, 'short');
    assert.match(short, /^mcp__a_server_with_a_long_name__.*_[0-9a-f]{8}$/);
    assert.equal(short.length, 64);
    assert.deepEqual(renamed.tool_choice, { kind: 'tool', name: short });
    assert.deepEqual(renamed.turns[0]!.parts[1], { ...call, name: short });
    assert.equal(restore(short), LONG);
    assert.equal(restore('short'), 'short');
    assert.deepEqual(notes.names, ['tool_name']);
  });

  it('is the same in every request, so that the prompt stays cached', () => {
    const once = renameTools(conversation([LONG]), 'chat', new Notes());
    const again = renameTools(conversation(['other', LONG]), 'responses', new Notes());
    assert.deepEqual(namesOf(once.conversation), namesOf(again.conversation).slice(1));
  });

  it('stays whole for an upstream that takes 128', () => {
    const asked = conversation([LONG]);
    assert.equal(renameTools(asked, 'messages', new Notes()).conversation, asked);
  });
});

it('leaves a conversation alone whose names all fit, and notes nothing', () => {
  const notes = new Notes();
  const asked = conversation(['a', 'b-2', 'C_3'.padEnd(64, 'x')]);
  assert.equal(renameTools(asked, 'chat', notes).conversation, asked);
  assert.deepEqual(notes.names, []);
});

it('gives different tools different names that fit, and restores each, whatever they are called', () => {
  const name = fc.oneof(
    fc.string({ maxLength: 80 }),
    fc.constantFrom(LONG, `${LONG}x`, `${LONG.slice(0, 55)}_deadbeef`, 'a.b', 'a/b', 'a_b', '', '__proto__'),
  );
  fc.assert(
    fc.property(fc.uniqueArray(name), fc.constantFrom('messages', 'chat', 'responses'), (names, to) => {
      const { conversation: renamed, restore } = renameTools(conversation(names), to, new Notes());
      const short = namesOf(renamed);
      assert.equal(new Set(short).size, names.length);
      for (const one of short) assert.match(one, to === 'messages' ? /^[\w-]{1,128}$/ : /^[\w-]{1,64}$/);
      assert.deepEqual(short.map(restore), names);
      // A second request that has the shortened name as a real one must not lose it.
      const both = [...new Set([...names, ...short])];
      const second = renameTools(conversation(both), to, new Notes());
      assert.deepEqual(namesOf(second.conversation).map(second.restore), both);
    }),
  );
});
