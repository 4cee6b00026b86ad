import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import type { Metrics, Reading } from './metrics.ts';

/** How often it is looked how late the event loop is, in milliseconds. */
const RESOLUTION_MS = 20;
const WINDOW_MS = 60_000;

type DelayHistogram = ReturnType<typeof monitorEventLoopDelay>;
type DelayMetric = 'nodejs.eventloop.delay.p50' | 'nodejs.eventloop.delay.p99' | 'nodejs.eventloop.delay.max';
type Delays = Readonly<Record<DelayMetric, number>>;

/** Tells what the runtime knows about this process. Nothing is watched before somebody reads it for the first time. */
export function observeProcess(metrics: Metrics): void {
  metrics.observe('process.uptime', () => [{ value: process.uptime() }]);
  metrics.observe('process.memory.usage', () => [{ value: process.memoryUsage.rss() }]);
  metrics.observe('process.cpu.time', () => {
    const { user, system } = process.cpuUsage();
    return [
      { value: user / 1e6, labels: { 'cpu.mode': 'user' } },
      { value: system / 1e6, labels: { 'cpu.mode': 'system' } },
    ];
  });
  metrics.observe('v8js.memory.heap.used', () =>
    getHeapSpaceStatistics().map(({ space_name, space_used_size }) => ({
      value: space_used_size,
      labels: { 'v8js.heap.space.name': space_name },
    })),
  );
  metrics.observe('gateway.heap.limit', () => [{ value: getHeapStatistics().heap_size_limit }]);
  metrics.observe('nodejs.eventloop.time', () => {
    const { active, idle } = performance.eventLoopUtilization();
    return [
      { value: active / 1000, labels: { 'nodejs.eventloop.state': 'active' } },
      { value: idle / 1000, labels: { 'nodejs.eventloop.state': 'idle' } },
    ];
  });
  const delays = watchDelays();
  for (const name of [
    'nodejs.eventloop.delay.p50',
    'nodejs.eventloop.delay.p99',
    'nodejs.eventloop.delay.max',
  ] as const)
    metrics.observe(name, () => delays(name));
}

/**
 * How late the event loop is: of this minute and the last the higher value, so that no reader misses a peak, however many there are
 * and however often they read.
 */
function watchDelays(): (name: DelayMetric) => Reading<DelayMetric>[] {
  let histogram: DelayHistogram | undefined;
  let last: Delays | undefined;
  let began_at = 0;
  return (name) => {
    const now = performance.now();
    if (histogram === undefined) {
      histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      histogram.enable();
      began_at = now;
    }
    if (histogram.count === 0 && last === undefined) return [];
    const current = delaysOf(histogram);
    const value = Math.max(current[name], last?.[name] ?? 0);
    if (histogram.count > 0 && now - began_at >= WINDOW_MS) {
      last = current;
      histogram.reset();
      began_at = now;
    }
    return [{ value }];
  };
}

function delaysOf(histogram: DelayHistogram): Delays {
  // What is measured is the whole time between two looks, in nanoseconds.
  const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000);
  return {
    'nodejs.eventloop.delay.p50': seconds(histogram.percentile(50)),
    'nodejs.eventloop.delay.p99': seconds(histogram.percentile(99)),
    'nodejs.eventloop.delay.max': seconds(histogram.max),
  };
}
