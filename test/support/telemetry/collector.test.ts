/** The collector of the tests reads what the SDK writes, in both encodings. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type HrTime, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPMetricExporter as MetricsAsJson } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPMetricExporter as MetricsAsProtobuf } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter as SpansAsJson } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as SpansAsProtobuf } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { startCollector, type TestCollector } from './collector.ts';
import { readExport } from './otlp.ts';

let collector: TestCollector;
before(async () => {
  collector = await startCollector();
});
after(() => collector?.close());
beforeEach(() => {
  collector.clear();
  collector.trouble(undefined);
});

const resource = resourceFromAttributes({ 'service.name': 'sender', numbers: [1, 2] });
const AT: HrTime = [1_800_000_000, 123_456_789];

const EXPORTERS = {
  'http/json': { spans: SpansAsJson, metrics: MetricsAsJson },
  'http/protobuf': { spans: SpansAsProtobuf, metrics: MetricsAsProtobuf },
} as const;

for (const [protocol, { spans: Spans, metrics: Metrics }] of Object.entries(EXPORTERS)) {
  describe(`the collector reads ${protocol}`, () => {
    test('spans with their attributes, events and parents, compressed or not', async () => {
      for (const compression of ['gzip', 'none'] as never[]) {
        const exporter = new Spans({ url: collector.endpoint, compression, headers: { 'x-key': 'k' } });
        const provider = new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter })] });
        const tracer = provider.getTracer('scope', '1.2');
        const parent = tracer.startSpan('parent', { kind: SpanKind.SERVER, startTime: AT });
        const attributes = { text: 'ä', whole: 7, part: 0.5, yes: true, list: ['a', 'b'] };
        const child = tracer.startSpan(
          'child',
          { kind: SpanKind.CLIENT, startTime: AT, attributes },
          trace.setSpan(ROOT_CONTEXT, parent),
        );
        child.addEvent('event', { negative: -3 }, AT);
        child.setStatus({ code: SpanStatusCode.ERROR, message: 'broken' });
        child.end(AT);
        parent.end(AT);
        await provider.shutdown();

        const { server, attempts } = await collector.request('the parent', ({ name }) => name === 'parent');
        assert.deepEqual(server.resource, { 'service.name': 'sender', numbers: [1, 2] });
        assert.deepEqual(server.scope, { name: 'scope', version: '1.2', schema_url: '' });
        assert.equal(server.parent_span_id, undefined);
        assert.equal(attempts.length, 1);
        const [span] = attempts;
        assert.equal(span!.trace_id, parent.spanContext().traceId);
        assert.equal(span!.kind, 'client');
        assert.deepEqual(span!.attributes, attributes);
        assert.equal(span!.status, 'error');
        assert.equal(span!.status_message, 'broken');
        assert.ok(Math.abs(span!.began_at - 1_800_000_000_123.4568) < 0.001, String(span!.began_at));
        assert.deepEqual(
          span!.events.map(({ name, attributes }) => ({ name, attributes })),
          [{ name: 'event', attributes: { negative: -3 } }],
        );
        assert.match(collector.wire(), /x-key\nk\n[\s\S]*broken/);
        collector.clear();
      }
    });

    test('counters, gauges and histograms', async () => {
      const reader = new PeriodicExportingMetricReader({
        exporter: new Metrics({ url: `${collector.url}/v1/metrics` }),
      });
      const provider = new MeterProvider({ resource, readers: [reader] });
      const meter = provider.getMeter('scope');
      meter.createCounter('counter', { unit: 's', description: 'Counts' }).add(3, { a: 'b' });
      meter.createGauge('gauge').record(0.25);
      meter.createHistogram('histogram', { advice: { explicitBucketBoundaries: [1, 2] } }).record(1.5);
      await provider.shutdown();

      const counter = await collector.point('counter');
      assert.deepEqual(
        [counter.kind, counter.unit, counter.description, counter.temporality, counter.monotonic, counter.labels],
        ['sum', 's', 'Counts', 'cumulative', true, { a: 'b' }],
      );
      assert.equal(counter.value, 3);
      assert.equal((await collector.point('gauge')).value, 0.25);
      const { count, value, buckets, bounds } = await collector.point('histogram');
      assert.deepEqual({ count, value, buckets, bounds }, { count: 1, value: 1.5, buckets: [0, 1, 0], bounds: [1, 2] });
    });
  });
}

test('the collector takes nothing that is no OTLP, and says so whatever it is asked from then on', async (t) => {
  const collector = await startCollector();
  t.after(() => collector.close());
  const cases = [Buffer.from([0x0a, 0x05, 0x01]), Buffer.from([0x98, 0x06, 0x01]), Buffer.from('{}')];
  for (const body of cases) assert.throws(() => readExport('traces', body, false), String(body));
  assert.throws(() => readExport('logs', Buffer.from('{'), true));
  const headers = { 'content-type': 'application/x-protobuf' };
  const { status } = await fetch(collector.endpoint, { method: 'POST', headers, body: 'garbage' });
  assert.equal(status, 400);
  assert.throws(() => collector.spans, /no OTLP/);
});
