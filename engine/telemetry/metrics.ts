import type { CounterMetric, GaugeMetric, HistogramMetric, LabelsOf } from './catalogue/metrics.ts';

/** Metrics that can be asked for their values when they are needed: every gauge, and counters that something else keeps. */
export type ObservableMetric = GaugeMetric | CounterMetric;

/** One value of a gauge, or of a counter since the process began, with what tells it apart. */
export interface Reading<N extends ObservableMetric> {
  readonly value: number;
  readonly labels?: LabelsOf<N>;
}

/** Where numbers about the gateway are kept until somebody asks for them. Nothing throws. */
export interface Metrics {
  /** Adds to a counter. */
  add<N extends CounterMetric>(name: N, labels: LabelsOf<N>, amount?: number): void;
  /** Counts a value into a histogram. */
  record<N extends HistogramMetric>(name: N, labels: LabelsOf<N>, value: number): void;
  /** From now on asks this for the values of a metric; the last one given for it is asked. What throws is left out. */
  observe<N extends ObservableMetric>(name: N, read: () => Iterable<Reading<N>>): void;
}
