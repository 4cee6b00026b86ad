import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frozenClock } from '../../engine/kit/clock.ts';
import { CallerRates } from '../../engine/telemetry/caller-rates.ts';

test('a caller may send a burst of telemetry, then so much a second, whatever others do', () => {
  const clock = frozenClock('2026-11-23T06:00:00Z');
  const rates = new CallerRates(clock);
  rates.begin('ada');
  rates.count('ada', 40 * 1024 * 1024);
  assert.throws(
    () => rates.begin('ada'),
    (error: { code: string; headers: Record<string, string> }) => {
      assert.equal(error.code, 'rate_limit_exceeded');
      assert.equal(error.headers['retry-after'], '17');
      return true;
    },
  );
  rates.begin('bob');
  clock.advance(17_000);
  rates.begin('ada');
  for (let n = 0; n < 32; n++) rates.begin('bob');
});
