import { setImmediate } from 'node:timers/promises';
import { prometheusLabel, prometheusName } from '../catalogue/prometheus-names.ts';
import type { MeasuredMetric, MetricRegistry, Series } from '../metric-registry.ts';

/** What the text below is, as Prometheus wants it said. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** After so many series requests get their turn. */
const SERIES_AT_ONCE = 200;

/** Labels of a series as text, without braces; a series keeps its labels for good. */
const LABELS = new WeakMap<Series, string>();

/**
 * Writes the metrics of a registry in Prometheus' text format, as they are now. Not with the SDK's serializer: that took ten times
 * as long, in one go.
 * @param resource attributes of everything the gateway tells; they stand in `target_info`
 */
export async function writePrometheusText(
  registry: Pick<MetricRegistry, 'measure'>,
  resource: Readonly<Record<string, string>>,
): Promise<string> {
  let text = `# HELP target_info Target metadata\n# TYPE target_info gauge\n${line('target_info', labelsOf(resource), 1)}`;
  let written = 0;
  for (const metric of registry.measure()) {
    const name = prometheusName(metric.name, metric.spec);
    text += `# HELP ${name} ${escapeLine(metric.spec.meaning)}\n# TYPE ${name} ${metric.spec.kind}\n`;
    for (const series of metric.series) {
      text +=
        metric.spec.kind === 'histogram'
          ? histogramLines(name, metric, series)
          : line(name, textOf(series), series.sum);
      if (++written % SERIES_AT_ONCE === 0) await setImmediate();
    }
  }
  return text;
}

function histogramLines(name: string, { spec }: MeasuredMetric, series: Series): string {
  const labels = textOf(series);
  const before = labels === '' ? '' : `${labels},`;
  let lines = '';
  let count = 0;
  series.buckets.forEach((values, at) => {
    count += values;
    lines += line(`${name}_bucket`, `${before}le="${spec.bounds?.[at] ?? '+Inf'}"`, count);
  });
  return lines + line(`${name}_sum`, labels, series.sum) + line(`${name}_count`, labels, series.count);
}

function line(name: string, labels: string, value: number): string {
  return labels === '' ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`;
}

function textOf(series: Series): string {
  let text = LABELS.get(series);
  if (text === undefined) {
    text = labelsOf(series.labels);
    LABELS.set(series, text);
  }
  return text;
}

function labelsOf(labels: Readonly<Record<string, string | number | boolean>>): string {
  const by_name = new Map(Object.entries(labels).map(([name, value]) => [labelName(name), value]));
  return [...by_name].map(([name, value]) => `${name}="${escapeLine(String(value)).replaceAll('"', '\\"')}"`).join(',');
}

/** An attribute of a resource may have any name; one that began with a digit would make the whole text unreadable. */
function labelName(name: string): string {
  const label = prometheusLabel(name);
  return /^\d/.test(label) ? `key_${label}` : label;
}

function escapeLine(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}
