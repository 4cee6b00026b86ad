import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StreamRound } from '../measure.ts';
import { exitCodeOf, guard, renderGuard, verdictIsKnown, verdictOf } from './against.ts';

const round = (cpu_us: number): StreamRound => ({
  cpu_us,
  database_cpu_us: 50,
  peak_rss_bytes: 1e8,
  failed: 0,
  ttfb_p50_ms: 1,
  ttfb_p99_ms: 2,
  events: 100,
  events_lost: 0,
});
const times = (cpu_us: number, count = 12) => Array.from({ length: count }, () => round(cpu_us));
const before = times(100);

test('rejects a change that costs a tenth more, and accepts a small increase', () => {
  const worse = guard({ '0.5k': { before, governed: times(112) } });
  assert.equal(exitCodeOf(worse), 1);
  assert.equal(
    renderGuard('abc1234', worse),
    [
      'now / abc1234, at most 1.05',
      'worse        0.5k: CPU of the gateway: 1.12 ± 0.00',
      'worse        0.5k: CPU with PostgreSQL: 1.08 ± 0.00',
    ].join('\n'),
  );
  assert.equal(exitCodeOf(guard({ '0.5k': { before, governed: times(104) } })), 0);
});

test('too few rounds are inconclusive, and the guard reports it', () => {
  const rounds = { before: times(100, 5), governed: times(100, 5) };
  assert.equal(exitCodeOf(guard({ '0.5k': rounds })), 2);
  assert.equal(verdictIsKnown(rounds), false);
  assert.equal(verdictIsKnown({ before, governed: times(100) }), true);
});

test('a verdict requires agreement of the whole interval', () => {
  const end = fc.double({ min: 0.5, max: 2, noNaN: true });
  fc.assert(
    fc.property(end, end, (one, other) => {
      const [low, high] = [Math.min(one, other), Math.max(one, other)];
      const verdict = verdictOf({ value: (low + high) / 2, low, high, rounds: 12 });
      assert.equal(verdict === 'worse', low > 1.05);
      assert.equal(verdict === 'fine', high <= 1.05);
    }),
  );
});
