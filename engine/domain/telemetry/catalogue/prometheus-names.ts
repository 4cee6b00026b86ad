import type { MetricSpec } from './metrics.ts';

/** Prometheus names of units; other units stay unchanged. */
const UNITS: Readonly<Record<string, string>> = { s: 'seconds', ms: 'milliseconds', By: 'bytes', '1': '' };

function words(name: string): string[] {
  return name.split(/[^a-zA-Z0-9]+/).filter((word) => word !== '');
}

/**
 * Prometheus name of a metric by OpenTelemetry's compatibility specification: with its unit (unless in braces), and `_total` for a
 * counter. Collectors and Prometheus derive the same names from OTLP, so one dashboard works for both. Histograms add `_bucket`, `_sum`
 * and `_count`.
 */
export function prometheusName(name: string, { kind, unit }: Pick<MetricSpec, 'kind' | 'unit'>): string {
  const parts = words(name);
  const suffix = /[{}]/.test(unit) ? '' : (UNITS[unit] ?? words(unit).join('_'));
  if (suffix !== '' && !parts.includes(suffix)) parts.push(suffix);
  const last = kind === 'counter' ? 'total' : kind === 'gauge' && unit === '1' ? 'ratio' : undefined;
  return (last === undefined ? parts : [...parts.filter((part) => part !== last), last]).join('_');
}

export function prometheusLabel(name: string): string {
  return name.replace(/[^a-zA-Z0-9]+/g, '_');
}
