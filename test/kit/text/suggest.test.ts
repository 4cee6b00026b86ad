import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closest, editDistance, listed } from '../../../engine/kit/text/suggest.ts';

test('a swap of neighbours is one edit', () => {
  assert.equal(editDistance('output', 'outptu'), 1);
  assert.equal(editDistance('listen', 'lissten'), 1);
  assert.equal(editDistance('kitten', 'sitting'), 3);
  assert.equal(editDistance('', 'abc'), 3);
});

test('a slip of the pen suggests the word that was meant', () => {
  assert.equal(closest('authentikate', ['audit', 'authenticate', 'forward']), 'authenticate');
  assert.equal(closest('base-url', ['base_url', 'region']), 'base_url');
  assert.equal(closest('Listen', ['listen']), 'listen');
});

test('a word that is not close suggests nothing', () => {
  assert.equal(closest('plugins', ['pipelines', 'policies', 'stages']), undefined);
  assert.equal(closest('xyz', ['abc', 'in', 'or']), undefined);
  assert.equal(closest('a', []), undefined);
});

test('a list reads like a sentence and is cut off when it is long', () => {
  assert.equal(listed(['a']), 'a');
  assert.equal(listed(['a', 'b', 'c']), 'a, b or c');
  assert.equal(listed(['a', 'b', 'c'], 2), 'a, b, ... (3 in all)');
});
