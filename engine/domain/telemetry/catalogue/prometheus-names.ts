import type { MetricSpec } from './metrics.ts';

/** What Prometheus calls units; others are called as they are. */
const UNITS: Readonly<Record<string, string>> = { s: 'seconds', ms: 'milliseconds', By: 'bytes', '1': '' };

function words(name: string): string[] {
  return name.split(/[^a-zA-Z0-9]+/).filter((word) => word !== '');
}

/**
 * Name of a metric in Prometheus, as OpenTelemetry's specification of compatibility makes it: with its unit, unless that stands in
 * braces, and with `_total` where it is a counter. Collectors and Prometheus give what they get over OTLP the same names, so a
 * dashboard fits both ways. A histogram has this name with `_bucket`, `_sum` and `_count`.
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
