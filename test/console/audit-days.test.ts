import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginningOf } from '../../engine/console/ranges.ts';

test('a day begins at midnight of its time zone, also where clocks are put on or back that day', () => {
  for (const [day, zone, days, moment] of [
    ['2027-01-31', 'UTC', 0, '2027-01-31T00:00:00.000Z'],
    ['2027-01-31', 'UTC', 1, '2027-02-01T00:00:00.000Z'],
    ['2027-07-01', 'Europe/Berlin', 0, '2027-06-30T22:00:00.000Z'],
    ['2027-03-28', 'Europe/Berlin', 0, '2027-03-27T23:00:00.000Z'],
    ['2027-03-28', 'Europe/Berlin', 1, '2027-03-28T22:00:00.000Z'],
    ['2027-10-31', 'Europe/Berlin', 1, '2027-10-31T23:00:00.000Z'],
    ['2027-01-31', 'Asia/Kathmandu', 0, '2027-01-30T18:15:00.000Z'],
    ['2027-01-31', 'America/Los_Angeles', 0, '2027-01-31T08:00:00.000Z'],
    ['2027-01-31', 'Pacific/Kiritimati', 0, '2027-01-30T10:00:00.000Z'],
  ] as const) {
    assert.equal(beginningOf(day, zone, days), moment, `${day} ${zone} ${days}`);
  }
});

test('what is no day stays as it is', () => {
  assert.equal(beginningOf(undefined, 'UTC'), undefined);
  assert.equal(beginningOf('2027-01-31T18:00:00Z', 'Europe/Berlin'), '2027-01-31T18:00:00Z');
  assert.equal(beginningOf('2027-99-99', 'UTC'), '2027-99-99');
});
