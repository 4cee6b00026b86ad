import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatSpan } from '../../../engine/domain/budget/limits/limit-statuses.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test('a span is shown in its two largest consecutive units', () => {
  const cases: readonly (readonly [number, string])[] = [
    [0, 'less than a minute'],
    [59_999, 'less than a minute'],
    [MINUTE, '1 minute'],
    [61 * MINUTE, '1 hour 1 minute'],
    [2 * HOUR, '2 hours'],
    [DAY + 5 * MINUTE, '1 day'],
    [3 * DAY + 4 * HOUR + 59 * MINUTE, '3 days 4 hours'],
  ];
  for (const [ms, words] of cases) assert.equal(formatSpan(ms), words);
});
