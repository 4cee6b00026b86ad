import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DecisiveValue, readDecisive } from '../../../engine/protocols/body/read-decisive.ts';

/** A value below many keys of 60,000 characters. */
function nested(value: unknown): Record<string, unknown> {
  let outer: unknown = value;
  for (let i = 0; i < 100; i++) outer = { ['k'.repeat(60_000)]: outer };
  return { x: outer };
}

test('many values below long keys are looked through, and nothing is found where no model is', () => {
  const found: readonly DecisiveValue[] = readDecisive(nested(Array.from({ length: 500 }, () => ({ model: 1 }))));
  assert.deepEqual(found, []);
});

test('a model that is named below keys that are too long to say is refused', () => {
  assert.throws(() => readDecisive(nested({ model: 'expensive-1' })), { code: 'invalid_request' });
});
