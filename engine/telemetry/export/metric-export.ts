import { setTimeout } from 'node:timers/promises';
import {
  AggregationTemporality,
  type PeriodicExportingMetricReader,
  PeriodicExportingMetricReader as Reader,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics';
import type { MetricRegistry } from '../metric-registry.ts';
import type { Sent } from '../sent.ts';
import { openCollector, type Serializer, sendOtlp } from './collector.ts';
import type { QueueEvents } from './export-queue.ts';
import { createMetricProducer } from './metric-producer.ts';
import type { Scope } from './readable-span.ts';
import type { Target } from './settings.ts';

/** What sends metrics again and again until it is shut down. */
export interface MetricExport {
  readonly reader: PeriodicExportingMetricReader;
  /** From now on what was not taken is not sent again. */
  hurry(): void;
  /** Breaks off what is on its way. */
  close(): void;
}

/** How often one collection of metrics is sent. What was not taken is in the next one, where all is told since the start. */
const SENDS_MAX = 3;
const PAUSE_MS = 1000;

/** Opens the way of metrics to their collector. Raises Error where a file of the target cannot be used. */
export function openMetricExport(options: {
  readonly target: Target;
  readonly serializer: Serializer<ResourceMetrics>;
  readonly registry: MetricRegistry;
  readonly scope: Scope;
  readonly interval_ms: number;
  readonly temporality: 'cumulative' | 'delta';
  readonly events: QueueEvents;
}): MetricExport {
  const { target, serializer, registry, scope, interval_ms, events } = options;
  const collector = openCollector(target);
  const temporality =
    options.temporality === 'delta' ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
  const hurry = new AbortController();

  async function send(metrics: ResourceMetrics): Promise<void> {
    let answer: Sent = { outcome: 'failed', why: 'it was not asked' };
    for (let n = 1; n <= SENDS_MAX; n++) {
      answer = await sendOtlp(collector, serializer, () => metrics);
      if (answer.outcome !== 'failed' || hurry.signal.aborted || (answer.retry_after_ms ?? 0) > PAUSE_MS * n) break;
      if (n < SENDS_MAX) await pause(PAUSE_MS * n, hurry.signal);
    }
    const points = pointsOf(metrics);
    if (answer.outcome === 'taken') {
      if (answer.rejected > 0) events.dropped(Math.min(answer.rejected, points), 'refused');
    } else events.dropped(points, answer.outcome);
    events.sent(points, answer);
  }

  const reader = new Reader({
    exporter: {
      // What went wrong was told; the reader would only tell it again.
      export: (metrics, done) => void send(metrics).finally(() => done({ code: 0 })),
      forceFlush: async () => {},
      shutdown: async () => {},
      selectAggregationTemporality: () => temporality,
    },
    exportIntervalMillis: interval_ms,
    exportTimeoutMillis: interval_ms,
    metricProducers: [createMetricProducer({ registry, scope, temporality })],
  });
  return {
    reader,
    hurry: () => hurry.abort(),
    close: () => collector.close(),
  };
}

/** Ends before its time when the signal is given. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await setTimeout(milliseconds, undefined, { signal, ref: false }).catch(() => {});
}

function pointsOf({ scopeMetrics }: ResourceMetrics): number {
  let points = 0;
  for (const { metrics } of scopeMetrics) for (const { dataPoints } of metrics) points += dataPoints.length;
  return points;
}
