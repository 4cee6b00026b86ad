import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileWindow, windowProblem } from '../../engine/base/rules/compile.ts';

const inWindow = (window: string, moment: string) => compileWindow(window)(Date.parse(moment));

describe('a time window', () => {
  test('contains its first minute and not its end', () => {
    assert.equal(inWindow('09:00-17:00', '2026-06-01T09:00:00Z'), true);
    assert.equal(inWindow('09:00-17:00', '2026-06-01T16:59:59Z'), true);
    assert.equal(inWindow('09:00-17:00', '2026-06-01T17:00:00Z'), false);
    assert.equal(inWindow('09:00-17:00', '2026-06-01T08:59:59Z'), false);
  });

  test('is every day unless days are named', () => {
    for (const day of ['01', '02', '03', '04', '05', '06', '07']) {
      assert.equal(inWindow('00:00-24:00', `2026-06-${day}T12:00:00Z`), true);
    }
  });

  test('applies only on its days, also around the end of the week', () => {
    assert.equal(inWindow('mon-fri 09:00-17:00', '2026-06-05T10:00:00Z'), true);
    assert.equal(inWindow('mon-fri 09:00-17:00', '2026-06-06T10:00:00Z'), false);
    assert.equal(inWindow('fri-mon 09:00-17:00', '2026-06-07T10:00:00Z'), true);
    assert.equal(inWindow('fri-mon 09:00-17:00', '2026-06-02T10:00:00Z'), false);
    assert.equal(inWindow('Tue,sat-sun 09:00-17:00', '2026-06-02T10:00:00Z'), true);
  });

  test('over midnight belongs to the day it begins on', () => {
    assert.equal(inWindow('fri 22:00-06:00', '2026-06-05T23:00:00Z'), true);
    assert.equal(inWindow('fri 22:00-06:00', '2026-06-06T05:59:00Z'), true);
    assert.equal(inWindow('fri 22:00-06:00', '2026-06-06T06:00:00Z'), false);
    assert.equal(inWindow('fri 22:00-06:00', '2026-06-05T05:00:00Z'), false);
    assert.equal(inWindow('sun 22:00-06:00', '2026-06-08T05:00:00Z'), true);
    assert.equal(inWindow('fri 22:00-24:00', '2026-06-05T23:59:00Z'), true);
  });

  test('follows the clocks of its time zone, in summer and in winter', () => {
    const window = 'mon-fri 09:00-17:00 Europe/Berlin';
    assert.equal(inWindow(window, '2026-06-01T07:00:00Z'), true);
    assert.equal(inWindow(window, '2026-06-01T06:59:00Z'), false);
    assert.equal(inWindow(window, '2026-12-01T07:30:00Z'), false);
    assert.equal(inWindow(window, '2026-12-01T08:00:00Z'), true);
  });

  test('is skipped when clocks are set forward over it, and is twice as long when they are set back', () => {
    const night = compileWindow('02:00-03:00 Europe/Berlin');
    const minutes = (from: string) =>
      Array.from({ length: 24 * 60 }, (_, minute) => Date.parse(from) + minute * 60_000).filter(night).length;
    assert.equal(minutes('2026-03-28T23:00:00Z'), 0);
    assert.equal(minutes('2026-10-24T22:00:00Z'), 120);
    assert.equal(minutes('2026-06-01T00:00:00Z'), 60);
  });

  test('supports zones with offsets that are not whole hours', () => {
    assert.equal(inWindow('09:00-09:30 Asia/Kathmandu', '2026-06-01T03:15:00Z'), true);
    assert.equal(inWindow('09:00-09:30 Asia/Kathmandu', '2026-06-01T03:14:00Z'), false);
  });

  test('gives the same result whatever was evaluated before', () => {
    const berlin = compileWindow('09:00-17:00 Europe/Berlin');
    const tokyo = compileWindow('09:00-17:00 Asia/Tokyo');
    const moment = Date.parse('2026-06-01T07:30:00Z');
    assert.deepEqual(
      [berlin(moment), tokyo(moment), berlin(0), berlin(moment), tokyo(moment)],
      [true, true, false, true, true],
    );
  });
});

test('an invalid window is rejected, with the wrong part', () => {
  const cases: readonly [text: string, problem: RegExp][] = [
    ['', /not days, times/],
    ['mon-fri', /not days, times/],
    ['mon-fri 9:00-17:00', /no time "9:00"/],
    ['09:00-24:01', /no time "24:01"/],
    ['24:00-06:00', /no time "24:00"/],
    ['09:60-10:00', /no time "09:60"/],
    ['09:00', /not days, times/],
    ['09:00-10:00-11:00', /not days, times/],
    ['09:00-09:00', /ends when it begins/],
    ['mon-tue-wed 09:00-10:00', /"mon-tue-wed" is not a day/],
    ['mo 09:00-10:00', /"mo" is not a day/],
    ['mon, 09:00-10:00', /"" is not a day/],
    ['mon tue 09:00-10:00', /not days, times/],
    ['09:00 - 17:00', /not days, times/],
    ['09:00-17:00 Mars/Olympus', /no time zone "Mars\/Olympus"/],
    ['09:00-17:00 +02:00', /no time zone/],
  ];
  for (const [text, problem] of cases) {
    assert.match(windowProblem(text)?.problem ?? 'none', problem, text);
    assert.throws(() => compileWindow(text), problem, text);
  }
});
