/** `GET /metrics` is for authorized clients, and costs little for any client. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { METRICS, type MetricSpec } from '../../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { MetricRegistry } from '../../../engine/domain/telemetry/metric-registry.ts';
import {
  startMetricsListener,
  writePrometheusText,
} from '../../../engine/domain/telemetry/prometheus/metrics-listener.ts';
import { parsePrometheusText } from '../../support/telemetry/prometheus-text.ts';

const registry = new MetricRegistry();
const resource = { 'service.name': 'appscli-gateway', 'deployment.environment.name': 'a "test"', '1st-name': 'x' };
const text = () => writePrometheusText(registry, resource);
const closing: { close(): Promise<void> }[] = [];
after(() => Promise.all(closing.map((listener) => listener.close())));

async function listening(token?: string, written = text) {
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const listener = await startMetricsListener({ listen: '127.0.0.1:0', token: () => token, text: written, onError });
  closing.push(listener);
  return { port: listener.port, errors, url: `http://127.0.0.1:${listener.port}/metrics` };
}

/** Status and headers of an answer to a request that `fetch` would not send. */
async function ask(port: number, options: http.RequestOptions): Promise<http.IncomingMessage> {
  const request = http.request({ port, host: '127.0.0.1', path: '/metrics', ...options }).end();
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  response.resume();
  return response;
}

test('metrics are Prometheus text with the names that collectors give them', async () => {
  const labels = { 'gateway.error.code': 'forbidden', 'gateway.rule': 'a "rule"\nwith \\ all' };
  // Labels that the catalogue does not have, and those without a value, are left out.
  registry.add('gateway.refusals', { ...labels, 'gateway.team': undefined, ...{ 'enduser.id': 'somebody' } });
  registry.add('gateway.refusals', labels, 2);
  for (const seconds of [0.004, 0.005, 0.0051]) {
    registry.record('gateway.overhead.duration', { 'gateway.protocol': 'messages' }, seconds);
  }
  registry.record('gateway.overhead.duration', { 'gateway.protocol': 'messages' }, 9);
  registry.observe('gateway.build.info', () => [{ value: 1, labels: { 'service.version': '1.2.3' } }]);
  const { url } = await listening();
  const response = await fetch(url);
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  assert.equal(response.headers.get('content-encoding'), 'gzip');
  const families = parsePrometheusText(await response.text());
  assert.deepEqual(families.get('gateway_refusals_total')?.samples, [
    {
      name: 'gateway_refusals_total',
      labels: { gateway_error_code: 'forbidden', gateway_rule: 'a "rule"\nwith \\ all' },
      value: 3,
    },
  ]);
  const overhead = families.get('gateway_overhead_duration_seconds');
  assert.equal(overhead?.type, 'histogram');
  assert.equal(overhead?.samples.find(({ labels }) => labels.le === '0.005')?.value, 2);
  assert.equal(families.get('gateway_build_info')?.samples[0]?.labels.service_version, '1.2.3');
  assert.deepEqual(families.get('target_info')?.samples[0]?.labels, {
    service_name: 'appscli-gateway',
    deployment_environment_name: 'a "test"',
    key_1st_name: 'x',
  });
});

test('serves only /metrics, read-only; each response ends its connection', async () => {
  const { port } = await listening();
  const asked: [http.RequestOptions, number][] = [
    [{}, 200],
    [{ method: 'HEAD' }, 200],
    [{ path: '/metrics?name[]=x' }, 200],
    [{ path: '/' }, 404],
    [{ path: '/metrics/' }, 404],
    [{ path: '//metrics' }, 404],
    [{ method: 'POST' }, 405],
    [{ headers: { host: 'localhost:1' } }, 200],
    [{ headers: { host: 'rebound.example.com' } }, 403],
    [{ headers: { host: '127.0.0.1.example.com' } }, 403],
  ];
  for (const [options, status] of asked) {
    const { statusCode, headers } = await ask(port, { ...options, agent: false });
    assert.equal(statusCode, status, JSON.stringify(options));
    assert.equal(headers.connection, 'close');
  }
});

test('with a token, who does not send it gets nothing', async () => {
  const { port } = await listening('reader-token-1');
  const statusOf = async (headers: http.OutgoingHttpHeaders, path = '/metrics') =>
    (await ask(port, { headers, path })).statusCode;
  assert.equal(await statusOf({}), 401);
  assert.equal(await statusOf({ authorization: 'Bearer reader-token-2' }), 401);
  assert.equal(await statusOf({ authorization: 'reader-token-1' }), 401);
  assert.equal(await statusOf({ authorization: 'Basic reader-token-1' }), 401);
  assert.equal(await statusOf({}, '/other'), 401);
  assert.equal(await statusOf({ authorization: 'Bearer reader-token-1' }), 200);
  assert.equal(await statusOf({ authorization: 'bearer reader-token-1', host: 'gateway.example.com' }), 200);
  const { port: closed } = await listening('');
  for (const authorization of ['Bearer ', '', 'Bearer x'])
    assert.equal((await ask(closed, { headers: { authorization } })).statusCode, 401, 'an empty token admits nobody');
  assert.equal((await ask(closed, {})).statusCode, 401);
});

test('unwritable metrics are an error of the listener, logged and returned', async () => {
  const { port, errors } = await listening(undefined, () => Promise.reject(new Error('broken')));
  assert.equal((await ask(port, {})).statusCode, 500);
  assert.equal((errors[0] as Error).message, 'broken');
});

test('closes connections beyond those of a few readers at once', async () => {
  const { port } = await listening();
  const sockets = Array.from({ length: 40 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  const closed = sockets.map((socket) => once(socket, 'close').then(() => 'closed'));
  const first = await Promise.race(closed);
  assert.equal(first, 'closed');
  for (const socket of sockets) socket.destroy();
});

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
