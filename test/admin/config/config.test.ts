import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyPatch } from 'diff';
import type { KeptFile, KeptRule } from '../../../engine/domain/audit/config-loads.ts';
import { diffFiles, diffRules, shadowRules } from '../../../engine/edge/admin/config.ts';

const file = (name: string, text: string | null, digest: string | null = null): KeptFile => ({ name, text, digest });
const rule = (more: Partial<KeptRule>): KeptRule => ({
  kind: 'routing',
  name: 'long',
  mode: 'enforce',
  text: 'always',
  effect: 'goes to main',
  file: 'gateway.yaml',
  line: 1,
  first_line: 1,
  last_line: 1,
  ...more,
});

describe('the difference of two versions', () => {
  test('lists added, removed and changed files, with context around the changes', () => {
    const lines = Array.from({ length: 20 }, (_, i) => `line: ${i}`);
    const before = [file('a', lines.join('\n')), file('gone', 'x'), file('same', 'y'), file('stage.ts', null, '1')];
    const after = [file('a', lines.with(9, 'new: 9').join('\n')), file('more', 'z'), file('same', 'y')];
    const found = diffFiles(before, [...after, file('stage.ts', null, '2')]);
    assert.deepEqual(
      found.map(({ name, change }) => [name, change]),
      [
        ['a', 'changed'],
        ['gone', 'removed'],
        ['more', 'added'],
        ['stage.ts', 'changed'],
      ],
    );
    const [hunk, ...others] = found[0]!.hunks!;
    assert.deepEqual(others, []);
    assert.deepEqual([hunk!.old_line, hunk!.new_line, hunk!.lines.length], [7, 7, 8]);
    assert.deepEqual(hunk!.lines.slice(3, 5), [
      { kind: 'removed', text: 'line: 9' },
      { kind: 'added', text: 'new: 9' },
    ]);
    assert.equal(found[3]!.hunks, null);
  });

  test('of unrelated texts is reported without lines', () => {
    const noise = (seed: number) => Array.from({ length: 20_000 }, (_, i) => `${(i * seed) % 99_991}`).join('\n');
    const [found] = diffFiles([file('a', noise(7919))], [file('a', noise(104_729))]);
    assert.equal(found!.hunks, null);
  });

  test('lists the rules with a different meaning', () => {
    const [old_rule, new_rule] = [rule({}), rule({ effect: 'goes to spare' })];
    const [kept, gone, made] = [rule({ name: 'kept', line: 3 }), rule({ name: 'gone' }), rule({ name: 'made' })];
    assert.deepEqual(diffRules([old_rule, kept, gone], [new_rule, rule({ name: 'kept', line: 9 }), made]), [
      { before: old_rule, after: new_rule },
      { before: gone, after: null },
      { before: null, after: made },
    ]);
  });
});

describe('a rule in shadow mode', () => {
  const text = `routing:
  rules:
    - name: long
      mode: shadow # for a week
      upstream: main
    - { name: short, mode: shadow, upstream: main }
  default_upstream: main
`;
  const version = (files: readonly KeptFile[], rules: readonly KeptRule[]) => {
    return { version: '0', first_loaded_at: new Date(), files, rules };
  };
  const at = { mode: 'shadow', line: 3, first_line: 3, last_line: 5 } as const;

  test('has a diff that applies, and nothing else in it', () => {
    const rules = [rule(at), rule({ ...at, name: 'short', line: 6, first_line: 6, last_line: 6 }), rule({})];
    const [long, short, ...others] = shadowRules(version([file('gateway.yaml', text)], rules), []);
    assert.deepEqual(others, []);
    assert.equal(applyPatch(text, long!.patch!), text.replace('      mode: shadow # for a week\n', ''));
    assert.equal(applyPatch(text, short!.patch!), text.replace('short, mode: shadow', 'short, mode: enforce'));
  });

  test('has no diff if a secret nearby was masked, its mode is set elsewhere, or the file ships', () => {
    const patchOf = (name: string, content: string, more: Partial<KeptRule> = at) =>
      shadowRules(version([file(name, content)], [rule({ ...more, mode: 'shadow', file: name })]), [])[0]!.patch;
    assert.equal(patchOf('gateway.yaml', text.replace('upstream: main', 'upstream: ****')), null);
    assert.equal(patchOf('gateway.yaml', text, { line: 7, first_line: 7, last_line: 7 }), null);
    assert.equal(patchOf('appscli/pipelines/model-requests.yaml', text), null);
  });

  test('is counted by its name in audit records', () => {
    const count = (name: string, requests: number) => {
      return { name, requests, by_upstream: { main: requests, '': 1 }, last_at: new Date(0), last_request_id: 'r' };
    };
    const rules = [
      rule(at),
      rule({ ...at, kind: 'spend', name: 'daily', effect: 'at most 1 USD' }),
      rule({ ...at, kind: 'spend', name: 'daily', effect: 'at most 9 USD' }),
      rule({ ...at, kind: 'guard', name: 'messages/redact/secrets' }),
    ];
    const counts = [count('routing:long', 2), count('redact/secrets', 9), count('routing:other', 5)];
    const found = shadowRules(version([], rules), counts);
    assert.deepEqual(
      found.map(({ recorded_as, requests, effect }) => [recorded_as, requests, effect]),
      [
        ['redact/secrets', 9, 'goes to main'],
        ['routing:long', 2, 'goes to main'],
        ['spend:daily', 0, 'at most 1 USD; at most 9 USD'],
      ],
    );
    assert.deepEqual(found[1]!.upstreams, [
      { upstream: 'main', requests: 2 },
      { upstream: null, requests: 1 },
    ]);
  });
});
