import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDate, parseDuration } from '../../engine/base/kit/times.ts';

test('a duration is a number and a unit from minutes to weeks', () => {
  assert.equal(parseDuration('90m'), 90 * 60_000);
  assert.equal(parseDuration('12h'), 12 * 3_600_000);
  assert.equal(parseDuration('30d'), 30 * 86_400_000);
  assert.equal(parseDuration('2w'), 14 * 86_400_000);
});

test('a text that only resembles a duration is rejected', () => {
  for (const text of ['', 'd', '0d', '-1d', '1.5d', '7', '7 d', '7D', '1y', '9999999d']) {
    assert.equal(parseDuration(text), undefined, text);
  }
});

test('a date is midnight UTC, and a time requires its zone', () => {
  assert.equal(parseDate('2027-01-31')?.toISOString(), '2027-01-31T00:00:00.000Z');
  assert.equal(parseDate('2027-01-31T18:30:00+02:00')?.toISOString(), '2027-01-31T16:30:00.000Z');
  assert.equal(parseDate('2027-01-31T18:30'), undefined);
});

test('a day that its month does not have is no date', () => {
  assert.equal(parseDate('2027-02-29'), undefined);
  assert.equal(parseDate('2028-02-29')?.toISOString(), '2028-02-29T00:00:00.000Z');
  assert.equal(parseDate('2027-13-01'), undefined);
  assert.equal(parseDate('tomorrow'), undefined);
});
