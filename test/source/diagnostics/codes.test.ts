import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIAGNOSTICS } from '../../../engine/base/source/diagnostics/codes.ts';

test('every code is explained with a title, a reason and an example', () => {
  for (const [code, { title, explanation, example }] of Object.entries(DIAGNOSTICS)) {
    assert.match(code, /^(?:C[1-689]|W7)\d{3}$/);
    assert.match(title, /^[A-Z`].*[^.]$/, code);
    assert.match(explanation, /^[A-Z`'].*\.$/s, code);
    assert.notEqual(example, '', code);
  }
});

test('no two codes have one title', () => {
  const titles = Object.values(DIAGNOSTICS).map(({ title }) => title);
  const twice = titles.filter((title, index) => titles.indexOf(title) !== index);
  assert.deepEqual(twice, []);
});
