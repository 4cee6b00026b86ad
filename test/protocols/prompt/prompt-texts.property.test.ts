/** Whatever API a conversation is written in, a stage sees every text of it once, and who it is from. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type PromptText, promptTexts } from '../../../engine/domain/protocols/prompt-texts.ts';

type Turn = Pick<PromptText, 'role' | 'kind'>;
const TURNS: readonly Turn[] = [
  { role: 'user', kind: 'text' },
  { role: 'assistant', kind: 'text' },
  { role: 'assistant', kind: 'thinking' },
  { role: 'assistant', kind: 'tool_call' },
  { role: 'tool', kind: 'tool_result' },
];

/** A conversation with a text of its own in each place. */
const conversations = fc
  .array(fc.constantFrom(...TURNS), { minLength: 1, maxLength: 12 })
  .map((turns) => turns.map((turn, i) => ({ ...turn, text: `marker-${i}.` })));

type Said = PromptText;
const IMAGE = { type: 'base64', media_type: 'image/png', data: 'marker-of-an-image' };

function messagesPart({ kind, text }: Said, in_parts: boolean): object {
  switch (kind) {
    case 'text':
      return in_parts
        ? { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text } }
        : { type: 'text', text };
    case 'thinking':
      return { type: 'thinking', thinking: text, signature: 'marker-of-a-proof' };
    case 'tool_call':
      return { type: 'tool_use', id: 'marker-id', name: 'marker-name', input: { path: { deep: [text] } } };
    default:
      return { type: 'tool_result', tool_use_id: 'marker-id', content: in_parts ? [{ type: 'text', text }] : text };
  }
}

const WRITERS: Readonly<Record<string, (said: readonly Said[], in_parts: boolean) => object>> = {
  messages: (said, in_parts) => ({
    system: in_parts ? [{ type: 'text', text: 'marker-system.' }] : 'marker-system.',
    messages: said.map((one) => ({
      role: one.role === 'tool' ? 'user' : one.role,
      content: [messagesPart(one, in_parts), { type: 'image', source: IMAGE }],
    })),
  }),
  chat: (said, in_parts) => ({
    messages: [
      { role: 'developer', content: in_parts ? [{ type: 'text', text: 'marker-system.' }] : 'marker-system.' },
      ...said.map(({ role, kind, text }) => {
        if (kind === 'tool_call') {
          const call = { id: 'marker-id', type: 'function', function: { name: 'marker-name', arguments: text } };
          return { role, content: null, tool_calls: [call] };
        }
        if (kind === 'thinking') return { role, reasoning_content: text };
        return { role, content: in_parts ? [{ type: 'text', text }] : text };
      }),
    ],
  }),
  responses: (said, in_parts) => ({
    instructions: 'marker-system.',
    input: said.map(({ role, kind, text }) => {
      if (kind === 'tool_call')
        return { type: 'function_call', call_id: 'marker-id', name: 'marker-name', arguments: text };
      if (kind === 'tool_result') {
        const output = in_parts ? [{ type: 'input_text', text }] : text;
        return { type: 'function_call_output', call_id: 'marker-id', output };
      }
      if (kind === 'thinking') return { type: 'reasoning', id: 'marker-id', summary: [{ type: 'summary_text', text }] };
      const type = role === 'assistant' ? 'output_text' : 'input_text';
      return { type: 'message', role, content: in_parts ? [{ type, text }] : text };
    }),
  }),
};

for (const [api, write] of Object.entries(WRITERS)) {
  test(`${api}: every text once, and nothing that is none`, () => {
    fc.assert(
      fc.property(conversations, fc.boolean(), (said, in_parts) => {
        const found = [...promptTexts(write(said, in_parts))];
        const markers = found.flatMap(({ text }) =>
          [...text.matchAll(/marker-(?:\d+|system)\./g)].map(([marker]) => marker),
        );
        assert.deepEqual(markers.toSorted(), ['marker-system.', ...said.map(({ text }) => text)].toSorted());
        assert.doesNotMatch(JSON.stringify(found), /marker-(?:of|id|name)/);
        assert.equal(found[0]!.role, 'system');
        for (const { kind, text } of said) assert.equal(found.find((one) => one.text.includes(text))!.kind, kind, text);
      }),
    );
  });
}

test('a text alone, and bodies of any other form, are read without an error', () => {
  assert.deepEqual([...promptTexts({ input: 'Hello' })], [{ role: 'user', kind: 'text', text: 'Hello' }]);
  fc.assert(fc.property(fc.jsonValue(), (body) => void [...promptTexts(body)]));
  fc.assert(
    fc.property(fc.jsonValue(), (messages) => void [...promptTexts({ messages, input: messages, system: messages })]),
  );
});

test('a role that no API has, and that objects have anyway, is from the user like any other', () => {
  for (const role of ['__proto__', 'constructor', 'toString', 'nobody'])
    assert.deepEqual(
      [...promptTexts({ messages: [{ role, content: 'a' }] })],
      [{ role: 'user', kind: 'text', text: 'a' }],
    );
});

test('deeply nested prompts, each level with its own text, cost as many steps as flat ones', (t) => {
  const next = t.mock.method(Object.getPrototypeOf(promptTexts).prototype, 'next');
  const read = (messages: readonly unknown[]) => {
    next.mock.resetCalls();
    const texts = [...promptTexts({ messages })].length;
    return [texts, next.mock.callCount()];
  };
  let deep: unknown = 'x';
  for (let level = 0; level < 120; level++) deep = { content: [deep, 'y'] };
  assert.deepEqual(read([deep]), read([{ content: Array.from({ length: 121 }, () => 'y') }]));
});
