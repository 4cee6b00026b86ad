import { type HrTime, ValueType } from '@opentelemetry/api';
import { emptyResource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
  type ScopeMetrics,
} from '@opentelemetry/sdk-metrics';
import type { MeasuredMetric, MetricRegistry, Series } from '../metric-registry.ts';
import { hrTime } from './readable-span.ts';

/** How the metrics of a registry are told. */
export interface MetricProducerOptions {
  readonly registry: Pick<MetricRegistry, 'measure' | 'began_at'>;
  /** Who tells them. */
  readonly scope: ScopeMetrics['scope'];
  /** Whether counters and histograms tell all since the process began, or what came since the last time; cumulative without it. */
  readonly temporality?: AggregationTemporality;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}

type Totals = Pick<Series, 'sum' | 'count' | 'buckets'>;

/** What a reader of deltas, of which there is one, was told last. */
interface Told {
  readonly of_series: WeakMap<Series, Totals>;
  since: number;
}

/** By registry: a producer that is made anew by a reload goes on where the one before it ended. */
const TOLD = new WeakMap<MetricProducerOptions['registry'], Told>();

function toldOf(registry: MetricProducerOptions['registry']): Told {
  const told = TOLD.get(registry) ?? { of_series: new WeakMap(), since: registry.began_at };
  TOLD.set(registry, told);
  return told;
}

/** The metrics of a registry in the shapes of the SDK, for a reader of metrics (`metricProducers`). */
export function createMetricProducer(options: MetricProducerOptions): MetricProducer {
  const { registry, scope, temporality = AggregationTemporality.CUMULATIVE, now = Date.now } = options;
  const delta = temporality === AggregationTemporality.DELTA;
  const told = delta ? toldOf(registry) : undefined;

  /** What is to be told of a series; `undefined` when nothing came since the last time. */
  function totalsOf(series: Series): Totals | undefined {
    if (told === undefined) return { sum: series.sum, count: series.count, buckets: [...series.buckets] };
    const { sum, count, buckets } = told.of_series.get(series) ?? { sum: 0, count: 0, buckets: [] };
    if (series.sum === sum && series.count === count) return undefined;
    told.of_series.set(series, { sum: series.sum, count: series.count, buckets: [...series.buckets] });
    return {
      sum: series.sum - sum,
      count: series.count - count,
      buckets: series.buckets.map((n, at) => n - (buckets[at] ?? 0)),
    };
  }

  function dataOf({ name, spec, series }: MeasuredMetric, startTime: HrTime, endTime: HrTime): MetricData {
    const { kind, unit, meaning, bounds = [] } = spec;
    const descriptor = { name, unit, description: meaning, valueType: ValueType.DOUBLE };
    if (kind === 'gauge') {
      const dataPoints = series.map(({ labels, sum }) => ({ startTime, endTime, attributes: labels, value: sum }));
      const aggregationTemporality = AggregationTemporality.CUMULATIVE;
      return { descriptor, aggregationTemporality, dataPointType: DataPointType.GAUGE, dataPoints };
    }
    const points = <T>(of: (totals: Totals) => T): DataPoint<T>[] =>
      series.flatMap((one) => {
        const totals = totalsOf(one);
        if (totals === undefined) return [];
        return [{ startTime, endTime, attributes: one.labels, value: of(totals) }];
      });
    const shared = { descriptor, aggregationTemporality: temporality };
    if (kind === 'counter') {
      const dataPoints = points(({ sum }) => sum);
      return { ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
    }
    const dataPoints = points(({ sum, count, buckets }) => ({
      sum,
      count,
      buckets: { boundaries: [...bounds], counts: buckets },
    }));
    return { ...shared, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }

  const resource = emptyResource();
  return {
    async collect() {
      const ended = now();
      const metrics = registry
        .measure()
        .map((metric) => dataOf(metric, hrTime(told?.since ?? registry.began_at), hrTime(ended)))
        .filter(({ dataPoints }) => dataPoints.length > 0);
      if (told !== undefined) told.since = ended;
      const scopeMetrics = metrics.length > 0 ? [{ scope, metrics }] : [];
      return { resourceMetrics: { resource, scopeMetrics }, errors: [] };
    },
  };
}

/** What collects the metrics of a registry, and of stages, again and again until it is shut down. @param take never waits */
export function metricReader(
  { registry, scope }: Pick<MetricProducerOptions, 'registry' | 'scope'>,
  settings: { readonly metrics_interval_ms: number; readonly metrics_temporality: 'cumulative' | 'delta' },
  take: (metrics: ResourceMetrics) => void,
): PeriodicExportingMetricReader {
  const { metrics_interval_ms: interval_ms, metrics_temporality } = settings;
  const temporality =
    metrics_temporality === 'delta' ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE;
  return new PeriodicExportingMetricReader({
    exporter: {
      export(metrics, done) {
        take(metrics);
        done({ code: 0 });
      },
      forceFlush: async () => {},
      shutdown: async () => {},
      selectAggregationTemporality: () => temporality,
    },
    exportIntervalMillis: interval_ms,
    exportTimeoutMillis: interval_ms,
    metricProducers: [createMetricProducer({ registry, scope, temporality })],
  });
}
