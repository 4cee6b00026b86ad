/** Dashboards and alert rules ask for metrics and labels that exist. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { METRICS, type MetricSpec } from '../../engine/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../engine/telemetry/catalogue/prometheus-names.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { QueryError, selectionsOf } from './promql.ts';

const SHIPPED = join(REPOSITORY, 'examples/observability');
/** Every series has these, by where it comes from. */
const ORIGIN = ['job', 'instance'];

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Target {
  readonly expr: string;
  readonly legendFormat: string;
}

interface PanelFile {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly description?: string;
  readonly targets?: readonly Target[];
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

interface DashboardFile {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly PanelFile[];
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
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

describe('a query of Prometheus', () => {
  test('that asks for what is not in the catalogue is found', () => {
    const faults: readonly [query: string, fault: string[]][] = [
      ['sum(rate(gateway_requests_total[5m]))', []],
      ['sum(rate(gateway_requests[5m]))', ['gateway_requests is no metric of the catalogue and no recorded rule']],
      ['sum by (user) (rate(gateway_requests_total[5m]))', ['gateway_requests_total has no label user']],
      ['gateway_requests_total{session="a", job="b"}', ['gateway_requests_total has no label session']],
      ['sum by (le) (rate(gateway_overhead_duration_seconds_bucket[$__rate_interval]))', []],
      ['sum by (le) (gateway_requests_total)', ['gateway_requests_total has no label le']],
      ['1 - max(nothing) / gateway_requests_total', ['nothing is no metric of the catalogue and no recorded rule']],
      ['{job="b"}', [' is no metric of the catalogue and no recorded rule']],
    ];
    for (const [query, fault] of faults) assert.deepEqual(faultsOf(query), fault, query);
  });

  test('that is none is found', () => {
    for (const query of ['sum(rate(gateway_requests_total[5m])', 'sum by (le gateway_requests_total', 'a b'])
      assert.throws(() => faultsOf(query), QueryError, query);
  });
});

describe('every dashboard', () => {
  test('asks for metrics and labels that exist', () => {
    const faults = dashboards.flatMap(({ title, panels }) =>
      panels.flatMap((panel) =>
        (panel.targets ?? []).flatMap(({ expr }) =>
          faultsOf(expr).map((fault) => `${title}, ${panel.title}: ${fault}`),
        ),
      ),
    );
    assert.deepEqual(faults, []);
  });

  test('calls lines by labels that its queries keep apart', () => {
    for (const { title, panels } of dashboards) {
      for (const { title: panel, targets = [] } of panels) {
        for (const { expr, legendFormat } of targets) {
          const kept = selectionsOf(expr.replaceAll(/\$__\w+/g, '5m')).flatMap(({ grouped }) => grouped);
          const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
          assert.deepEqual(
            named.filter((label) => !kept.includes(label)),
            [],
            `${title}, ${panel}: ${legendFormat}`,
          );
        }
      }
    }
  });

  test('that asks for a metric of one version of the conventions asks for that of the other too', () => {
    const versions = new Map(
      Object.entries<MetricSpec>(METRICS).flatMap(([name, spec]) =>
        spec.conventions ? [[prometheusName(name, spec), spec.conventions] as const] : [],
      ),
    );
    for (const { title, panels } of dashboards) {
      for (const { title: panel, targets = [] } of panels) {
        for (const { expr } of targets) {
          const asked = selectionsOf(expr.replaceAll(/\$__\w+/g, '5m')).flatMap(
            ({ metric }) => versions.get(metric.replace(/_(bucket|sum|count)$/, '')) ?? [],
          );
          const missing = ['1.41', 'latest'].filter((version) => !asked.some((one) => one === version));
          assert.ok(asked.length === 0 || missing.length === 0, `${title}, ${panel} has nothing for ${missing}`);
        }
      }
    }
  });

  test('is needed: together they show every metric of the catalogue but those that say again what gateway.tokens says', () => {
    const queries = dashboards.flatMap(({ panels }) =>
      panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    );
    const shown = queries.join('\n');
    const hidden = Object.entries<MetricSpec>(METRICS).filter(
      ([name, spec]) => !new RegExp(`\\b${prometheusName(name, spec)}(_bucket|_sum|_count)?\\b`).test(shown),
    );
    assert.deepEqual(
      hidden.map(([name]) => name).filter((name) => !/^gen_ai\..*usage/.test(name)),
      [],
    );
  });

  test('lists the gateways that report', () => {
    for (const { templating } of dashboards) {
      const lists = templating.list.flatMap(({ query }) =>
        typeof query === 'string' ? [] : [/^label_values\((.+), \w+\)$/.exec(query.query)![1]!],
      );
      assert.equal(lists.length, 2);
      for (const query of lists) assert.deepEqual(faultsOf(query), []);
    }
  });

  test('has an address of its own, and panels that say what they show and lie beside each other', () => {
    assert.equal(new Set(dashboards.map(({ uid }) => uid)).size, dashboards.length);
    for (const { title, panels } of dashboards) {
      assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
      const taken = new Set<string>();
      for (const { type, title: panel, description, gridPos } of panels) {
        if (type !== 'row') assert.match(description ?? '', /\.$/, `${title}, ${panel}`);
        for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
          for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
            assert.ok(x < 24 && !taken.has(`${x} ${y}`), `${title}, ${panel} lies on another panel`);
            taken.add(`${x} ${y}`);
          }
        }
      }
    }
  });
});

describe('every rule of Prometheus', () => {
  test('asks for metrics and labels that exist', () => {
    assert.ok(rules.length > 0);
    const faults = rules.flatMap(({ record, alert, expr }) =>
      faultsOf(expr).map((fault) => `${record ?? alert}: ${fault}`),
    );
    assert.deepEqual(faults, []);
  });

  test('has a name of its own, and an alert says what is the matter with labels that its query keeps apart', () => {
    const names = rules.map(({ record, alert }) => record ?? alert);
    assert.equal(new Set(names).size, names.length);
    for (const { alert, expr, annotations } of rules) {
      if (alert === undefined) continue;
      const kept = selectionsOf(expr).flatMap(({ metric, grouped }) => [...grouped, ...(SERIES.get(metric) ?? [])]);
      const said = Object.values(annotations!).join(' ');
      const named = [...said.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label!);
      assert.deepEqual(
        named.filter((label) => !kept.includes(label)),
        [],
        alert,
      );
      assert.match(annotations!.description!, /\.$/, alert);
    }
  });
});
