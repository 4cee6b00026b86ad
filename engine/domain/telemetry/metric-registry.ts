import {
  type CounterMetric,
  type GaugeMetric,
  type HistogramMetric,
  type LabelsOf,
  METRICS,
  type MetricName,
  type MetricSpec,
} from './catalogue/metrics.ts';

type LabelValue = string | number | boolean;
type GivenLabels = Readonly<Record<string, string | number | undefined>>;

export interface Series {
  readonly labels: Readonly<Record<string, LabelValue>>;
  /** Of a counter what was added, of a gauge what was read, of a histogram the sum of its values. */
  sum: number;
  count: number;
  /** By bucket, the last for values above all bounds; empty but for histograms. */
  readonly buckets: number[];
}

export interface MeasuredMetric {
  readonly name: MetricName;
  readonly spec: MetricSpec;
  readonly series: readonly Series[];
}

/** By the value of one label: the next label's, or a series behind the last one. */
type Branch = Map<string | number | undefined, Branch | Series>;

interface Family {
  readonly name: MetricName;
  readonly spec: MetricSpec;
  readonly bounds: readonly number[];
  /** By the values of its labels, in their order: finding a series makes no text. */
  readonly branches: Branch;
  series: Series[];
  read: (() => Iterable<Reading<ObservableMetric>>) | undefined;
}

/** Most series of one metric, as in the SDK of OpenTelemetry; what comes on top is counted in one series together. */
const SERIES_MAX = 2000;
/** The label that OpenTelemetry gives to that one series. */
const OVERFLOW_LABELS = Object.freeze({ 'otel.metric.overflow': true });
const NO_BOUNDS: readonly number[] = [];

export class MetricRegistry implements Metrics {
  /** When the counting began, in milliseconds since the epoch. */
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
    // Also not what is no number: it would stay for good.
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

  observe<N extends ObservableMetric>(name: N, read: () => Iterable<Reading<N>>): void {
    this.#families.get(name)!.read = read as () => Iterable<Reading<ObservableMetric>>;
  }

  measure(): MeasuredMetric[] {
    for (const family of this.#families.values()) this.#ask(family);
    return [...this.#families.values()].filter(({ series }) => series.length > 0);
  }

  seriesOf(name: MetricName): readonly Series[] {
    return this.#families.get(name)!.series;
  }

  #countSeries(): number {
    const counted = [...this.#families.values()].filter(({ spec }) => spec.kind !== 'gauge');
    return counted.reduce((sum, { series }) => sum + series.length, 0);
  }

  #ask(family: Family): void {
    const { name, read } = family;
    if (read === undefined) return;
    // What a gauge doesn't tell any more is over.
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
      // A metric that cannot be read must not keep the others from being read; its series end here.
    }
    // Values of a moment have no sum: those beyond the most are left out.
    if (family.series.at(-1)?.labels === OVERFLOW_LABELS) family.series.pop();
  }

  #find(name: MetricName, given: GivenLabels): Series {
    const family = this.#families.get(name)!;
    const { labels } = family.spec;
    let branch = family.branches;
    const last = labels.length - 1;
    for (let at = 0; at < last; at++) {
      const value = given[labels[at]!];
      let next = branch.get(value) as Branch | undefined;
      if (next === undefined) {
        if (family.series.length >= this.#series_max) return this.#overflowOf(family);
        next = new Map();
        branch.set(value, next);
      }
      branch = next;
    }
    const value = last < 0 ? undefined : given[labels[last]!];
    return (branch.get(value) as Series | undefined) ?? this.#begin(family, branch, value, given);
  }

  #begin(family: Family, branch: Branch, value: string | number | undefined, given: GivenLabels): Series {
    if (family.series.length >= this.#series_max) return this.#overflowOf(family);
    // Only labels of the catalogue, whatever else an object brings along.
    const labels: Record<string, LabelValue> = {};
    for (const label of family.spec.labels) {
      if (given[label] !== undefined) labels[label] = given[label];
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

/** Metrics that can be asked for their values when they are needed: every gauge, and counters that something else keeps. */
export type ObservableMetric = GaugeMetric | CounterMetric;

/** One value of a gauge, or of a counter since the process began, with what tells it apart. */
export interface Reading<N extends ObservableMetric> {
  readonly value: number;
  readonly labels?: LabelsOf<N>;
}

/** Where numbers about the gateway are kept until somebody asks for them. Nothing throws. */
export interface Metrics {
  add<N extends CounterMetric>(name: N, labels: LabelsOf<N>, amount?: number): void;
  record<N extends HistogramMetric>(name: N, labels: LabelsOf<N>, value: number): void;
  /** From now on asks this for the values of a metric; the last one given for it is asked. What throws is left out. */
  observe<N extends ObservableMetric>(name: N, read: () => Iterable<Reading<N>>): void;
}
