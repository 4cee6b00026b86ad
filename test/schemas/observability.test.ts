/** Dashboards and alert rules ask for metrics and labels that exist. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { METRICS, type MetricSpec } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { QueryError, selectionsOf } from './promql.ts';

const SHIPPED = join(REPOSITORY, 'examples/observability');
/** Every series has these, by where it comes from. */
const ORIGIN = ['job', 'instance'];

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
}

interface DashboardFile {
  readonly title: string;
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

const dashboards = globSync('grafana/dashboards/*.json', { cwd: SHIPPED })
  .toSorted()
  .map((file) => JSON.parse(readFileSync(join(SHIPPED, file), 'utf8')) as DashboardFile);

const rules = globSync('prometheus/*rules.yaml', { cwd: SHIPPED }).flatMap((file) => {
  const { groups } = parse(readFileSync(join(SHIPPED, file), 'utf8')) as { groups: { rules: Rule[] }[] };
  return groups.flatMap((group) => group.rules);
});

/** Labels of every series that can be asked for, by the name in Prometheus. */
function knownSeries(): Map<string, readonly string[]> {
  const known = new Map<string, readonly string[]>();
  for (const [name, spec] of Object.entries<MetricSpec>(METRICS)) {
    const labels = [...spec.labels.map(prometheusLabel), ...ORIGIN];
    const series = prometheusName(name, spec);
    if (spec.kind !== 'histogram') known.set(series, labels);
    else {
      for (const part of ['sum', 'count']) known.set(`${series}_${part}`, labels);
      known.set(`${series}_bucket`, [...labels, 'le']);
    }
  }
  for (const { record, expr } of rules) {
    if (record !== undefined)
      known.set(
        record,
        selectionsOf(expr).flatMap(({ grouped }) => grouped.filter((label) => label !== 'le')),
      );
  }
  return known;
}

const SERIES = knownSeries();

/** What is wrong with a query. */
function faultsOf(query: string): string[] {
  // Grafana puts durations in the place of these before Prometheus sees them.
  const sent = query.replaceAll(/\$__(?:rate_interval|range|interval)\b/g, '5m');
  return selectionsOf(sent).flatMap(({ metric, matched, grouped }) => {
    const labels = SERIES.get(metric);
    if (labels === undefined) return [`${metric} is no metric of the catalogue and no recorded rule`];
    const unknown = new Set([...matched, ...grouped].filter((label) => !labels.includes(label)));
    return [...unknown].map((label) => `${metric} has no label ${label}`);
  });
}

test('a query outside the catalogue is found, and one that is none', () => {
  const faults: readonly [query: string, fault: string[]][] = [
    ['sum(rate(gateway_requests[5m]))', ['gateway_requests is no metric of the catalogue and no recorded rule']],
    ['sum by (user) (rate(gateway_requests_total[5m]))', ['gateway_requests_total has no label user']],
    ['gateway_requests_total{session="a", job="b"}', ['gateway_requests_total has no label session']],
  ];
  for (const [query, fault] of faults) assert.deepEqual(faultsOf(query), fault, query);
  assert.throws(() => faultsOf('sum by (le gateway_requests_total'), QueryError);
});

test('every dashboard queries existing metrics and labels', () => {
  const queries = dashboards.flatMap(({ title, panels }) =>
    panels.flatMap((panel) => (panel.targets ?? []).map(({ expr }) => [`${title}, ${panel.title}`, expr] as const)),
  );
  assert.ok(queries.length > 0);
  assert.deepEqual(
    queries.flatMap(([where, expr]) => faultsOf(expr).map((fault) => `${where}: ${fault}`)),
    [],
  );
});

test('every rule of Prometheus queries existing metrics and labels', () => {
  assert.ok(rules.length > 0);
  const faults = rules.flatMap(({ record, alert, expr }) =>
    faultsOf(expr).map((fault) => `${record ?? alert}: ${fault}`),
  );
  assert.deepEqual(faults, []);
});
