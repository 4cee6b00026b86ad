import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TypicalCosts } from '../../../engine/domain/budget/ledger/typical-costs.ts';

const costs = fc.array(fc.oneof(fc.nat(), fc.maxSafeNat(), fc.nat(10)), { minLength: 20, maxLength: 300 });

describe('the typical cost of a caller and model', () => {
  it('is at least the cost of 95 of 100 requests, and at most 10 % more than the exact percentile', () => {
    fc.assert(
      fc.property(costs, (all) => {
        const typical = new TypicalCosts();
        for (const cost of all) typical.add('ann', 'coder-1', cost);
        const exact = all.toSorted((a, b) => a - b)[Math.ceil(all.length * 0.95) - 1]!;
        const reported = typical.of('ann', 'coder-1')!;
        assert.ok(Number.isSafeInteger(reported) && reported >= exact, `${reported} < ${exact}`);
        assert.ok(reported <= Math.ceil(exact * 1.1) + 1, `${reported} > ${exact} + 10 %`);
      }),
    );
  });

  it('falls back to all users below 20 samples of the user, and is unknown below 20 in total', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 19; i++) typical.add('ann', 'coder-1', 100);
    assert.equal(typical.of('ann', 'coder-1'), undefined);
    typical.add('bob', 'coder-1', 100);
    assert.ok(typical.of('ann', 'coder-1')! >= 100);
    assert.ok(typical.of('cy', 'coder-1')! >= 100);
    assert.equal(typical.of('ann', 'coder-2'), undefined);
    for (let i = 0; i < 20; i++) typical.add('bob', 'coder-1', 10_000);
    assert.ok(typical.of('bob', 'coder-1')! >= 10_000);
  });

  it('follows a caller whose requests become cheaper', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 1000; i++) typical.add('ann', 'coder-1', 10 ** 9);
    for (let i = 0; i < 6000; i++) typical.add('ann', 'coder-1', 100);
    assert.ok(typical.of('ann', 'coder-1')! <= 110);
  });

  it('keeps names apart, whatever is in them', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 20; i++) typical.add('a b', 'c', 100);
    assert.equal(typical.of('a', 'b c'), undefined);
  });

  it('is evicted for the least recently seen users, which bounds memory', () => {
    const typical = new TypicalCosts();
    for (let i = 0; i < 20; i++) typical.add('first', 'rare', 100);
    for (let i = 0; i < 5000; i++) typical.add(`user-${i}`, `model-${i}`, 100);
    assert.equal(typical.of('first', 'rare'), undefined);
  });
});
