/** Names in Prometheus are those that collectors and Prometheus itself make of what they get over OTLP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { METRICS, type MetricSpec } from '../../../engine/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../../engine/telemetry/catalogue/prometheus-names.ts';

test('a metric has its unit in its name in Prometheus, and _total where it is a counter', () => {
  // Left to right what github.com/prometheus/otlptranslator 1.0.0 makes of them.
  const names: [string, MetricSpec['kind'], string, string][] = [
    ['gateway.requests', 'counter', '{request}', 'gateway_requests_total'],
    ['gateway.cost', 'counter', 'USD', 'gateway_cost_USD_total'],
    ['gateway.cost', 'counter', '{USD}', 'gateway_cost_total'],
    ['http.server.request.duration', 'histogram', 's', 'http_server_request_duration_seconds'],
    ['gateway.budget.used_ratio', 'gauge', '1', 'gateway_budget_used_ratio'],
    ['nodejs.eventloop.utilization', 'gauge', '1', 'nodejs_eventloop_utilization_ratio'],
    ['gateway.spool.size', 'gauge', 'By', 'gateway_spool_size_bytes'],
    ['gateway.bytes.held', 'gauge', 'By', 'gateway_bytes_held'],
    ['gateway.total.bytes', 'counter', 'By', 'gateway_bytes_total'],
    ['gateway.share', 'histogram', '1', 'gateway_share'],
    ['gateway.up', 'gauge', '', 'gateway_up'],
  ];
  for (const [name, kind, unit, expected] of names) assert.equal(prometheusName(name, { kind, unit }), expected);
  assert.equal(prometheusLabel('gateway.error.code'), 'gateway_error_code');
});

test('no two metrics, and no two labels of one, have the same name in Prometheus', () => {
  const names = Object.entries<MetricSpec>(METRICS).map(([name, spec]) => prometheusName(name, spec));
  assert.equal(new Set(names).size, names.length);
  for (const { labels } of Object.values<MetricSpec>(METRICS))
    assert.equal(new Set(labels.map(prometheusLabel)).size, labels.length);
});

test('a gauge without a unit that is no ratio has a unit in braces, as 1 would make it one in Prometheus', () => {
  const wrong = Object.entries<MetricSpec>(METRICS).filter(
    ([name, { kind, unit }]) => kind === 'gauge' && unit === '1' && !/ratio|utilization/.test(name),
  );
  assert.deepEqual(wrong, []);
});
