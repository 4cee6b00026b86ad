import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { almost, closest, editDistance, listed } from '../../../engine/base/kit/text/suggest.ts';

test('a swap of neighbours is one edit', () => {
  assert.equal(editDistance('output', 'outptu'), 1);
  assert.equal(editDistance('listen', 'lissten'), 1);
  assert.equal(editDistance('kitten', 'sitting'), 3);
  assert.equal(editDistance('', 'abc'), 3);
});

test('a typo suggests the intended word, and a distant one nothing', () => {
  const known = ['audit', 'authenticate', 'base_url', 'pipelines', 'stages', 'listen'];
  assert.deepEqual(
    ['authentikate', 'base-url', 'Listen'].map((word) => closest(word, known)),
    ['authenticate', 'base_url', 'listen'],
  );
  for (const word of ['plugins', 'xyz', 'a']) assert.equal(closest(word, known), undefined, word);
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
