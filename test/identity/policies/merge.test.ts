import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isDenyKey, mergeSettings } from '../../../engine/identity/policies/merge.ts';
import { canonicalJson, checksumOf } from '../../../engine/kit/json/canonical.ts';
import { toValue } from '../../../engine/source/node.ts';
import { settingsNode } from './support/policies.ts';

const merge = (...all: object[]): unknown => toValue(all.map(settingsNode).reduce(mergeSettings));

/** Any settings that could stand in a file, `__proto__` left out, which is a load error. */
const anySettings = fc
  .dictionary(
    fc.string({ minLength: 1, maxLength: 4 }).filter((key) => key !== '__proto__'),
    fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('__proto__')),
    { maxKeys: 5 },
  )
  // What JSON can't say, such as -0, is not what this is about, and neither are keys that are empty.
  .map((value) => JSON.parse(JSON.stringify(value)) as object)
  .filter((value) => !JSON.stringify(value).includes('"":'));

describe('laying settings over others', () => {
  it('merges mappings key by key and replaces everything else', () => {
    const base = { model: 'a', nested: { kept: 1, changed: [1, 2], deeper: { x: 1 } } };
    const over = { model: 'b', nested: { changed: [3], deeper: { y: 2 } }, fresh: true };
    assert.deepEqual(merge(base, over), {
      model: 'b',
      nested: { kept: 1, changed: [3], deeper: { x: 1, y: 2 } },
      fresh: true,
    });
  });

  it('replaces allow lists and unites deny lists, in order and without repetition', () => {
    const base = { permissions: { allow: ['a', 'b'], deny: ['x', { tool: 'y' }] } };
    const over = { permissions: { allow: ['c'], deny: ['z', 'x', { tool: 'y' }] } };
    assert.deepEqual(merge(base, over), { permissions: { allow: ['c'], deny: ['x', { tool: 'y' }, 'z'] } });
  });

  it('lets a mapping that meets something else be replaced as a whole', () => {
    assert.deepEqual(merge({ a: { b: 1 } }, { a: 2 }), { a: 2 });
    assert.deepEqual(merge({ a: [1] }, { a: { b: 1 } }), { a: { b: 1 } });
    assert.deepEqual(merge({ a: { b: 1 } }, { a: null }), { a: null });
  });

  it('knows deny lists by the first or last word of their key', () => {
    const deny = ['deny', 'DENY', 'denied_tools', 'disallowedTools', 'blockedMarketplaces', 'deny-read', 'toolsDenied'];
    for (const key of [...deny, 'disabledServers', 'forbidden', 'denyWrite', 'DENYList', 'hostDenylist', 'blocklist'])
      assert.ok(isDenyKey(key), key);
    for (const key of ['allow', 'unblocked', 'blocking', 'denying', 'enabled', 'denials', '', 'ask_denied_later'])
      assert.ok(!isDenyKey(key), key);
  });

  it('never shrinks a deny list', () => {
    const deny = fc.array(fc.oneof(fc.string(), fc.integer(), fc.record({ tool: fc.string() })), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(deny, { minLength: 1, maxLength: 4 }), (lists) => {
        const all = lists.map((list) => ({ permissions: { deny: list } }));
        const merged = merge(...all) as { permissions: { deny: unknown[] } };
        const texts = merged.permissions.deny.map(canonicalJson);
        for (const item of lists.flat()) assert.ok(texts.includes(canonicalJson(item)));
      }),
    );
  });

  it('gives whoever writes an allow list last the last word', () => {
    const list = fc.array(fc.string(), { minLength: 1 });
    fc.assert(
      fc.property(fc.array(list, { minLength: 1, maxLength: 4 }), (lists) => {
        const merged = merge(...lists.map((availableModels) => ({ availableModels })));
        assert.deepEqual(merged, { availableModels: lists.at(-1) });
      }),
    );
  });

  it('changes nothing when settings are laid over themselves, or when either side is empty', () => {
    fc.assert(
      fc.property(anySettings, (settings) => {
        const text = canonicalJson(settings);
        assert.equal(canonicalJson(merge({}, settings)), text);
        assert.equal(canonicalJson(merge(settings, {})), text);
      }),
    );
  });
});

/** The same value with the keys of every mapping in the opposite order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

describe('the checksum of settings', () => {
  it('does not depend on the order of keys, in whichever file they stand', () => {
    fc.assert(
      fc.property(anySettings, anySettings, (base, over) => {
        const straight = checksumOf(canonicalJson(merge(base, over)));
        const other = checksumOf(canonicalJson(merge(reversed(base) as object, reversed(over) as object)));
        assert.equal(straight, other);
      }),
    );
  });

  it('is that of JSON with sorted keys and without white space', () => {
    const text = canonicalJson({ b: [1, { d: 'ü', c: null }], a: true, 10: 1, 9: 2 });
    assert.equal(text, '{"10":1,"9":2,"a":true,"b":[1,{"c":null,"d":"ü"}]}');
    assert.equal(checksumOf('{}'), 'sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a');
  });

  it('tells different settings apart', () => {
    fc.assert(
      fc.property(anySettings, anySettings, (one, other) => {
        const same = canonicalJson(one) === canonicalJson(other);
        try {
          assert.deepEqual(one, other);
          assert.ok(same);
        } catch {
          assert.ok(!same);
        }
      }),
    );
  });
});
