import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { trace } from '@opentelemetry/api';
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { createLog } from '../../../engine/base/kit/log.ts';
import { type Exports, openExports } from '../../../engine/domain/telemetry/export/exports.ts';
import { MetricRegistry } from '../../../engine/domain/telemetry/metric-registry.ts';
import type { FinishedSpan } from '../../../engine/domain/telemetry/spans.ts';
import { answerBytes } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector, takePartly } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';

const id = (n: number, digits: number) => n.toString(16).padStart(digits, '0');

/** A span with a bit of everything, distinguished by a number. */
function span(n: number, more: Partial<FinishedSpan> = {}): FinishedSpan {
  return {
    name: `span ${n}`,
    kind: 'server',
    trace_id: id(n + 1, 32),
    span_id: id(n + 1, 16),
    parent_span_id: undefined,
    began_at: 1_800_000_000_000.25,
    ended_at: 1_800_000_001_000.5,
    attributes: { text: 'ä', whole: 7, part: 0.5, yes: true, list: ['a', 'b'], absent: undefined },
    events: [{ name: 'happened', at: 1_800_000_000_500, attributes: { why: 'because', absent: undefined } }],
    failed: false,
    ...more,
  };
}

const FAST = { OTEL_BSP_SCHEDULE_DELAY: '1', OTEL_BLRP_SCHEDULE_DELAY: '1' };

const opened: Exports[] = [];
const collector = use(startCollector);
beforeEach(() => {
  collector.clear();
  collector.failWith(undefined);
});
afterEach(async () => {
  collector.failWith(undefined);
  await Promise.all(opened.splice(0).map((exports) => exports.close()));
});

/** Of these keys of `telemetry.otlp`; `undefined` for none. */
function telemetryOf(otlp: object | undefined, more: object = {}): GatewayConfig['telemetry'] {
  const written = otlp && { endpoint: collector.endpoint, metrics: false, ...otlp };
  return { sampling: {}, metrics: {}, forward_to: [], ...(written && { otlp: written }), ...more } as never;
}

async function open(otlp: object | undefined, env: NodeJS.ProcessEnv = {}, more: object = {}) {
  const registry = new MetricRegistry(0);
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), format: 'json', debug: false });
  const exports = await openExports({
    telemetry: telemetryOf(otlp, more),
    env: { ...FAST, ...env },
    metrics: registry,
    clock: systemClock,
    log,
  });
  opened.push(exports);
  const dropped = () =>
    Object.fromEntries(
      registry
        .measure()
        .filter(({ name }) => name === 'gateway.telemetry.dropped')
        .flatMap(({ series }) => series.map(({ labels, sum }) => [labels['gateway.telemetry.reason'], sum])),
    );
  /** What the log says of an outage, without the list of destinations. */
  const warnings = () => lines.filter((line) => !/telemetry destinations/.test(line));
  return { exports, registry, log, lines, warnings, dropped };
}

const spans = (from: number, count: number) => Array.from({ length: count }, (_, n) => span(from + n));

describe('spans arrive', () => {
  for (const [protocol, compression] of [
    ['http/protobuf', 'none'],
    ['http/json', 'gzip'],
  ]) {
    test(`unchanged, by ${protocol} with compression ${compression}`, async () => {
      const { exports } = await open(
        { protocol, compression },
        {},
        { resource: { 'deployment.environment.name': 'test' } },
      );
      assert.equal(exports.sink.active, true);
      const parent = id(99, 16);
      exports.sink.take([span(1, { parent_span_id: parent, trace_state: 'a=1,b=2', failed: true })]);
      const found = await collector.span('the span', ({ name }) => name === 'span 1');
      assert.equal(found.trace_id, id(2, 32));
      assert.equal(found.span_id, id(2, 16));
      assert.equal(found.parent_span_id, parent);
      assert.equal(found.trace_state, 'a=1,b=2');
      assert.equal(found.kind, 'server');
      assert.deepEqual(found.attributes, { text: 'ä', whole: 7, part: 0.5, yes: true, list: ['a', 'b'] });
      const events = found.events.map(({ name, attributes }) => [name, attributes]);
      assert.deepEqual(events, [['happened', { why: 'because' }]]);
      assert.equal(found.resource['service.name'], 'appscli-gateway');
      assert.equal(found.resource['deployment.environment.name'], 'test');
      assert.match(String(found.resource['service.version']), /^\d/);
      assert.equal(found.scope.schema_url, 'https://opentelemetry.io/schemas/1.41.0');
    });
  }
});

describe('a failing collector', () => {
  const page = { 'content-type': 'text/html' };
  for (const [what, script, lost, said] of [
    ['that rejects an export loses it', answerBytes(400, {}, 'no'), 3, /HTTP 400.*rejects telemetry/],
    ['that keeps a part only is believed', takePartly('traces', 2, 'planted words'), 2, /accepts only a part/],
    ['that sends a page has taken nothing', answerBytes(200, page, Buffer.alloc(300_000, '<p>')), 3, /with a web page/],
  ] as const) {
    test(`${what}, which is counted and reported`, async () => {
      const { exports, lines, dropped } = await open({});
      collector.failWith(script);
      exports.sink.take(spans(0, 3));
      await until('it is counted', () => dropped().refused === lost);
      assert.match(lines.join(), said);
      assert.doesNotMatch(lines.join(), /planted words/);
    });
  }

  test('that returns 200 with non-OTLP content has accepted it', async () => {
    const { exports, dropped } = await open({});
    collector.failWith(answerBytes(200, { 'content-type': 'text/plain' }, Buffer.alloc(300_000, 'ok ')));
    exports.sink.take(spans(0, 1));
    await until('it got a request', () => collector.server.requests.length > 0);
    await exports.close();
    assert.deepEqual(dropped(), {});
  });

  test('never costs more than its queue: the excess is dropped, counted and reported once', async () => {
    const { exports, lines, dropped } = await open({ queue_spans: 512 });
    collector.failWith(() => {});
    exports.sink.take(spans(0, 700));
    exports.sink.take(spans(700, 100));
    assert.deepEqual(dropped(), { queue_full: 288 });
    assert.equal(lines.filter((line) => /is dropped/.test(line)).length, 1);
  });
});

test('an unencodable record is dropped and counted, and delays nothing else', async () => {
  const { exports, dropped } = await open({});
  const bad = () => {
    throw new Error('of no value');
  };
  exports.sink.take([span(1, { attributes: Object.defineProperty({}, 'bad', { get: bad, enumerable: true }) })]);
  await until('it is counted', () => dropped().refused === 1);
  exports.sink.take([span(2)]);
  await collector.span('the next one', ({ name }) => name === 'span 2');
});

test('at the end the log reports what a silent collector has not received', async () => {
  const { exports, lines } = await open({});
  collector.failWith(() => {});
  exports.sink.take(spans(0, 3));
  await exports.close();
  assert.match(lines.join(), /"items":3,.*is lost/);
});

test('a reload sends new spans to the new destination, and an invalid one changes nothing', async () => {
  const { exports, lines } = await open({}, { OTEL_BSP_SCHEDULE_DELAY: '60000', OTHER: 'x=\u0000secret-of-mine' });
  exports.use(telemetryOf({ headers_env: 'OTHER' }));
  await until('it is reported', () => lines.some((line) => /keeps its destinations/.test(line)));
  assert.doesNotMatch(lines.join(), /secret-of-mine/);
  exports.sink.take([span(0)]);
  exports.use(telemetryOf({ protocol: 'http/json' }));
  await until('the old queue is sent', () => collector.spans.length === 1);
  exports.sink.take([span(1)]);
  await exports.close();
  const traces = collector.exports.filter(({ signal }) => signal === 'traces');
  const types = traces.map(({ received }) => received.headers['content-type']);
  assert.deepEqual(types, ['application/x-protobuf', 'application/json']);
});

test('a tracer that a stage got before a reload goes on telling spans', async () => {
  const { exports, lines, dropped } = await open({});
  const tracer = trace.getTracer('a stage');
  exports.use(telemetryOf({ protocol: 'http/json' }));
  await until('the settings are new', () => lines.filter((line) => /telemetry destinations/.test(line)).length === 2);
  tracer.startSpan('of a stage').end();
  await collector.span('that of the stage', ({ name }) => name === 'of a stage');
  // Metrics of the test before may still arrive.
  const sent = collector.exports.find(({ signal }) => signal === 'traces')!;
  assert.equal(sent.received.headers['content-type'], 'application/json');
  assert.deepEqual(dropped(), {});
});

test('the log has the telemetry destinations, at the start and after a reload', async () => {
  const { exports, lines } = await open({ endpoint: `${collector.url}?key=planted` });
  exports.use(telemetryOf({ traces: false, metrics: true }));
  await until('it is reported twice', () => lines.filter((line) => /telemetry destinations/.test(line)).length === 2);
  exports.use(telemetryOf({ traces: false }));
  await until('the end of the export is reported', () => lines.some((line) => /is no longer exported/.test(line)));
  const [first, second] = lines.map((line) => JSON.parse(line));
  assert.deepEqual([first.traces, first.metrics, first.logs], [collector.endpoint, undefined, undefined]);
  assert.deepEqual([second.traces, second.metrics], [undefined, `${collector.url}/v1/metrics`]);
});

test('settings that cannot be done are reported, and a file of certificates without any stops the start', async () => {
  const { exports, lines } = await open(undefined, { OTEL_TRACES_EXPORTER: 'zipkin' });
  assert.equal(exports.sink.active, false, 'without a collector no span is created');
  assert.match(lines[0] ?? '', /OTEL_TRACES_EXPORTER.*otlp or/);
  await assert.rejects(open({ ca_file: 'package.json' }), /package\.json .*contains no certificate/);
});

const SOON = { metrics: { interval_seconds: 0.02 } };
const labels = { 'gateway.error.code': 'forbidden' };

describe('metrics', () => {
  for (const protocol of ['http/protobuf', 'http/json']) {
    test(`are sent again and again by ${protocol}, each time with all since the start`, async () => {
      const { registry } = await open({ metrics: true, protocol }, {}, SOON);
      registry.add('gateway.refusals', labels, 2);
      const first = await collector.point('gateway.refusals', ({ value }) => value === 2);
      assert.deepEqual(first.labels, labels);
      assert.equal(first.temporality, 'cumulative');
      assert.equal(first.resource['service.name'], 'appscli-gateway');
      registry.add('gateway.refusals', labels);
      await collector.point('gateway.refusals', ({ value }) => value === 3);
    });
  }

  test('are deltas where the variable requires them, also after a reload', async () => {
    const env = { OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'delta' };
    const { registry, exports } = await open({ metrics: true }, env, SOON);
    const wait = () => registry.record('gateway.overhead.duration', { 'gateway.protocol': 'messages' }, 0.5);
    registry.add('gateway.refusals', labels, 2);
    wait();
    assert.equal((await collector.point('gateway.refusals')).temporality, 'delta');
    exports.use(telemetryOf({ metrics: true, compression: 'gzip' }, SOON));
    registry.add('gateway.refusals', labels);
    wait();
    await until('the rest arrives', () => exported() >= 3);
    await exports.close();
    assert.equal(exported(), 3);
    const waits = collector.points.filter(({ metric }) => metric === 'gateway.overhead.duration');
    assert.deepEqual([waits.reduce((sum, { count }) => sum + count, 0), waits[0]!.temporality], [2, 'delta']);
  });

  test('are sent a last time at the end', async () => {
    const { registry, exports } = await open({ metrics: true });
    registry.add('gateway.refusals', labels, 2);
    await exports.close();
    assert.equal(exported(), 2);
  });

  test('rejected ones are reported once, and delivered when the collector accepts them again', async () => {
    collector.failWith(answerBytes(400, {}, 'no'));
    const { registry, lines } = await open({ metrics: true }, {}, SOON);
    registry.add('gateway.refusals', labels, 2);
    await until('it got two requests', () => collector.server.requests.length > 1);
    collector.failWith(undefined);
    await collector.point('gateway.refusals', ({ value }) => value === 2);
    assert.equal(lines.filter((line) => /rejects telemetry/.test(line)).length, 1);
  });
});

function exported(): number {
  const points = collector.points.filter(({ metric }) => metric === 'gateway.refusals');
  return points.reduce((sum, { value }) => sum + value, 0);
}

describe('the log', () => {
  test('is sent as written: without secrets, with its level, its fields and its trace', async () => {
    const { log } = await open({ logs: true });
    log.hide('hunter2-hunter2');
    const trace_id = '0af7651916cd43dd8448eb211c80319c';
    const fields = { trace_id, count: 3, password: 'planted', nested: { token: 'planted', kept: true } };
    log.warn(fields, 'something about hunter2-hunter2');
    const record = await until('it arrives', () => collector.logs.find(({ body }) => /something/.test(String(body))));
    assert.equal(record.body, 'something about [secret]');
    assert.equal(record.severity, 'WARN');
    assert.equal(record.severity_number, 13);
    assert.equal(record.trace_id, trace_id);
    assert.deepEqual(record.attributes, { count: 3, password: '[secret]', nested: { token: '[secret]', kept: true } });
    assert.doesNotMatch(collector.wire(), /planted|hunter2/);
  });

  test('has type, message and place of an error', async () => {
    const { log } = await open({ logs: true });
    log.error({ err: new TypeError('no such thing') }, 'it broke');
    const { attributes } = await until('it arrives', () => collector.logs.find(({ body }) => body === 'it broke'));
    assert.equal(attributes['exception.type'], 'TypeError');
    assert.equal(attributes['exception.message'], 'no such thing');
    assert.match(String(attributes['exception.stacktrace']), /exports\.test/);
  });

  test('never contains a credential for the collector', async () => {
    const env = { HEADERS: 'authorization=Basic%20planted-0123,x-team=platform' };
    const { log, lines } = await open({ logs: true, headers_env: 'HEADERS' }, env);
    log.info({ text: 'Basic planted-0123', platform: 'planted-0123' }, 'of planted-0123 and platform');
    await until('it arrives', () => collector.logs.length === 1);
    assert.equal(collector.logs[0]!.body, 'of [secret] and platform');
    assert.doesNotMatch(lines.join() + collector.exports.map(({ body }) => body.toString()).join(), /planted/);
  });

  test('about a collector that rejects the log does not feed itself', async () => {
    collector.failWith(answerBytes(400, {}, 'no'));
    const { log, lines, warnings } = await open({ logs: true });
    log.error({}, 'it broke');
    await until('it was rejected', () => lines.some((line) => /rejects telemetry/.test(line)));
    await until('that was rejected too', () => collector.server.requests.length === 2);
    assert.equal(warnings().length, 2);
  });
});
