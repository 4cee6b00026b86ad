import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileWindow, windowProblem } from '../../engine/base/rules/compile.ts';

/** Windows, with moments inside and outside of them in 2026, UTC. */
const CASES: readonly (readonly [what: string, ...windows: [window: string, inside: string, outside?: string][]])[] = [
  [
    'contains its first minute and not its end',
    ['09:00-17:00', '06-01T09:00:00 06-01T16:59:59', '06-01T17:00:00 06-01T08:59:59'],
  ],
  [
    'is every day unless days are named',
    ['00:00-24:00', '06-01T12:00 06-02T12:00 06-03T12:00 06-04T12:00 06-05T12:00 06-06T12:00 06-07T12:00'],
  ],
  [
    'applies only on its days, also around the end of the week',
    ['mon-fri 09:00-17:00', '06-05T10:00', '06-06T10:00'],
    ['fri-mon 09:00-17:00', '06-07T10:00', '06-02T10:00'],
    ['Tue,sat-sun 09:00-17:00', '06-02T10:00'],
  ],
  [
    'over midnight belongs to the day it begins on',
    ['fri 22:00-06:00', '06-05T23:00 06-06T05:59', '06-06T06:00 06-05T05:00'],
    ['sun 22:00-06:00', '06-08T05:00'],
    ['fri 22:00-24:00', '06-05T23:59'],
  ],
  [
    'follows the clocks of its time zone, in summer and in winter, also with offsets that are not whole hours',
    ['mon-fri 09:00-17:00 Europe/Berlin', '06-01T07:00 12-01T08:00', '06-01T06:59 12-01T07:30'],
    ['09:00-09:30 Asia/Kathmandu', '06-01T03:15', '06-01T03:14'],
  ],
];

describe('a time window', () => {
  for (const [what, ...windows] of CASES) {
    test(what, () => {
      for (const [window, inside, outside = ''] of windows) {
        const moments = `${inside} ${outside}`.trim().split(' ');
        const contained = moments.filter((moment) => compileWindow(window)(Date.parse(`2026-${moment}Z`)));
        assert.equal(contained.join(' '), inside, window);
      }
    });
  }

  test('is skipped when clocks are set forward over it, and is twice as long when they are set back', () => {
    const night = compileWindow('02:00-03:00 Europe/Berlin');
    const minutes = (from: string) =>
      Array.from({ length: 24 * 60 }, (_, minute) => Date.parse(from) + minute * 60_000).filter(night).length;
    assert.equal(minutes('2026-03-28T23:00:00Z'), 0);
    assert.equal(minutes('2026-10-24T22:00:00Z'), 120);
    assert.equal(minutes('2026-06-01T00:00:00Z'), 60);
  });

  test('gives the same result whatever was evaluated before', () => {
    const berlin = compileWindow('09:00-17:00 Europe/Berlin');
    const tokyo = compileWindow('09:00-17:00 Asia/Tokyo');
    const moment = Date.parse('2026-06-01T07:30:00Z');
    const results = [berlin(moment), tokyo(moment), berlin(0), berlin(moment), tokyo(moment)];
    assert.deepEqual(results, [true, true, false, true, true]);
  });
});

test('an invalid window is rejected, with the wrong part', () => {
  const cases: readonly [text: string, problem: RegExp][] = [
    ['', /not days, times/],
    ['mon-fri 9:00-17:00', /no time "9:00"/],
    ['09:00-24:01', /no time "24:01"/],
    ['24:00-06:00', /no time "24:00"/],
    ['09:00', /not days, times/],
    ['09:00-09:00', /ends when it begins/],
    ['mon-tue-wed 09:00-10:00', /"mon-tue-wed" is not a day/],
    ['mo 09:00-10:00', /"mo" is not a day/],
    ['mon tue 09:00-10:00', /not days, times/],
    ['09:00-17:00 Mars/Olympus', /no time zone "Mars\/Olympus"/],
    ['09:00-17:00 +02:00', /no time zone/],
  ];
  for (const [text, problem] of cases) {
    assert.match(windowProblem(text) ?? 'none', problem, text);
    assert.throws(() => compileWindow(text), problem, text);
  }
});
