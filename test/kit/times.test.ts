import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { parseDate, parseDuration } from '../../engine/base/kit/times.ts';
import { formatInZone, formatMinuteFrom, startOfDate } from '../../engine/base/kit/zoned-time.ts';

test('a duration is a number and a unit from minutes to weeks', () => {
  const found = ['90m', '12h', '30d', '2w'].map(parseDuration);
  assert.deepEqual(found, [90 * 60_000, 12 * 3_600_000, 30 * 86_400_000, 14 * 86_400_000]);
  for (const text of ['', 'd', '0d', '-1d', '1.5d', '7', '7 d', '7D', '1y', '9999999d'])
    assert.equal(parseDuration(text), undefined, text);
});

test('a date is midnight UTC, a time requires its zone, and a day that its month does not have is none', () => {
  for (const [text, expected] of [
    ['2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['2027-01-31T18:30:00+02:00', '2027-01-31T16:30:00.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
  ] as const)
    assert.equal(parseDate(text)?.toISOString(), expected);
  for (const text of ['2027-01-31T18:30', '2027-02-29', '2027-13-01', 'tomorrow'])
    assert.equal(parseDate(text), undefined);
});

describe('a day of a time zone', () => {
  for (const [day, zone, begins] of [
    ['2026-03-14', 'UTC', '2026-03-14T00:00:00.000Z'],
    ['2026-03-14', 'Europe/Berlin', '2026-03-13T23:00:00.000Z'],
    // On the day of the change the clock still shows winter time at midnight.
    ['2026-03-29', 'Europe/Berlin', '2026-03-28T23:00:00.000Z'],
    ['2026-03-30', 'Europe/Berlin', '2026-03-29T22:00:00.000Z'],
    ['2026-03-14', 'Asia/Kolkata', '2026-03-13T18:30:00.000Z'],
    ['2026-03-14', 'America/Los_Angeles', '2026-03-14T07:00:00.000Z'],
    // Where the clock goes from midnight to one, the day begins at one.
    ['2026-04-24', 'Africa/Cairo', '2026-04-23T22:00:00.000Z'],
  ] as const) {
    it(`${day} begins at ${begins} in ${zone}`, () => assert.equal(startOfDate(day, zone)?.toISOString(), begins));
  }

  for (const text of ['2026-02-30', '2026-3-14', 'friday', '2026-03-14T00:00:00Z', '']) {
    it(`${JSON.stringify(text)} is none`, () => assert.equal(startOfDate(text, 'UTC'), undefined));
  }
});

describe('a moment', () => {
  it('is shown to the minute with the name of its zone', () => {
    assert.equal(formatInZone(Date.parse('2026-03-13T23:00:59Z'), 'Europe/Berlin'), '2026-03-14 00:00 Europe/Berlin');
  });

  it('is rounded up if it must not be too early', () => {
    assert.equal(formatMinuteFrom(Date.parse('2026-03-13T23:00:01Z'), 'Asia/Kolkata'), '2026-03-14 04:31 Asia/Kolkata');
    assert.equal(formatMinuteFrom(Date.parse('2026-03-13T23:00:00Z'), 'UTC'), '2026-03-13 23:00 UTC');
  });
});
