import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settingOrigins } from '../../../engine/identity/policies/origins.ts';
import { policy } from './support/policies.ts';

test('every setting is told with the policy it is from, and those whose value it replaced', () => {
  const below = policy('below', { model: 'a', allow: [1, 2], permissions: { deny: ['x'], kept: true }, empty: {} });
  const above = policy('above', { model: 'b', allow: [3], permissions: { deny: ['x', 'y'] } });
  const top = policy('top', { model: 'c', permissions: { disallow: ['z'] } });
  const told = settingOrigins([below, above, top]).map(({ path, value, is_item, policy, replaces }) => {
    return [path.join('.'), value, is_item ? 'item' : 'whole', policy, replaces];
  });
  assert.deepEqual(told, [
    ['model', 'c', 'whole', 'top', ['below', 'above']],
    ['allow', [3], 'whole', 'above', ['below']],
    ['permissions.deny', 'x', 'item', 'below', []],
    ['permissions.deny', 'y', 'item', 'above', []],
    ['permissions.kept', true, 'whole', 'below', []],
    ['permissions.disallow', ['z'], 'whole', 'top', []],
    ['empty', {}, 'whole', 'below', []],
  ]);
  assert.deepEqual(settingOrigins([]), []);
  assert.deepEqual(settingOrigins([policy('nothing', {})]), []);
});
