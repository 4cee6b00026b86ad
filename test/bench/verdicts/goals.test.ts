import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BodyRound, StreamRound } from '../measure.ts';
import { judge, ratioIsKnown } from './goals.ts';

const latency = (p50_ms: number) => ({ p50_ms, p99_ms: p50_ms + 1 });
const body = (cpu_us: number, database_cpu_us: number, p50_ms: number): BodyRound => ({
  cpu_us,
  database_cpu_us,
  peak_rss_bytes: 1e8,
  failed: 0,
  requests: 100,
  per_second: 1000,
  single: latency(p50_ms),
  parallel: latency(10),
});
const stream = (cpu_us: number, ttfb_p50_ms: number): StreamRound => ({
  cpu_us,
  database_cpu_us: 0,
  peak_rss_bytes: 1e8,
  failed: 0,
  ttfb_p50_ms,
  ttfb_p99_ms: 5,
  events: 1000,
  events_lost: 0,
});
const rounds = <Round>(round: Round, count = 10) => Array.from({ length: count }, () => round);
const missed = (measured: Parameters<typeof judge>[0]) =>
  judge(measured)
    .filter(({ met }) => !met)
    .map(({ goal, measured }) => `${goal}: ${measured}`);

const bare = rounds(body(100, 0, 1));

test('a gateway at the price of the bare hop meets the goals', () => {
  const governed = rounds(body(100, 50, 1.3));
  const streams = { bare: rounds(stream(10, 2)), governed: rounds(stream(12, 3)) };
  assert.deepEqual(missed({ bodies: { '0.5k': { bare, governed }, '100k': { bare, governed } }, streams }), []);
});

test('every goal can be missed by itself', () => {
  const governed = (...round: Parameters<typeof body>) => ({
    bodies: { '0.5k': { bare, governed: rounds(body(...round)) } },
  });
  assert.deepEqual(missed(governed(110, 0, 1)), ['0.5k: CPU, governed / bare, at most 1: 1.10 ± 0.00']);
  assert.deepEqual(missed(governed(90, 70, 1)), [
    '0.5k: CPU, (governed + PostgreSQL) / bare, at most 1.5: 1.60 ± 0.00',
  ]);
  assert.deepEqual(missed(governed(90, 0, 1.5)), [
    '0.5k, one connection: median over bare, at most 0.4 ms: 0.50 ± 0.00 ms',
  ]);
  const streams = (governed: StreamRound) => ({
    bodies: {},
    streams: { bare: rounds(stream(10, 2)), governed: rounds(governed) },
  });
  assert.equal(missed(streams(stream(13, 2))).length, 1);
  assert.equal(missed(streams(stream(10, 3.1))).length, 1);
  assert.deepEqual(missed(streams({ ...stream(10, 2), events_lost: 1 })), ['512 streams: events lost, none: 10']);
  assert.deepEqual(missed(streams({ ...stream(10, 2), peak_rss_bytes: 2.2e8 })), [
    '512 streams: memory, under 200 MiB: 210 MiB',
  ]);
});

test('a ratio is known when its interval is narrow, which takes more than a few rounds', () => {
  const governed = rounds(body(150, 0, 1));
  assert.equal(ratioIsKnown({ bare, governed }), true);
  assert.equal(ratioIsKnown({ bare: bare.slice(0, 5), governed: governed.slice(0, 5) }), false);
  const noisy = governed.map((round, at) => ({ ...round, cpu_us: round.cpu_us + at * 10 }));
  assert.equal(ratioIsKnown({ bare, governed: noisy }), false);
});
