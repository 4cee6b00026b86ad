import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeSettings, originsOf } from '../../../engine/cli/explain/describe-settings.ts';
import { settingsNode } from '../../identity/policies/support/policies.ts';

const tell = ({ line }: { line: number }) => `line ${line}`;

describe('settings with the place of every part', () => {
  it('are told of every part, by JSON pointer', () => {
    const node = settingsNode({ a: { 'b/c': [1, { d: 2 }], none: [] }, empty: {} });
    const keys = Object.keys(originsOf(node, tell));
    assert.deepEqual(keys, ['/a/b~1c/0', '/a/b~1c/1', '/a/none', '/empty']);
  });

  it('are told however many parts there are', () => {
    const { mark, entries } = settingsNode({ key: 1 });
    const many = Array.from({ length: 150_000 }, (_, index) => ({ ...entries[0]!, key: `key_${index}` }));
    const node = { kind: 'map', mark, entries: many } as const;
    assert.equal(Object.keys(originsOf(node, tell)).length, 150_000);
    assert.equal(describeSettings(node, tell, 80).length, 150_000);
  });
});
