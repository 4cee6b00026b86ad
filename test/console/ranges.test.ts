import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ReportTime } from '../../engine/base/contract/windows.ts';
import { dayAfter, firstDay, periodOf, rangeOf, today } from '../../engine/edge/console/ranges.ts';
import {
  beginningOfStep,
  periodOfStep,
  roundSteps,
  stepOf,
  stepsBetween,
  stepWords,
} from '../../engine/edge/console/steps.ts';

const BERLIN = 'Europe/Berlin';

describe('the time of a page of usage', () => {
  test('is defined by its address: a range by name, or a beginning and an end', () => {
    const now = today(BERLIN);
    assert.deepEqual(periodOf({}, BERLIN), { since: dayAfter(now, -6) });
    assert.deepEqual(periodOf({ range: 'today' }, BERLIN), { since: now });
    assert.deepEqual(periodOf({ range: '30d' }, BERLIN), { since: dayAfter(now, -29) });
    assert.deepEqual(periodOf({ range: 'month' }, BERLIN), { since: `${now.slice(0, 7)}-01` });
    assert.deepEqual(periodOf({ since: '2027-01-31T18:00:00Z', range: 'today' }, BERLIN), {
      since: '2027-01-31T18:00:00Z',
    });
    assert.deepEqual(periodOf({ until: '2027-02-01' }, BERLIN), { until: '2027-02-01' });
    assert.equal(rangeOf({ range: 'for ever' }), '7d');
  });

  test('is cut into bars that are neither few nor many', () => {
    const until = '2027-03-01T00:00:00Z';
    const steps = ['2027-02-27', '2027-02-01', '2026-09-01', '2025-01-01'].map((since) => stepOf(since, until));
    assert.deepEqual(steps, ['hour', 'day', 'week', 'month']);
    assert.equal(stepOf(null, until), 'month');
  });

  test('has a bar for each step of the time zone, those without requests too, and none after its end', () => {
    // From midnight in Berlin, in the week in which clocks go forward there.
    const [since, until] = ['2027-03-26T23:00:00Z', '2027-03-29T22:00:00Z'];
    assert.deepEqual(stepsBetween(since, until, 'day', BERLIN), ['2027-03-27', '2027-03-28', '2027-03-29']);
    assert.deepEqual(stepsBetween(since, until, 'week', BERLIN), ['2027-03-22', '2027-03-29']);
    assert.deepEqual(stepsBetween(since, until, 'month', BERLIN), ['2027-03-01']);
    assert.equal(stepsBetween(since, until, 'hour', BERLIN).length, 72);
    assert.deepEqual(stepsBetween('2026-12-30T00:00:00Z', '2027-01-05T00:00:00Z', 'week', 'UTC'), [
      '2026-12-28',
      '2027-01-04',
    ]);
  });

  test('is narrowed down to one bar by its name', () => {
    const periodOf = (name: string, step: ReportTime) => periodOfStep(beginningOfStep(name, step), step);
    assert.deepEqual(periodOf('2027-02-28', 'day'), { since: '2027-02-28', until: '2027-03-01' });
    assert.deepEqual(periodOf('2026-W53', 'week'), { since: '2026-12-28', until: '2027-01-04' });
    assert.deepEqual(periodOf('2026-12', 'month'), { since: '2026-12-01', until: '2027-01-01' });
    assert.equal(periodOf('2026-12-01T05:00', 'hour'), undefined);
    assert.deepEqual([firstDay('week', '2027-01-10'), firstDay('week', '2027-01-04')], ['2027-01-04', '2027-01-04']);
  });

  test('is described in few words', () => {
    assert.deepEqual(stepWords('2027-01-31T05:00', 'hour'), { name: '05:00', title: 'Sun, Jan 31, 2027, 05:00' });
    assert.deepEqual(stepWords('2027-01-04', 'week'), { name: 'Jan 4', title: 'Week of Mon, Jan 4, 2027' });
  });
});

test('lines across a chart are at round values, up to the highest bar', () => {
  assert.deepEqual(roundSteps(6.4), [0, 2, 4, 6, 8]);
  assert.deepEqual(roundSteps(1000), [0, 250, 500, 750, 1000]);
  assert.deepEqual(roundSteps(0), [0, 1]);
  for (const highest of [1e-9, 1e-7, 0.000_13, 0.07, 0.09, 0.7, 0.9, 3, 9, 10, 99.99, 1000, 12_345_678]) {
    const steps = roundSteps(highest);
    assert.ok(steps.at(-1)! >= highest * 0.999_999 && steps.length >= 3 && steps.length <= 6, `${highest}: ${steps}`);
  }
});
