import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  feeToPico,
  formatUsd,
  multiplyPrice,
  nanoToUsd,
  priceTokens,
  priceToPico,
  usdToNano,
} from '../../engine/base/kit/money.ts';

const safe = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

describe('money', () => {
  it('reads decimals exactly, not as the nearest double', () => {
    assert.equal(usdToNano(0.1), 100_000_000);
    assert.equal(usdToNano(1.005), 1_005_000_000);
    assert.equal(usdToNano(1e-9), 1);
    assert.equal(usdToNano(1e6), 1_000_000_000_000_000);
    assert.equal(usdToNano(-0), 0);
    assert.equal(priceToPico(3), 3_000_000);
    assert.equal(priceToPico(0.3), 300_000);
    assert.equal(priceToPico(0.000001), 1);
  });

  it('rejects more decimals than it supports, with the number supported', () => {
    assert.throws(() => usdToNano(0.0000000001), /an amount in USD has at most 9 decimals, 1e-10 has more/);
    assert.throws(() => usdToNano(1.0000000001), RangeError);
    assert.throws(
      () => priceToPico(0.0000001),
      /a price in USD per million tokens has at most 6 decimals, 1e-7 has more/,
    );
  });

  it('rejects what is no amount of money', () => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1e7, 1e300]) {
      assert.throws(() => usdToNano(value), RangeError, String(value));
    }
  });

  it('formats without float noise and without trailing zeros', () => {
    assert.equal(formatUsd(0), '0');
    assert.equal(formatUsd(1), '0.000000001');
    assert.equal(formatUsd(12_500_000_000), '12.5');
    assert.equal(formatUsd(-300_000_000), '-0.3');
    assert.equal(formatUsd(2n ** 70n), '1180591620717.411303424');
    assert.equal(nanoToUsd(100_000_000 + 200_000_000), 0.3);
  });

  it('parses every amount it formatted', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 15 }), (nano) => {
        assert.equal(usdToNano(nanoToUsd(nano)), nano);
        assert.equal(nanoToUsd(nano), Number(formatUsd(nano)));
        assert.equal(nanoToUsd(BigInt(-nano)), nanoToUsd(0 - nano));
      }),
    );
    fc.assert(
      fc.property(safe, (nano) => {
        const [whole, fraction = ''] = formatUsd(nano).split('.');
        assert.equal(BigInt(whole + fraction.padEnd(9, '0')), BigInt(nano));
      }),
    );
  });

  it('rounds a cost up once, however many prices it sums', () => {
    assert.equal(priceTokens([1, 1, 1], [300, 300, 300]), 1);
    assert.equal(priceTokens([1], [1001]), 2);
    assert.equal(priceTokens([0, 0], [3_000_000, 15_000_000]), 0);
    assert.equal(priceTokens([1000, 500], [3_000_000, 15_000_000]), 10_500_000);
  });

  it('equals exact arithmetic for any counts and prices that fit', () => {
    const term = fc.tuple(fc.integer({ min: 0, max: 10 ** 9 }), fc.integer({ min: 0, max: 10 ** 9 }));
    fc.assert(
      fc.property(fc.array(term, { minLength: 1, maxLength: 5 }), (terms) => {
        const pico = terms.reduce((sum, [count, price]) => sum + BigInt(count) * BigInt(price), 0n);
        const cost = priceTokens(
          terms.map(([count]) => count),
          terms.map(([, price]) => price),
        );
        assert.equal(BigInt(cost), (pico + 999n) / 1000n);
      }),
    );
  });

  it('rejects a cost beyond 2^53 nano-USD and counts that are not whole numbers', () => {
    assert.throws(() => priceTokens([Number.MAX_SAFE_INTEGER], [10 ** 6]), /too large/);
    for (const count of [-1, 0.5, Number.NaN, 2 ** 53]) assert.throws(() => priceTokens([count], [1]), RangeError);
  });

  it('keeps fees of tools in pico-USD per use', () => {
    assert.equal(feeToPico(10), 10_000_000_000);
    assert.equal(feeToPico(0.000000001), 1);
    assert.throws(() => feeToPico(1e-10), /a fee in USD per 1,000 uses has at most 9 decimals, 1e-10 has more/);
  });

  it('multiplies prices as decimals and rounds up once, to the next pico-USD', () => {
    assert.equal(multiplyPrice(3_000_000, []), 3_000_000);
    assert.equal(multiplyPrice(3_000_000, [0.85]), 2_550_000);
    assert.equal(multiplyPrice(3_000_000, [1.1, 1.1]), 3_630_000, 'and not 3630001, as doubles would have it');
    assert.equal(multiplyPrice(1, [0.5]), 1);
    assert.equal(multiplyPrice(3, [0.5, 0.5]), 1, '0.75 rounded up once, and not 1.5 first');
    assert.equal(multiplyPrice(7, [1e-7]), 1);
    assert.equal(multiplyPrice(7, [0]), 0);
  });

  it('equals exact arithmetic for any price and multipliers', () => {
    const hundredths = fc.integer({ min: 0, max: 10_000 });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), hundredths, hundredths, (pico, first, second) => {
        const exact = (BigInt(pico) * BigInt(first) * BigInt(second) + 9999n) / 10_000n;
        const multiply = () => multiplyPrice(pico, [first / 100, second / 100]);
        if (exact <= BigInt(Number.MAX_SAFE_INTEGER)) assert.equal(BigInt(multiply()), exact);
        else assert.throws(multiply, /too large/);
      }),
    );
  });

  it('rejects an invalid multiplier', () => {
    for (const multiplier of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => multiplyPrice(1, [multiplier]), /a multiplier of prices cannot be/);
    }
    assert.throws(() => multiplyPrice(10 ** 12, [100, 100]), /cannot be multiplied by 100 and 100: too large/);
  });
});
