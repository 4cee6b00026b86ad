import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { almost, closest, editDistance, listed } from '../../../engine/base/kit/text/suggest.ts';

test('a swap of neighbours is one edit', () => {
  assert.equal(editDistance('output', 'outptu'), 1);
  assert.equal(editDistance('listen', 'lissten'), 1);
  assert.equal(editDistance('kitten', 'sitting'), 3);
  assert.equal(editDistance('', 'abc'), 3);
});

test('a typo suggests the intended word', () => {
  assert.equal(closest('authentikate', ['audit', 'authenticate', 'forward']), 'authenticate');
  assert.equal(closest('base-url', ['base_url', 'region']), 'base_url');
  assert.equal(closest('Listen', ['listen']), 'listen');
});

test('a distant word suggests nothing', () => {
  assert.equal(closest('plugins', ['pipelines', 'policies', 'stages']), undefined);
  assert.equal(closest('xyz', ['abc', 'in', 'or']), undefined);
  assert.equal(closest('a', []), undefined);
});

test('a list reads like a sentence and is cut off when it is long', () => {
  assert.equal(listed(['a']), 'a');
  assert.equal(listed(['a', 'b', 'c']), 'a, b or c');
  assert.equal(listed(['a', 'b', 'c'], 2), 'a, b, ... (3 in all)');
});

describe('a name that is almost another one', () => {
  const known = ['engineering', 'interns', 'platform-admins', 'team-1', 'eng-eu', 'sre', 'data', 'north'];

  for (const [name, meant] of [
    ['enginering', 'engineering'],
    ['intern', 'interns'],
    ['platform_admins', 'platform-admins'],
    ['PlatformAdmins', 'platform-admins'],
    ['platform-admin', 'platform-admins'],
    ['nroth', 'north'],
  ] as const) {
    test(`${name} is almost ${meant}`, () => assert.equal(almost(name, known), meant));
  }

  for (const name of [
    'team-2',
    'team-11',
    'eng-us',
    'sales',
    'date',
    'forth',
    'engineering-eu',
    'eng',
    'externs',
    '',
  ]) {
    test(`${name || 'nothing'} is another name`, () => assert.equal(almost(name, known), undefined));
  }
});
