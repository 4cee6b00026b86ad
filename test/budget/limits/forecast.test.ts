import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { forecastOf, type Past } from '../../../engine/domain/budget/limits/limit-statuses.ts';

const HOUR = 3_600_000;
const NOON: Past = {
  ...{ spent: 20, limit: 50, since: 0, resets_at: 24 * HOUR, now: 12 * HOUR },
  ...{ before: 0, windows_before: 0, window: 'day' },
};

describe('when a limit is used up', () => {
  test('uses the pace of its window, which is named', () => {
    assert.deepEqual(forecastOf(NOON), {
      outcome: 'lasts',
      words: 'If it goes on as since the day began, 80 % is used when it resets.',
      ends_at: null,
    });
    assert.deepEqual(forecastOf({ ...NOON, spent: 40 }), {
      outcome: 'ends',
      ends_at: new Date(15 * HOUR),
      words: 'If it goes on as since the day began, nothing is left in 3 hours, 9 hours before it resets.',
    });
  });

  test('uses the previous windows where those were faster', () => {
    const busy = { ...NOON, before: 7 * 96, windows_before: 7 };
    assert.deepEqual(forecastOf(busy), {
      outcome: 'ends',
      ends_at: new Date(19.5 * HOUR),
      words:
        'If it goes on as in the 7 days before, nothing is left in 7 hours 30 minutes, 4 hours 30 minutes before it resets.',
    });
    assert.match(forecastOf({ ...NOON, before: 96, windows_before: 1 }).words, /^If it goes on as in the day before,/);
  });

  test('ignores a window that has hardly begun, unless there is nothing else', () => {
    const early = { ...NOON, now: HOUR, spent: 10 };
    assert.equal(forecastOf(early).outcome, 'ends');
    assert.deepEqual(forecastOf({ ...early, before: 24, windows_before: 2 }), {
      outcome: 'lasts',
      words: 'If it goes on as in the 2 days before, 43 % is used when it resets.',
      ends_at: null,
    });
  });

  test('is now where nothing is left', () => {
    assert.deepEqual(forecastOf({ ...NOON, spent: 50 }), {
      outcome: 'none_left',
      ends_at: new Date(12 * HOUR),
      words: 'Nothing is left until it resets, in 12 hours.',
    });
    assert.equal(forecastOf({ ...NOON, limit: 0, spent: 0 }).outcome, 'none_left');
  });

  test('lies between now and the reset, or not at all', () => {
    const amount = fc.integer({ min: 0, max: 1e15 });
    const past = fc.record({ spent: amount, limit: amount, before: amount, windows_before: fc.nat(7) });
    fc.assert(
      fc.property(past, fc.integer({ min: 0, max: 24 * HOUR - 1 }), (drawn, now) => {
        const { outcome, ends_at, words } = forecastOf({ ...NOON, ...drawn, now });
        assert.equal(ends_at === null, outcome === 'lasts');
        if (ends_at !== null) assert.ok(Number(ends_at) >= now && Number(ends_at) <= NOON.resets_at);
        assert.doesNotMatch(words, /NaN|Infinity|undefined|-/);
      }),
    );
  });
});
