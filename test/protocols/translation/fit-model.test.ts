import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { PAIRS, translate } from './translating.ts';

/** What the upstream is asked for, and what was noted of it. */
function asked(from: Protocol, to: Protocol, more: object, sampling = true) {
  const { json, notes } = translate(from, to, false, more, { max_output_tokens: 1000, thinking: 'none', sampling });
  return { body: JSON.parse(json) as Record<string, unknown>, notes: notes.names };
}

const BOUNDS: Readonly<Record<Protocol, string>> = {
  messages: 'max_tokens',
  chat: 'max_tokens',
  responses: 'max_output_tokens',
};

test('no upstream is asked for more tokens than the model can say in one answer', () => {
  for (const { from, to } of PAIRS) {
    const above = asked(from, to, { [BOUNDS[from]]: 1001 });
    assert.equal(above.body[BOUNDS[to]], 1000, `${from} to ${to}`);
    assert.ok(above.notes.includes('output_bound'));
    const within = asked(from, to, { [BOUNDS[from]]: 1000 });
    assert.equal(within.body[BOUNDS[to]], 1000);
    assert.ok(!within.notes.includes('output_bound'));
  }
});

test('a model that takes no sampling parameters is sent none, whatever the two protocols', () => {
  for (const { from, to } of PAIRS) {
    for (const more of [{ temperature: 0.3 }, { top_p: 0.9 }]) {
      const key = Object.keys(more)[0]!;
      const refusing = asked(from, to, more, false);
      assert.equal(refusing.body[key], undefined, `${from} to ${to}`);
      assert.ok(refusing.notes.includes('no_sampling'));
      const taking = asked(from, to, more);
      assert.notEqual(taking.body[key], undefined);
      assert.ok(!taking.notes.includes('no_sampling'));
    }
    assert.ok(!asked(from, to, {}, false).notes.includes('no_sampling'));
  }
  assert.equal(asked('chat', 'messages', { top_k: 5 }, false).body.top_k, undefined);
});
