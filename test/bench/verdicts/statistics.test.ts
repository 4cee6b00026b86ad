import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { estimate, estimateRatio, isSteady, width } from '../statistics.ts';

const values = (least: number) => fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: least, maxLength: 40 });

test('an estimate lies in its interval, and the interval among the values', () => {
  fc.assert(
    fc.property(values(6), (rounds) => {
      const { value, low, high } = estimate(rounds);
      assert.ok(Math.min(...rounds) <= low && low <= value && value <= high && high <= Math.max(...rounds));
    }),
  );
});

test('five rounds are too few for an interval', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (rounds) => {
      assert.equal(width(estimate(rounds)), Number.POSITIVE_INFINITY);
    }),
  );
  assert.ok(Number.isNaN(estimate([]).value));
});

test('the order of rounds is nothing to an estimate', () => {
  fc.assert(
    fc.property(values(6), (rounds) => {
      assert.deepEqual(estimate(rounds.toReversed()), estimate(rounds));
    }),
  );
});

test('a ratio is independent of the duration of each round', () => {
  const round = fc.record({ noise: fc.integer({ min: 1, max: 1000 }), bare: fc.integer({ min: 1, max: 1000 }) });
  fc.assert(
    fc.property(fc.array(round, { minLength: 6, maxLength: 30 }), (rounds) => {
      const bare = rounds.map(({ noise, bare }) => noise * bare);
      const { value, low, high } = estimateRatio(
        bare.map((us) => us * 1.5),
        bare,
      );
      for (const one of [value, low, high]) assert.ok(Math.abs(one - 1.5) < 1e-9);
    }),
  );
});

test('a fifth of the rounds may be spoiled without moving an estimate out of the others', () => {
  const spoiled = fc.array(fc.integer({ min: -1_000_000, max: 1_000_000 }), { minLength: 3, maxLength: 3 });
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 12, maxLength: 12 }), spoiled, (good, bad) => {
      const { value } = estimate([...good, ...bad]);
      assert.ok(value >= Math.min(...good) - 1e-9 && value <= Math.max(...good) + 1e-9, `${value}`);
    }),
  );
});

test('a server is warm once three slices cost as much as the three before', () => {
  assert.deepEqual(
    [
      [900, 500, 300],
      [900, 500, 400, 300, 280, 270],
      [300, 290, 280, 285, 270, 282],
      [900, 300, 300, 300, 300, 299, 298],
    ].map(isSteady),
    [false, false, true, true],
  );
});

test('ignores a round without a response', () => {
  const { rounds } = estimateRatio([100, 110, 120], [100, 0, Number.NaN]);
  assert.equal(rounds, 1);
});

test('an interval contains the true value about 95 times of 100, also with a tenth of wild rounds', () => {
  let state = 7;
  const random = () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return (state + 0.5) / 2147483648;
  };
  const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
  const repeats = 1000;
  let covered = 0;
  for (let repeat = 0; repeat < repeats; repeat++) {
    const rounds = Array.from({ length: 20 }, () => 10 + normal() * (random() < 0.1 ? 8 : 1));
    const { low, high } = estimate(rounds);
    if (low <= 10 && 10 <= high) covered++;
  }
  assert.ok(covered >= 0.93 * repeats && covered <= 0.98 * repeats, `${covered} of ${repeats}`);
});
