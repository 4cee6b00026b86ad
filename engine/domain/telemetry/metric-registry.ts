import type { Clock, Log } from '../../base/contract/services.ts';
import type { RedactingLog } from '../../base/kit/log.ts';
import {
  type CounterMetric,
  type GaugeMetric,
  type HistogramMetric,
  type LabelsOf,
  METRICS,
  type MetricName,
  type MetricSpec,
} from './catalogue/metrics.ts';

/** What all parts of telemetry work with. */
export interface TelemetrySurroundings {
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log & Partial<Pick<RedactingLog, 'hide' | 'tap'>>;
  readonly metrics: MetricRegistry;
}

type LabelValue = string | number | boolean;
type LabelValues = Readonly<Record<string, string | number | undefined>>;

export interface Series {
  readonly labels: Readonly<Record<string, LabelValue>>;
  /** Total of a counter, value of a gauge, sum of a histogram. */
  sum: number;
  count: number;
  /** Counts by bucket, the last one for values above all bounds; only for histograms. */
  readonly buckets: number[];
}

export interface MeasuredMetric {
  readonly name: MetricName;
  readonly spec: MetricSpec;
  readonly series: readonly Series[];
}

/** A trie of label values; the last level has the series. */
type Branch = Map<string | number | undefined, Branch | Series>;

interface Family {
  readonly name: MetricName;
  readonly spec: MetricSpec;
  readonly bounds: readonly number[];
  /** Series by label values, in order; a lookup builds no string. */
  readonly branches: Branch;
  series: Series[];
  read: (() => Iterable<Reading<ObservableMetric>>) | undefined;
}

/** Most series of one metric, as in the OpenTelemetry SDK; further ones share an overflow series. */
const SERIES_MAX = 2000;
/** The label of the overflow series in OpenTelemetry. */
const OVERFLOW_LABELS = Object.freeze({ 'otel.metric.overflow': true });
const NO_BOUNDS: readonly number[] = [];

/** The metrics of the gateway. Never throws. */
export type Metrics = Pick<MetricRegistry, 'add' | 'record' | 'observe'>;

export class MetricRegistry {
  /** Start of the counters, in milliseconds since the epoch. */
  readonly began_at: number;
  readonly #series_max: number;
  readonly #families: Map<MetricName, Family>;

  constructor(began_at = Date.now(), series_max = SERIES_MAX) {
    this.began_at = began_at;
    this.#series_max = series_max;
    this.#families = new Map(
      Object.entries<MetricSpec>(METRICS).map(([text, spec]) => {
        const name = text as MetricName;
        const bounds = spec.bounds ?? NO_BOUNDS;
        return [name, { name, spec, bounds, branches: new Map(), series: [], read: undefined }];
      }),
    );
    this.observe('gateway.telemetry.series', () => [{ value: this.#countSeries() }]);
  }

  add<N extends CounterMetric>(name: N, labels: LabelsOf<N>, amount = 1): void {
    // Skips NaN, which would never go away.
    if (amount >= 0 && amount < Number.POSITIVE_INFINITY) this.#find(name, labels).sum += amount;
  }

  record<N extends HistogramMetric>(name: N, labels: LabelsOf<N>, value: number): void {
    if (!Number.isFinite(value)) return;
    const series = this.#find(name, labels);
    const { bounds } = METRICS[name];
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
    series.buckets[bucket]!++;
    series.sum += value;
    series.count++;
  }

  /** Sets the callback that reads a metric; replaces an earlier one. Errors of the callback omit the metric. */
  observe<N extends ObservableMetric>(name: N, read: () => Iterable<Reading<N>>): void {
    this.#families.get(name)!.read = read as () => Iterable<Reading<ObservableMetric>>;
  }

  measure(): MeasuredMetric[] {
    for (const family of this.#families.values()) this.#read(family);
    return [...this.#families.values()].filter(({ series }) => series.length > 0);
  }

  seriesOf(name: MetricName): readonly Series[] {
    return this.#families.get(name)!.series;
  }

  #countSeries(): number {
    const counted = [...this.#families.values()].filter(({ spec }) => spec.kind !== 'gauge');
    return counted.reduce((sum, { series }) => sum + series.length, 0);
  }

  #read(family: Family): void {
    const { name, read } = family;
    if (read === undefined) return;
    // A series that a gauge no longer reports ends.
    if (family.spec.kind === 'gauge') {
      family.branches.clear();
      family.series = [];
    }
    try {
      for (const { value, labels } of read()) {
        if (!Number.isFinite(value)) continue;
        const series = this.#find(name, labels ?? {});
        if (series.labels !== OVERFLOW_LABELS) series.sum = value;
      }
    } catch {
      // A failing metric must not affect the others; its series end here.
    }
    // Gauges have no sum, so they have no overflow series.
    if (family.series.at(-1)?.labels === OVERFLOW_LABELS) family.series.pop();
  }

  #find(name: MetricName, values: LabelValues): Series {
    const family = this.#families.get(name)!;
    const { labels } = family.spec;
    let branch = family.branches;
    const last = labels.length - 1;
    for (let at = 0; at < last; at++) {
      const value = values[labels[at]!];
      let next = branch.get(value) as Branch | undefined;
      if (next === undefined) {
        if (family.series.length >= this.#series_max) return this.#overflowOf(family);
        next = new Map();
        branch.set(value, next);
      }
      branch = next;
    }
    const value = last < 0 ? undefined : values[labels[last]!];
    return (branch.get(value) as Series | undefined) ?? this.#begin(family, branch, value, values);
  }

  #begin(family: Family, branch: Branch, value: string | number | undefined, values: LabelValues): Series {
    if (family.series.length >= this.#series_max) return this.#overflowOf(family);
    // Only labels of the catalogue; others are ignored.
    const labels: Record<string, LabelValue> = {};
    for (const label of family.spec.labels) {
      if (values[label] !== undefined) labels[label] = values[label];
    }
    const series = seriesOf(labels, family.bounds);
    branch.set(value, series);
    family.series.push(series);
    return series;
  }

  #overflowOf(family: Family): Series {
    if (family.name !== 'gateway.telemetry.overflows')
      this.add('gateway.telemetry.overflows', { 'gateway.telemetry.metric': family.name });
    let series = family.series.at(-1)!;
    if (series.labels !== OVERFLOW_LABELS) {
      series = seriesOf(OVERFLOW_LABELS, family.bounds);
      family.series.push(series);
    }
    return series;
  }
}

function seriesOf(labels: Series['labels'], bounds: readonly number[]): Series {
  return { labels, sum: 0, count: 0, buckets: bounds.length > 0 ? Array(bounds.length + 1).fill(0) : [] };
}

/** Metrics that are read on demand: gauges, and counters kept elsewhere. */
type ObservableMetric = GaugeMetric | CounterMetric;

/** A value of a gauge, or of a counter since the start of the process, with its labels. */
export interface Reading<N extends ObservableMetric> {
  readonly value: number;
  readonly labels?: LabelsOf<N>;
}
