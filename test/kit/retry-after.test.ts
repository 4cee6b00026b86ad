import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { retryAfterSeconds, retryAfterText, secondsUntil } from '../../engine/base/kit/retry-after.ts';

const NOW = Date.UTC(2026, 10, 25, 10);

describe("a server's retry hint", () => {
  for (const [text, seconds] of [
    ['30', 30],
    ['0.5', 0.5],
    [' 1.7 ', 1.7],
    ['6m0s', 360],
    ['20ms', 0.02],
    ['2m59.56s', 179.56],
    ['1h', 3600],
    ['Wed, 25 Nov 2026 10:00:30 GMT', 30],
    ['Wednesday, 25-Nov-26 10:00:30 GMT', 30],
    ['Wed Nov 25 10:00:30 2026', 30],
    ['2026-11-25T10:00:30Z', 30],
    ['2026-11-25T11:00:30.500+01:00', 30.5],
    [String(NOW / 1000 + 12), 12],
    [String(NOW + 12_000), 12],
    ['Wed, 25 Nov 2020 10:00:30 GMT', 0],
    ['', undefined],
    ['soon', undefined],
    ['soon 5', undefined],
    ['-1', undefined],
    ['1,5', undefined],
    ['NaN', undefined],
    ['Infinity', undefined],
    ['5 parsecs', undefined],
  ] as const) {
    test(`is read of ${JSON.stringify(text)}`, () => {
      const found = secondsUntil(text, NOW);
      assert.equal(found === undefined ? undefined : Math.round(found * 1000) / 1000, seconds);
    });
  }

  test('is found in any of its headers, or in the error', () => {
    const retry_info =
      '{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"30s"}]}}';
    for (const [headers, seconds, body] of [
      [{ 'retry-after': '7', 'retry-after-ms': '6500' }, 6.5],
      [{ 'retry-after-ms': 'x', 'retry-after': '7' }, 7],
      [{}, 30, retry_info],
      [{ 'retry-after': '7' }, 7, retry_info],
      [{ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '6m0s' }, 360],
      [{ 'x-ratelimit-remaining-tokens': '12', 'x-ratelimit-reset-tokens': '6m0s' }, undefined],
      [{ 'x-ratelimit-reset-tokens': '6m0s' }, undefined],
      [
        {
          'anthropic-ratelimit-requests-remaining': '0',
          'anthropic-ratelimit-requests-reset': '2026-11-25T10:00:05Z',
          'anthropic-ratelimit-tokens-remaining': '0',
          'anthropic-ratelimit-tokens-reset': '2026-11-25T10:00:09Z',
        },
        9,
      ],
      [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW + 3000) }, 3],
      [{ 'retry-after': 'soon' }, undefined],
    ] as const) {
      assert.equal(retryAfterSeconds(headers, NOW, body), seconds, JSON.stringify(headers));
    }
  });

  test('is whole seconds for clients, never too early and never negative', () => {
    const seconds = fc.double({ min: 0, max: 1e12, noNaN: true });
    fc.assert(
      fc.property(seconds, (wait) => {
        const text = retryAfterText(wait);
        assert.match(text, /^\d{1,5}$/);
        assert.ok(Number(text) >= Math.min(wait, 86_400));
      }),
    );
    assert.deepEqual([0, 0.02, 0.5, 1.7, 30, 1e9].map(retryAfterText), ['0', '1', '1', '2', '30', '86400']);
  });

  test('is read of nothing else, however it is spelled', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), (text) => {
        const found = secondsUntil(text, NOW);
        assert.ok(found === undefined || found >= 0);
      }),
    );
  });
});
