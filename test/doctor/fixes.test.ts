import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BrokenFile } from '../../engine/client-files/broken-file.ts';
import type { Fix } from '../../engine/doctor/diagnosis.ts';
import { composeFixes } from '../../engine/doctor/fixes.ts';
import { deskWith } from './support.ts';

const PATH = '/home/ada/file';
const fix = (change: Fix['change'], more: Partial<Fix> = {}): Fix => ({ path: PATH, change, secret: false, ...more });
const adding = (text: string, more: Partial<Fix> = {}) => fix((before) => `${before ?? ''}${text}`, more);
const compose = (text: string | undefined, ...fixes: Fix[]) =>
  composeFixes(deskWith(text === undefined ? {} : { files: { [PATH]: text } }), [{ fixes }, {}]);

describe('fixes of a desk', () => {
  test('become one change of each file, in their order', () => {
    const { changes } = compose('a', adding('b'), adding('c', { secret: true }), { ...adding('x'), path: '/other' });
    assert.deepEqual(changes, [
      { path: PATH, before: 'a', after: 'abc', secret: true },
      { path: '/other', before: undefined, after: 'x', secret: false },
    ]);
  });

  test('that change nothing are none', () => {
    assert.deepEqual(
      compose(
        'a',
        fix((before) => before),
      ).changes,
      [],
    );
    assert.deepEqual(
      compose(
        undefined,
        fix(() => undefined),
      ).changes,
      [],
    );
  });

  test('of rights alone are a change only while others may read the file', () => {
    const private_again = fix((before) => before, { secret: true });
    const changesWith = (rights: number) =>
      composeFixes(deskWith({ files: { [PATH]: 'a' }, rights: { [PATH]: rights } }), [{ fixes: [private_again] }])
        .changes;
    assert.deepEqual(changesWith(0o600), []);
    assert.deepEqual(changesWith(0o640), [{ path: PATH, before: 'a', after: 'a', secret: true }]);
  });

  test('of a file that cannot be changed leave it as a whole, and say why; other files are mended', () => {
    const broken = fix(() => {
      throw new BrokenFile('it is not JSON', 3);
    });
    const { changes, failures } = compose('a', adding('b'), broken, { ...adding('x'), path: '/other' });
    assert.deepEqual(
      changes.map(({ path }) => path),
      ['/other'],
    );
    assert.deepEqual(failures, [`${PATH}: it is not JSON`]);
  });

  test('name what must not be shown: what they hide, and keys that stand anywhere in the file', () => {
    const key = 'sk-planted1234567890';
    const { hides } = compose(`note = "${key}"\nmodel = "coder-1-2026-large"`, adding('b', { hides: ['hidden'] }));
    assert.deepEqual([...new Set(hides)], ['hidden', key]);
  });
});
