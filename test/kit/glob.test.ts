import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { matchesGlob } from '../../engine/base/kit/glob.ts';
import { times } from '../support/times.ts';

test('a glob without a star matches itself only', () => {
  assert.equal(matchesGlob('coder-1', 'coder-1'), true);
  assert.equal(matchesGlob('coder-1', 'coder-10'), false);
  assert.equal(matchesGlob('coder.1', 'coder-1'), false);
});

test('a star matches any run of characters, also an empty one', () => {
  assert.equal(matchesGlob('*', ''), true);
  assert.equal(matchesGlob('coder-*', 'coder-'), true);
  assert.equal(matchesGlob('*-latest', 'coder-latest'), true);
  assert.equal(matchesGlob('a*b*c', 'a-b-b-c'), true);
  assert.equal(matchesGlob('ab*ba', 'aba'), false);
});

test('a glob agrees with the regular expression that means the same', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 });
  const glob = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 6 });
  fc.assert(
    fc.property(glob, text, (pattern, candidate) => {
      const expression = new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
      assert.equal(matchesGlob(pattern, candidate), expression.test(candidate));
    }),
    { numRuns: times(500) },
  );
});

test('many stars cost no more than reading the text once per part', () => {
  const text = 'a'.repeat(20_000);
  assert.equal(matchesGlob(`${'*a'.repeat(2_000)}*b`, text), false);
  assert.equal(matchesGlob(`${'a*'.repeat(2_000)}`, text), true);
  assert.equal(matchesGlob('*'.repeat(5_000), text), true);
});
