/** The example that shows the gateway's telemetry: its gateway, its traffic, and the queries of its dashboards. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { METRICS, type MetricSpec } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { callerHeaders } from '../../engine/domain/telemetry/relay.ts';
import { startUpstream } from '../../examples/demo/upstream.ts';
import { startTraffic } from '../../examples/observability/traffic.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { metricsUrl } from '../support/telemetry/read-metrics.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';
import { startExample } from './support.ts';

const EXAMPLE = join(REPOSITORY, 'examples/observability');
const API_KEY = 'a-key-of-mocks';
/** What does not happen in a few seconds; the code that counts it has these words from a list of its own. */
const RARE = ['gateway_attempt_outcome="limited"', 'gateway_status_class="5xx"'];

/** What GET /metrics says after some traffic, a line a series. */
let lines: readonly string[];

const upstreams = [1, 2].map(() => use(() => startUpstream({ api_key: API_KEY })));
const example = use(() => {
  const moves = [
    ['listen: 127.0.0.1:19464', 'listen: 127.0.0.1:0'],
    ['http://127.0.0.1:19101', upstreams[0]!.url],
    ['http://127.0.0.1:19102', upstreams[1]!.url],
    // A closed port.
    ['http://127.0.0.1:19318', 'http://127.0.0.1:9'],
  ] as const;
  return startExample('observability', moves, { MOCK_KEY: API_KEY });
});
use(() => startTraffic(example.gateway));
before(async () => {
  await until('a rule decided and a prompt was read from a cache', async () => {
    const response = await fetch(metricsUrl({ logs: example.lines.map((line) => JSON.stringify(line)) }));
    lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return ['gateway_rule_mode="enforce"', 'gateway_rule_mode="shadow"', 'gateway_token_type="cache_read"'].every(
      (happened) => lines.some((line) => line.includes(happened) && !line.endsWith(' 0')),
    );
  });
});

test("the gateway's Prometheus metrics have names and labels of the catalogue, and no others", () => {
  const labels = new Map<string, readonly string[]>();
  for (const [name, spec] of Object.entries<MetricSpec>(METRICS))
    labels.set(prometheusName(name, spec), spec.labels.map(prometheusLabel));
  const strange = lines.filter((line) => {
    const [, series = '', named = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
    if (series === 'target_info') return false;
    const known = labels.get(series) ?? labels.get(series.replace(/_(bucket|sum|count)$/, ''));
    return !known || [...named.matchAll(/(\w+)="/g)].some(([, label]) => label !== 'le' && !known.includes(label!));
  });
  assert.deepEqual(strange, []);
});

test('reports the label values that dashboards and rules query', () => {
  const files = globSync('{grafana/dashboards/*.json,prometheus/*rules.yaml}', { cwd: EXAMPLE });
  const text = files.map((file) => readFileSync(join(EXAMPLE, file), 'utf8').replaceAll('\\"', '"')).join('\n');
  const asked = new Set(
    [...text.matchAll(/\b(?:gateway|nodejs|gen_ai|http)_\w+="[^"$]+"/g)].map(([matcher]) => matcher),
  );
  assert.ok(asked.size > 10, `${asked.size}`);
  const output = lines.join('\n');
  assert.deepEqual([...asked].filter((matcher) => !output.includes(matcher)).toSorted(), RARE);
});

test('the collector adds every identity header to client telemetry', () => {
  const text = readFileSync(join(EXAMPLE, 'collector.yaml'), 'utf8');
  const stamped = [...text.matchAll(/from_context: metadata\.([\w-]+)/g)].map(([, name]) => name);
  const group = 'g';
  const token = { id: 't', name: 't', group };
  const known = { id: 'i', email: 'e', groups: [group], roles: [], team: 't', project: 'p', token };
  const parts = ['id', 'email', 'groups', 'team', 'project', 'token_group'] as const;
  assert.deepEqual(stamped.toSorted(), Object.keys(callerHeaders({ ...known, kind: 'session' }, parts)).toSorted());
});
