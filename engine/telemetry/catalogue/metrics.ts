import { CLIENT_METRICS } from './client-metrics.ts';
import { EXPORT_METRICS } from './export-metrics.ts';
import type { MetricSpec } from './metric-spec.ts';
import { OPERATION_METRICS } from './operation-metrics.ts';
import { PROCESS_METRICS } from './process-metrics.ts';
import { REQUEST_METRICS } from './request-metrics.ts';

export type { MetricSpec } from './metric-spec.ts';

/**
 * Every metric of the gateway. The reference page, the dashboards and the alert rules are made from it. The names of `gen_ai.*` are
 * those of the conventions that `telemetry.conventions` names by default.
 */
export const METRICS = {
  ...REQUEST_METRICS,
  ...OPERATION_METRICS,
  ...PROCESS_METRICS,
  ...EXPORT_METRICS,
  ...CLIENT_METRICS,
} as const satisfies Readonly<Record<string, MetricSpec>>;

/** Name of a metric. */
export type MetricName = keyof typeof METRICS;

type NamesOf<K extends MetricSpec['kind']> = {
  [N in MetricName]: (typeof METRICS)[N]['kind'] extends K ? N : never;
}[MetricName];

/** Metrics that only go up, by what is added to them. */
export type CounterMetric = NamesOf<'counter'>;
/** Metrics that keep how often values fell into each bucket. */
export type HistogramMetric = NamesOf<'histogram'>;
/** Metrics whose value is asked for when it is needed. */
export type GaugeMetric = NamesOf<'gauge'>;

/** What tells a series of a metric apart; a label that is left out is absent. */
export type LabelsOf<N extends MetricName> = {
  readonly [L in (typeof METRICS)[N]['labels'][number]]?: string | number | undefined;
};
