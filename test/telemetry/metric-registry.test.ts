/** What is counted is reported once, whole, and in bounded space. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetricName } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { createMetricProducer } from '../../engine/domain/telemetry/export/encode.ts';
import { MetricRegistry } from '../../engine/domain/telemetry/metric-registry.ts';

const route = { 'http.request.method': 'POST', 'http.route': '/v1/messages', 'http.response.status_code': 200 };

async function collected(registry: MetricRegistry, name: MetricName) {
  const { resourceMetrics } = await createMetricProducer({ registry, scope: { name: 'test' } }).collect();
  const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
  return all.find(({ descriptor }) => descriptor.name === name);
}

test('a non-number is not counted, and no counter goes down', () => {
  const registry = new MetricRegistry();
  for (const amount of [Number.NaN, Number.POSITIVE_INFINITY, -1]) {
    registry.add('gateway.refusals', {}, amount);
    registry.record('http.server.request.duration', route, amount === -1 ? Number.NaN : amount);
  }
  assert.equal(registry.seriesOf('gateway.refusals')[0]?.sum ?? 0, 0);
  assert.equal(registry.seriesOf('http.server.request.duration').length, 0);
});

test('beyond its maximum of series, a metric counts all others in one, and reports it', () => {
  const registry = new MetricRegistry(0, 3);
  for (let n = 0; n < 10; n++)
    registry.add('gateway.refusals', { 'gateway.error.code': `code-${n}`, 'gateway.rule': 'r' });
  for (let n = 0; n < 10; n++)
    registry.add('gateway.refusals', { 'gateway.error.code': 'code-1', 'gateway.rule': `rule-${n}` });
  registry.add('gateway.refusals', { 'gateway.error.code': 'code-0', 'gateway.rule': 'r' });
  const series = registry.seriesOf('gateway.refusals');
  assert.equal(series.length, 4);
  assert.deepEqual(series.at(-1), { labels: { 'otel.metric.overflow': true }, sum: 17, count: 0, buckets: [] });
  assert.equal(series[0]?.sum, 2);
  const overflows = registry.seriesOf('gateway.telemetry.overflows').map(({ labels, sum }) => [labels, sum]);
  assert.deepEqual(overflows, [[{ 'gateway.telemetry.metric': 'gateway.refusals' }, 17]]);
});

test('a gauge is evaluated when it is read, and omitted if it throws, is no number or is gone', async () => {
  const registry = new MetricRegistry();
  let versions = ['1', '2'];
  registry.observe('gateway.build.info', () =>
    versions.map((version) => ({ value: version === '9' ? Number.NaN : 1, labels: { 'service.version': version } })),
  );
  assert.equal((await collected(registry, 'gateway.build.info'))?.dataPoints.length, 2);
  versions = ['2', '2', '9'];
  const labels = (await collected(registry, 'gateway.build.info'))?.dataPoints.map(({ attributes }) => attributes);
  assert.deepEqual(labels, [{ 'service.version': '2' }]);
  registry.observe('gateway.build.info', () => {
    throw new Error('not there yet');
  });
  registry.add('gateway.refusals', {});
  assert.equal(await collected(registry, 'gateway.build.info'), undefined);
  assert.notEqual(await collected(registry, 'gateway.refusals'), undefined);
});

test('a gauge beyond the maximum of series reports as many as allowed', async () => {
  const registry = new MetricRegistry(0, 3);
  const names = ['a', 'b', 'c', 'd', 'e'];
  registry.observe('gateway.upstream.inflight', () =>
    names.map((name) => ({ value: 1, labels: { 'gateway.upstream': name } })),
  );
  const metric = await collected(registry, 'gateway.upstream.inflight');
  const upstreams = metric?.dataPoints.map(({ attributes }) => attributes['gateway.upstream']);
  assert.deepEqual(upstreams, ['a', 'b', 'c']);
  assert.equal(registry.seriesOf('gateway.telemetry.overflows')[0]?.sum, 2);
});
