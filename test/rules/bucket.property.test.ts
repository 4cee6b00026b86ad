import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { bucketOf } from '../../engine/base/rules/compile.ts';

describe('the bucket of a string', () => {
  test('never changes: members of a split stay in it', () => {
    assert.deepEqual(
      ['ann@example.com', 'ben@example.com', 'cleo@example.com', ''].map((id) => bucketOf(id, 'new-model', 100)),
      [93, 91, 24, 24],
    );
  });

  test('is in range', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.integer({ min: 2, max: 1_000_000 }), (text, salt, count) => {
        const bucket = bucketOf(text, salt, count);
        assert.ok(Number.isInteger(bucket) && bucket >= 0 && bucket < count);
        assert.equal(bucketOf(text, salt, count), bucket);
      }),
    );
  });

  test('is equally distributed, whatever the salt', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), fc.constantFrom(2, 10, 100), (salt, count) => {
        const people = 20_000;
        const counts = new Array<number>(count).fill(0);
        for (let i = 0; i < people; i += 1) counts[bucketOf(`user-${i}@example.com`, salt, count)]! += 1;
        const expected = people / count;
        // Six standard deviations: less than once in a hundred million buckets by chance.
        const most = 6 * Math.sqrt(expected);
        for (const found of counts) assert.ok(Math.abs(found - expected) < most, `${found} of about ${expected}`);
      }),
      { numRuns: 10 },
    );
  });

  test('is independent of that with another salt', () => {
    const people = Array.from({ length: 10_000 }, (_, i) => `user-${i}@example.com`);
    const both = people.filter((id) => bucketOf(id, 'a', 10) === 0 && bucketOf(id, 'b', 10) === 0).length;
    assert.ok(Math.abs(both - 100) < 60, `${both} of about 100`);
  });
});
