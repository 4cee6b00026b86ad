/** Spans reach a collector, wait for one that is away, and never cost more than their queue. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { trace } from '@opentelemetry/api';
import { answerBytes } from '../../support/model-provider/scripted-upstream.ts';
import { takePartly } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { span } from './finished-span.ts';
import { useExports } from './use-exports.ts';

const use = useExports();

const id = (n: number, digits: number) => n.toString(16).padStart(digits, '0');

const spans = (from: number, count: number) => Array.from({ length: count }, (_, n) => span(from + n));

describe('spans arrive', () => {
  for (const [protocol, compression] of [
    ['http/protobuf', 'none'],
    ['http/json', 'gzip'],
  ]) {
    test(`as they are, by ${protocol} with compression ${compression}`, async () => {
      const { exports } = await use.open(
        { protocol, compression },
        {},
        { resource: { 'deployment.environment.name': 'test' } },
      );
      assert.equal(exports.sink.active, true);
      const parent = id(99, 16);
      exports.sink.take([
        span(1, { parent_span_id: parent, parent_is_remote: true, trace_state: 'a=1,b=2', failed: true }),
      ]);
      const found = await use.collector.span('the span', ({ name }) => name === 'span 1');
      assert.equal(found.trace_id, id(2, 32));
      assert.equal(found.span_id, id(2, 16));
      assert.equal(found.parent_span_id, parent);
      assert.equal(found.kind, 'server');
      assert.deepEqual(found.attributes, { text: 'ä', whole: 7, part: 0.5, yes: true, list: ['a', 'b'] });
      assert.deepEqual(
        found.events.map(({ name, attributes }) => [name, attributes]),
        [['happened', { why: 'because' }]],
      );
      assert.equal(found.resource['service.name'], 'appscli-gateway');
      assert.equal(found.resource['deployment.environment.name'], 'test');
      assert.match(String(found.resource['service.version']), /^\d/);
      assert.equal(found.scope.schema_url, 'https://opentelemetry.io/schemas/1.41.0');
    });
  }
});

describe('a collector in trouble', () => {
  test('that answers 503 gets the same spans again, and is told of once, and when it is back', async () => {
    const { exports, lines, troubles, dropped } = await use.open({});
    use.collector.trouble(answerBytes(503, {}, 'later'));
    exports.sink.take(spans(0, 3));
    await until('it was asked', () => use.collector.server.requests.length > 0);
    use.collector.trouble(undefined);
    await use.collector.span('the last span', ({ name }) => name === 'span 2');
    assert.equal(use.collector.spans.length, 3);
    assert.deepEqual(dropped(), {});
    await until('the log says so', () => lines.some((line) => /takes telemetry again/.test(line)));
    assert.equal(lines.filter((line) => /does not take telemetry/.test(line)).length, 1);
    assert.match(troubles()[0]!, /HTTP 503/);
  });

  test('that refuses what it gets loses it, which is counted', async () => {
    const { exports, troubles, dropped } = await use.open({});
    use.collector.trouble(answerBytes(400, {}, 'no'));
    exports.sink.take(spans(0, 3));
    await until('it is counted', () => dropped().refused === 3);
    assert.match(troubles()[0]!, /HTTP 400.*refuses telemetry/);
  });

  test('that keeps a part only is believed', async () => {
    const { exports, lines, dropped } = await use.open({});
    use.collector.trouble(takePartly('traces', 2, 'planted words'));
    exports.sink.take(spans(0, 3));
    await until('it is counted', () => dropped().refused === 2);
    assert.match(lines.join(), /keeps a part/);
    assert.doesNotMatch(lines.join(), /planted words/);
  });

  test('that leads elsewhere is not followed', async () => {
    const { exports, dropped } = await use.open({});
    use.collector.trouble(answerBytes(307, { location: `${use.collector.url}/v1/other` }, ''));
    exports.sink.take(spans(0, 1));
    await until('it is counted', () => dropped().refused === 1);
    const asked = use.collector.server.requests.map(({ url }) => url);
    assert.deepEqual(
      asked.filter((url) => url !== '/v1/metrics'),
      ['/v1/traces'],
    );
  });

  test('that answers a page for people has taken nothing, which is counted and told', async () => {
    const { exports, dropped, lines } = await use.open({});
    use.collector.trouble(answerBytes(200, { 'content-type': 'text/html' }, Buffer.alloc(300_000, '<p>')));
    exports.sink.take(spans(0, 1));
    await until('it is counted', () => dropped().refused === 1);
    assert.match(lines.join(), /HTTP 200 with a web page/);
  });

  test('that answers 200 with something that is not OTLP has taken it', async () => {
    const { exports, dropped } = await use.open({});
    use.collector.trouble(answerBytes(200, { 'content-type': 'text/plain' }, Buffer.alloc(300_000, 'ok ')));
    exports.sink.take(spans(0, 1));
    await until('it was asked', () => use.collector.server.requests.length > 0);
    await exports.close();
    assert.deepEqual(dropped(), {});
  });

  test('never costs more than its queue: what is too much is dropped, counted and told once', async () => {
    const { exports, lines, dropped } = await use.open({ queue_spans: 512 });
    use.collector.trouble(() => {});
    exports.sink.take(spans(0, 700));
    exports.sink.take(spans(700, 100));
    assert.deepEqual(dropped(), { queue_full: 288 });
    assert.equal(lines.filter((line) => /is dropped/.test(line)).length, 1);
  });
});

test('what cannot be encoded is dropped and counted, and keeps nothing else waiting', async () => {
  const { exports, dropped } = await use.open({});
  const bad = () => {
    throw new Error('of no value');
  };
  exports.sink.take([span(1, { attributes: Object.defineProperty({}, 'bad', { get: bad, enumerable: true }) })]);
  await until('it is counted', () => dropped().refused === 1);
  exports.sink.take([span(2)]);
  await use.collector.span('the next one', ({ name }) => name === 'span 2');
});

test('at the end the log says what a collector that does not answer has not got', async () => {
  const { exports, lines } = await use.open({});
  use.collector.trouble(() => {});
  exports.sink.take(spans(0, 3));
  await exports.close();
  assert.match(lines.join(), /"items":3,.*is lost/);
});

test('at the end what waits is sent', async () => {
  const { exports } = await use.open({}, { OTEL_BSP_SCHEDULE_DELAY: '60000' });
  exports.sink.take(spans(0, 1000));
  await exports.close();
  assert.equal(use.collector.spans.length, 1000);
});

test('a reload takes what waits along to where it says, and one that cannot be used changes nothing', async () => {
  const { exports, lines } = await use.open({}, { OTEL_BSP_SCHEDULE_DELAY: '60000', OTHER: 'x=\u0000secret-of-mine' });
  exports.sink.take(spans(0, 2));
  exports.use(use.telemetryOf({ headers_env: 'OTHER' }));
  await until('it is told', () => lines.some((line) => /goes where it went/.test(line)));
  assert.doesNotMatch(lines.join(), /secret-of-mine/);
  exports.use(use.telemetryOf({ protocol: 'http/json' }));
  await exports.close();
  assert.deepEqual(
    use.collector.exports
      .filter(({ signal }) => signal === 'traces')
      .map(({ received }) => received.headers['content-type']),
    ['application/json'],
  );
  assert.equal(use.collector.spans.length, 2);
});

test('a tracer that a stage got before a reload goes on telling spans', async () => {
  const { exports, dropped } = await use.open({});
  const tracer = trace.getTracer('a stage');
  exports.use(use.telemetryOf({ protocol: 'http/json' }));
  exports.sink.take(spans(0, 1));
  await use.collector.span('one by the new settings', ({ name }) => name === 'span 0');
  await until('the settings are new', () =>
    use.collector.exports.some(({ received }) => received.headers['content-type'] === 'application/json'),
  );
  tracer.startSpan('of a stage').end();
  await use.collector.span('that of the stage', ({ name }) => name === 'of a stage');
  assert.deepEqual(dropped(), {});
});

test('without a collector nothing is made of spans', async () => {
  const { exports } = await use.open(undefined);
  assert.equal(exports.sink.active, false);
});

test('the log says where telemetry goes, at the start and after a reload', async () => {
  const { exports, lines } = await use.open({ endpoint: `${use.collector.url}?key=planted` });
  exports.use(use.telemetryOf({ traces: false, metrics: true }));
  await until('it is told twice', () => lines.filter((line) => /where telemetry goes/.test(line)).length === 2);
  exports.use(use.telemetryOf({ traces: false }));
  await until('it is told that nothing is', () => lines.some((line) => /is not sent any more/.test(line)));
  const [first, second] = lines.map((line) => JSON.parse(line));
  assert.deepEqual([first.traces, first.metrics, first.logs], [use.collector.endpoint, undefined, undefined]);
  assert.deepEqual([second.traces, second.metrics], [undefined, `${use.collector.url}/v1/metrics`]);
});

for (const [what, otlp, env, said] of [
  [
    'an exporter that the gateway lacks',
    undefined,
    { OTEL_TRACES_EXPORTER: 'zipkin' },
    /OTEL_TRACES_EXPORTER.*otlp or/,
  ],
  ['a file of the SDK', undefined, { OTEL_CONFIG_FILE: 'otel.yaml' }, /OTEL_CONFIG_FILE is not read.*telemetry\.otlp/],
  ['metrics on the console', undefined, { OTEL_METRICS_EXPORTER: 'console' }, /OTEL_METRICS_EXPORTER.*metrics\.listen/],
  [
    'no SDK where gateway.yaml names a collector',
    {},
    { OTEL_SDK_DISABLED: 'true' },
    /nothing is sent.*OTEL_SDK_DISABLED/,
  ],
] as const) {
  test(`variables that ask for ${what} are told of`, async () => {
    const { lines } = await use.open(otlp, env);
    assert.match(lines[0] ?? '', said);
  });
}

for (const [what, otlp, env, said] of [
  ['gRPC', {}, { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_TRACES_PROTOCOL asks.*gRPC.*4318/],
  [
    'a protocol that is none',
    {},
    { OTEL_EXPORTER_OTLP_PROTOCOL: 'thrift' },
    /OTEL_EXPORTER_OTLP_PROTOCOL has.*http\/json/,
  ],
  ['a file of certificates without any', { ca_file: 'package.json' }, {}, /package\.json .*holds no certificate/],
] as const) {
  test(`${what} stops the start, and the message says what to change`, async () => {
    await assert.rejects(use.open(otlp, env), said);
  });
}
