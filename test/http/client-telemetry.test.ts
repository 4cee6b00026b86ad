import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs';
import { AggregationTemporality, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { bootGateway } from '../support/gateway.ts';
import { startCollector, type TestCollector } from '../support/telemetry/collector.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';

const collector = use(startCollector);
const narrow = use(startCollector);
const gateway = use(() =>
  bootGateway({
    upstream_url: 'http://127.0.0.1:9',
    config: {
      telemetry: {
        forward_to: [
          { url: collector.url, headers_env: 'TEST_COLLECTOR_HEADERS', logs: true, traces: true },
          { url: `${narrow.url}/v1/metrics`, caller: ['team'], compression: 'none' },
        ],
      },
    },
    env: { TEST_COLLECTOR_HEADERS: 'authorization=Bearer%20collector-secret-1,x-tenant=a' },
  }),
);

beforeEach(() => {
  collector.clear();
  narrow.clear();
});

const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const AT = '1763877600123456789';

const resource = { attributes: [text('service.name', 'tool'), text('user.email', 'boss@example.com')] };
const scope = { name: 'tool' };

function metricsOf(name: string): object {
  const point = { startTimeUnixNano: AT, timeUnixNano: AT, asInt: '41', attributes: [text('type', 'input')] };
  const sum = { aggregationTemporality: 1, isMonotonic: true, dataPoints: [point] };
  return { resourceMetrics: [{ resource, scopeMetrics: [{ scope, metrics: [{ name, unit: '{token}', sum }] }] }] };
}

const LOGS = {
  resourceLogs: [
    { resource, scopeLogs: [{ scope, logRecords: [{ timeUnixNano: AT, body: { stringValue: 'tool.asked' } }] }] },
  ],
};

function send(signal: string, body: object | Buffer | string, headers: Record<string, string> = {}): Promise<Response> {
  const is_bytes = typeof body === 'string' || Buffer.isBuffer(body);
  return fetch(`${gateway.url}/v1/${signal}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json', ...headers },
    body: is_bytes ? body : JSON.stringify(body),
  });
}

/** A destination's data: the exact bytes, and the headers of the sender. */
function got({ exports }: TestCollector) {
  return exports.map(({ body, received: { headers } }) => ({
    body: body.toString(),
    caller: Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-gateway-'))),
  }));
}

describe('telemetry of clients', () => {
  test('reaches a collector byte for byte, with who sent it in headers that no client can set', async () => {
    const token = await gateway.newToken({ user: 'ada@example.com', team: 'größer, 100 %', project: 'parser' });
    const body = JSON.stringify(metricsOf('tool.tokens'), null, 1);
    const forged = { 'x-gateway-caller-team': 'boss', 'x-gateway-caller-groups': 'admins', 'x-tenant': 'b' };
    const response = await send('metrics', body, { ...forged, authorization: `Bearer ${token}` });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), 'application/json');
    assert.equal(await response.text(), '{}');
    const [one] = await until('it arrived', () => collector.exports.length > 0 && got(collector));
    assert.equal(one?.body, body);
    const { 'x-gateway-caller-id': id, 'x-gateway-caller-team': team, ...caller } = one!.caller;
    assert.ok(id);
    assert.equal(Buffer.from(String(team), 'latin1').toString(), 'größer, 100 %');
    assert.deepEqual(caller, {
      'x-gateway-caller-source': 'gateway-token',
      'x-gateway-caller-email': 'ada@example.com',
      'x-gateway-caller-groups': 'all',
      'x-gateway-caller-project': 'parser',
      'x-gateway-caller-token-group': 'all',
    });
    const { headers } = collector.exports[0]!.received;
    assert.deepEqual([headers.authorization, headers['x-tenant']], ['Bearer collector-secret-1', 'a']);
    assert.ok(!collector.wire().includes(token));
  });

  test('reaches each destination of its signal, with the permitted facts of the caller', async () => {
    await send('logs', LOGS);
    await send('metrics', metricsOf('tool.tokens'));
    await until('both arrived', () => collector.exports.length === 2 && narrow.exports.length === 1);
    assert.deepEqual(got(narrow), [
      { body: JSON.stringify(metricsOf('tool.tokens')), caller: { 'x-gateway-caller-source': 'gateway-token' } },
    ]);
    assert.equal(narrow.exports[0]?.received.headers['content-encoding'], undefined);
  });

  test('is accepted in protobuf and JSON, compressed or not, with either header for the credential', async () => {
    const json = Buffer.from(JSON.stringify(LOGS));
    // LogRecord.body of "a" in ScopeLogs in ResourceLogs.
    const protobuf = Buffer.from('0a09120712052a030a0161', 'hex');
    const type = { 'content-type': 'application/x-protobuf' };
    const responses = [
      await send('logs', protobuf, type),
      await send('logs', gzipSync(protobuf), { ...type, 'content-encoding': 'gzip' }),
      await send('logs', gzipSync(json), { 'content-encoding': 'gzip', authorization: '', 'x-api-key': gateway.token }),
    ];
    const answered = responses.map(({ status, headers }) => `${status} ${headers.get('content-type')}`);
    assert.deepEqual(answered, ['200 application/x-protobuf', '200 application/x-protobuf', '200 application/json']);
    assert.equal(await responses[0]?.text(), '');
    await until('three events arrived', () => collector.logs.length === 3);
    const bodies = got(collector).map(({ body }) => body);
    assert.deepEqual(bodies.toSorted(), [`${json}`, `${protobuf}`, `${protobuf}`].toSorted());
  });

  test('that is unacceptable gets an OTLP status', async () => {
    const bomb = gzipSync(Buffer.alloc(16 * 1024 * 1024));
    const refused: [string, Promise<Response>, number, number][] = [
      ['no credential', send('logs', {}, { authorization: '' }), 401, 16],
      ['a wrong credential', send('logs', {}, { authorization: 'Bearer gw_nobody' }), 401, 16],
      ['another type', send('logs', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }), 415, 3],
      ['another coding', send('logs', 'a', { 'content-encoding': 'compress' }), 415, 3],
      ['no gzip', send('logs', 'a', { 'content-encoding': 'gzip' }), 400, 3],
      ['a body that grows', send('logs', bomb, { 'content-encoding': 'gzip' }), 413, 8],
      ['a large body', send('logs', Buffer.alloc(5 * 1024 * 1024)), 413, 8],
    ];
    for (const [what, sent, status, code] of refused) {
      const response = await sent;
      assert.equal(response.status, status, what);
      assert.equal(response.headers.get('content-type'), 'application/json', what);
      const said = (await response.json()) as { code: number; message: string };
      assert.equal(said.code, code, what);
      assert.ok(said.message.length > 20, what);
    }
    const binary = await send('traces', Buffer.alloc(5 * 1024 * 1024), { 'content-type': 'application/x-protobuf' });
    assert.equal(binary.status, 413);
    assert.equal(binary.headers.get('content-type'), 'application/x-protobuf');
    const status = Buffer.from(await binary.arrayBuffer());
    assert.deepEqual([...status.subarray(0, 3)], [0x08, 8, 0x12]);
    const long = status[3]! > 127;
    const length = long ? (status[3]! & 127) + (status[4]! << 7) : status[3]!;
    assert.equal(length, status.length - (long ? 5 : 4));
    assert.match(status.toString(), /is larger than 4194304 bytes/);
    const got = await fetch(`${gateway.url}/v1/logs`, { headers: { authorization: `Bearer ${gateway.token}` } });
    assert.equal(got.status, 405);
    assert.equal(got.headers.get('allow'), 'POST');
    assert.deepEqual(collector.exports, []);
  });

  test('follows a reload, with the same response where it is not forwarded', async () => {
    const written = await readFile(gateway.config_file, 'utf8');
    const config = JSON.parse(written);
    const use = async (forward_to: readonly object[]) => {
      await writeFile(gateway.config_file, JSON.stringify({ ...config, telemetry: { forward_to } }));
      await gateway.reload();
    };
    await use([]);
    assert.equal((await send('metrics', metricsOf('tool.tokens'))).status, 200);
    const authorization = `Bearer ${await gateway.newToken({ user: 'burst@example.com' })}`;
    const large = gzipSync(Buffer.alloc(4 * 1024 * 1024));
    const sendLarge = () => send('metrics', large, { authorization, 'content-encoding': 'gzip' });
    const responses: Response[] = [];
    while (responses.length < 30 && responses.at(-1)?.status !== 429) responses.push(await sendLarge());
    assert.ok(responses.length > 8, 'a burst of 32 MiB is admitted');
    assert.match(responses.at(-1)!.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    await use([{ url: narrow.url }]);
    assert.equal((await send('metrics', metricsOf('tool.moved'))).status, 200);
    await narrow.point('tool.moved');
    assert.equal(narrow.points.length, 1);
    assert.deepEqual(collector.points, []);
    await writeFile(gateway.config_file, written);
    await gateway.reload();
  });

  test('arrives as an OpenTelemetry SDK sends it: spans in protobuf, metrics with deltas in JSON, log records', async () => {
    const to = (signal: string) => ({
      url: `${gateway.url}/v1/${signal}`,
      headers: { authorization: `Bearer ${gateway.token}` },
    });
    const spanProcessors = [new SimpleSpanProcessor({ exporter: new OTLPTraceExporter(to('traces')) })];
    const tracers = new TracerProvider({ spanProcessors });
    const temporalityPreference = AggregationTemporality.DELTA;
    const exporter = new OTLPMetricExporter({ ...to('metrics'), temporalityPreference });
    const readers = [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })];
    const meters = new MeterProvider({ readers });
    const processors = [new SimpleLogRecordProcessor({ exporter: new OTLPLogExporter(to('logs')) } as never)];
    const loggers = new LoggerProvider({ processors });
    const context = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: 1 };
    tracers
      .getTracer('tool')
      .startSpan('turn', { attributes: { n: 3 }, links: [{ context, attributes: { why: 'retry' } }] })
      .addEvent('attempt', { attempt: 1 })
      .end();
    meters.getMeter('tool').createCounter('tokens').add(41, { type: 'input' });
    const advice = { explicitBucketBoundaries: [1, 2] };
    meters.getMeter('tool').createHistogram('duration', { advice }).record(1.5);
    loggers.getLogger('tool').emit({ body: 'tool.asked', attributes: { n: 2 ** 40 } });
    for (const provider of [tracers, meters, loggers]) await provider.forceFlush();
    const span = await collector.span('that of the tool', ({ name }) => name === 'turn');
    assert.deepEqual(span.attributes, { n: 3 });
    const events = span.events.map(({ name, attributes }) => [name, attributes]);
    const { buckets, bounds } = await collector.point('duration');
    const came = { events, buckets, bounds, link: collector.wire().includes('retry') };
    assert.deepEqual(came, { events: [['attempt', { attempt: 1 }]], buckets: [0, 1, 0], bounds: [1, 2], link: true });
    const { value, temporality, labels } = await collector.point('tokens');
    assert.deepEqual([value, temporality, labels], [41, 'delta', { type: 'input' }]);
    const record = await until('the record arrived', () => collector.logs[0]);
    assert.deepEqual([record.body, record.attributes], ['tool.asked', { n: 2 ** 40 }]);
    for (const provider of [tracers, meters, loggers]) await provider.shutdown();
  });
});
