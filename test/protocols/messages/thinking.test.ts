import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Conversation, ReasoningPart, Turn } from '../../../engine/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { writeAsked } from './scene.ts';

/** How the model is told to think, and what was noted. */
function told(
  conversation: Partial<Conversation>,
  thinking: 'none' | 'budget' | 'adaptive',
): [unknown, unknown, readonly string[]] {
  const notes = new Notes();
  const tools = [{ name: 't', parameters: {} }];
  const { thinking: said, output_config } = writeAsked({ tools, ...conversation }, { notes, thinking });
  return [said, (output_config as { effort?: string } | undefined)?.effort, notes.names];
}

/** A conversation that ends with the result of a call, made after this was thought. */
function loop(...thoughts: readonly ReasoningPart[]): Turn[] {
  return [
    { role: 'user', parts: [{ kind: 'text', text: 'a' }] },
    { role: 'assistant', parts: [...thoughts, { kind: 'tool_call', id: 'c', name: 't', arguments: '{}' }] },
    { role: 'user', parts: [{ kind: 'tool_result', call_id: 'c', parts: [], is_error: false }] },
  ];
}

const OWN: ReasoningPart = {
  kind: 'reasoning',
  text: 'Hm',
  proof: { protocol: 'messages', kind: 'signature', value: 's' },
};
const FOREIGN: ReasoningPart = {
  kind: 'reasoning',
  text: 'Hm',
  proof: { protocol: 'responses', kind: 'encrypted', value: 's' },
};

test('a model that adapts is told the effort', () => {
  assert.deepEqual(told({ reasoning: { effort: 'high' } }, 'adaptive'), [{ type: 'adaptive' }, 'high', []]);
  assert.deepEqual(told({ reasoning: { effort: 'minimal', show: true } }, 'adaptive'), [
    { type: 'adaptive', display: 'summarized' },
    'low',
    ['thinking_effort'],
  ]);
  assert.deepEqual(told({ reasoning: { show: false } }, 'adaptive'), [
    { type: 'adaptive', display: 'omitted' },
    undefined,
    [],
  ]);
  assert.deepEqual(told({ reasoning: { budget_tokens: 10_000 } }, 'adaptive'), [
    { type: 'adaptive' },
    'medium',
    ['thinking_budget'],
  ]);
});

test('a model with a budget gets one below the bound on output', () => {
  const budget = (reasoning: Conversation['reasoning'], max_output_tokens = 60_000) =>
    told({ ...(reasoning && { reasoning }), max_output_tokens }, 'budget')[0];
  assert.deepEqual(budget({ effort: 'low' }), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(budget({ effort: 'max' }), { type: 'enabled', budget_tokens: 30_000 });
  assert.deepEqual(budget({ effort: 'high' }, 1500), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(budget({ budget_tokens: 5000 }, 6000), { type: 'enabled', budget_tokens: 5000 });
  assert.deepEqual(budget({ budget_tokens: 9000 }, 6000), { type: 'enabled', budget_tokens: 5999 });
  assert.deepEqual(budget({ budget_tokens: 10 }), { type: 'enabled', budget_tokens: 1024 });
  assert.deepEqual(told({ reasoning: { budget_tokens: 5000 } }, 'budget')[2], []);
  assert.deepEqual(told({ reasoning: { effort: 'low' }, max_output_tokens: 1024 }, 'budget'), [
    undefined,
    undefined,
    ['thinking_without_room'],
  ]);
});

test('a model that does not think is not told to, and one whose client wants no thoughts thinks as little as it can', () => {
  assert.deepEqual(told({ reasoning: { effort: 'high' } }, 'none'), [undefined, undefined, ['no_thinking']]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'none'), [undefined, undefined, []]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'budget'), [{ type: 'disabled' }, undefined, []]);
  assert.deepEqual(told({ reasoning: { effort: 'none' } }, 'adaptive'), [undefined, undefined, ['thinking_effort']]);
  assert.deepEqual(told({}, 'adaptive'), [undefined, undefined, []]);
});

test('nobody thinks where a call is forced', () => {
  for (const tool_choice of [{ kind: 'any' }, { kind: 'tool', name: 't' }] as const) {
    const conversation: Partial<Conversation> = { reasoning: { effort: 'high' }, tool_choice };
    assert.deepEqual(told(conversation, 'adaptive'), [undefined, undefined, ['thinking_with_forced_tool']]);
  }
});

test('in the middle of calls a model with a budget thinks on only where it can see its own thoughts', () => {
  const reasoning = { effort: 'high' } as const;
  assert.deepEqual(told({ reasoning, turns: loop(OWN) }, 'budget')[0], { type: 'enabled', budget_tokens: 4000 });
  assert.deepEqual(told({ reasoning, turns: loop() }, 'budget'), [undefined, undefined, ['thinking_in_tool_loop']]);
  assert.deepEqual(told({ reasoning, turns: loop(FOREIGN) }, 'budget'), [
    undefined,
    undefined,
    ['foreign_reasoning', 'thinking_in_tool_loop'],
  ]);
  assert.deepEqual(told({ reasoning, turns: loop(FOREIGN) }, 'adaptive'), [
    { type: 'adaptive' },
    'high',
    ['foreign_reasoning'],
  ]);
  const answered: Turn[] = [
    ...loop(),
    { role: 'assistant', parts: [{ kind: 'text', text: 'ok' }] },
    { role: 'user', parts: [{ kind: 'text', text: 'b' }] },
  ];
  assert.deepEqual(told({ reasoning, turns: answered }, 'adaptive')[0], { type: 'adaptive' });
});

test('sampling that upstreams refuse while the model thinks is left out, and kept when it does not', () => {
  const notes = new Notes();
  const sampling = { temperature: 0.5, top_k: 5 };
  const thinks = writeAsked({ reasoning: { effort: 'low' }, ...sampling }, { notes });
  assert.deepEqual([thinks.temperature, thinks.top_k], [undefined, undefined]);
  assert.deepEqual(notes.names, ['sampling_while_thinking']);
  const silent = writeAsked({ reasoning: { effort: 'low' }, ...sampling }, { thinking: 'none' });
  assert.deepEqual([silent.temperature, silent.top_k], [0.5, 5]);
  assert.equal(writeAsked({ reasoning: { effort: 'low' }, top_p: 0.96 }).top_p, 0.96);
});
