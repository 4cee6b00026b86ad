import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPLogExporter as JsonLogs } from '@opentelemetry/exporter-logs-otlp-http';
import { OTLPLogExporter as ProtobufLogs } from '@opentelemetry/exporter-logs-otlp-proto';
import { OTLPMetricExporter as JsonMetrics } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPMetricExporter as ProtobufMetrics } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter as JsonTraces } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufTraces } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs';
import { AggregationTemporality, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { bootGateway, type TestGateway } from '../support/gateway.ts';
import { startCollector, type TestCollector } from '../support/telemetry/collector.ts';
import { until } from '../support/until.ts';

let gateway: TestGateway;
/** What the SDK sends, and what arrives by way of the gateway. */
let direct: TestCollector;
let relayed: TestCollector;

before(async () => {
  direct = await startCollector();
  relayed = await startCollector();
  const forward_to = [{ url: relayed.url, logs: true, traces: true, caller: [] }];
  gateway = await bootGateway({ upstream_url: 'http://127.0.0.1:9', config: { telemetry: { forward_to } } });
});
after(async () => {
  await gateway?.close();
  await direct?.close();
  await relayed?.close();
});
beforeEach(() => {
  direct.clear();
  relayed.clear();
});

const resource = resourceFromAttributes({ 'service.name': 'tool', 'process.pid': 7, 'host.ratio': 0.5 });
const EXPORTERS = {
  protobuf: { Traces: ProtobufTraces, Metrics: ProtobufMetrics, Logs: ProtobufLogs },
  json: { Traces: JsonTraces, Metrics: JsonMetrics, Logs: JsonLogs },
};

/** Both ways for an exporter of a signal. */
function ways(signal: string) {
  return [
    { url: `${direct.url}/v1/${signal}` },
    { url: `${gateway.url}/v1/${signal}`, headers: { authorization: `Bearer ${gateway.token}` } },
  ];
}

for (const [encoding, { Traces, Metrics, Logs }] of Object.entries(EXPORTERS)) {
  describe(`what an OpenTelemetry SDK sends as ${encoding} arrives as it was sent`, () => {
    test('spans with events, links and states', async () => {
      const spanProcessors = ways('traces').map((to) => new SimpleSpanProcessor({ exporter: new Traces(to) }));
      const provider = new TracerProvider({ resource, spanProcessors });
      const tracer = provider.getTracer('tool', '1.2.3');
      const parent = tracer.startSpan('turn', {
        kind: SpanKind.SERVER,
        attributes: { model: 'coder-1', n: 3, ok: true },
      });
      const inside = trace.setSpan(context.active(), parent);
      const links = [{ context: parent.spanContext(), attributes: { why: 'retry' } }];
      const child = tracer.startSpan(
        'call',
        { kind: SpanKind.CLIENT, links, attributes: { list: ['a', 'b'] } },
        inside,
      );
      child.addEvent('attempt', { attempt: 1 }).setStatus({ code: SpanStatusCode.ERROR }).end();
      parent.end();
      await provider.forceFlush();
      await until('both spans arrived', () => relayed.spans.length === 2);
      // Each span is a request of its own, and either may come first.
      const inOrder = (spans: readonly { readonly name?: unknown }[]) =>
        spans.toSorted((a, b) => String(a.name).localeCompare(String(b.name)));
      assert.deepEqual(inOrder(relayed.spans), inOrder(direct.spans));
      await provider.shutdown();
    });

    test('metrics, deltas as deltas', async () => {
      const readers = ways('metrics').map(
        (to) =>
          new PeriodicExportingMetricReader({
            exporter: new Metrics({ ...to, temporalityPreference: AggregationTemporality.DELTA }),
            exportIntervalMillis: 3_600_000,
          }),
      );
      const provider = new MeterProvider({ resource, readers });
      const meter = provider.getMeter('tool', '1.2.3');
      meter.createCounter('tokens', { unit: '{token}', description: 'Tokens used' }).add(41, { type: 'input' });
      meter.createUpDownCounter('open').add(-2.5);
      meter.createGauge('level').record(-7);
      meter.createHistogram('duration', { advice: { explicitBucketBoundaries: [1, 2] } }).record(1.5);
      await provider.forceFlush();
      await until('all metrics arrived', () => relayed.points.length === 4);
      const timeless = (all: readonly object[]) => all.map((one) => ({ ...one, at: 0 }));
      assert.deepEqual(timeless(relayed.points), timeless(direct.points));
      await provider.shutdown();
    });

    test('log records', async () => {
      const processors = ways('logs').map((to) => new SimpleLogRecordProcessor({ exporter: new Logs(to) } as never));
      const provider = new LoggerProvider({ resource, processors });
      const logger = provider.getLogger('tool', '1.2.3');
      logger.emit({
        severityNumber: 9,
        severityText: 'INFO',
        body: 'tool.asked',
        eventName: 'asked',
        attributes: { 'event.name': 'asked', n: 2 ** 40, ratio: 0.25 },
      });
      await provider.forceFlush();
      await until('the record arrived', () => relayed.logs.length === 1);
      assert.deepEqual(relayed.logs, direct.logs);
      await provider.shutdown();
    });
  });
}
