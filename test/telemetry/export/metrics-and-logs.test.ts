/** Metrics and lines of the log reach a collector. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerBytes } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { useExports } from './use-exports.ts';

const use = useExports();
const SOON = { metrics: { interval_seconds: 0.02 } };
const labels = { 'gateway.error.code': 'forbidden' };

describe('metrics', () => {
  for (const protocol of ['http/protobuf', 'http/json']) {
    test(`are sent again and again by ${protocol}, each time with all since the start`, async () => {
      const { registry } = await use.open({ metrics: true, protocol }, {}, SOON);
      registry.add('gateway.refusals', labels, 2);
      const first = await use.collector.point('gateway.refusals', ({ value }) => value === 2);
      assert.deepEqual(first.labels, labels);
      assert.equal(first.temporality, 'cumulative');
      assert.equal(first.resource['service.name'], 'appscli-gateway');
      registry.add('gateway.refusals', labels);
      await use.collector.point('gateway.refusals', ({ value }) => value === 3);
    });
  }

  test('are differences where the variable asks for them, also after a reload', async () => {
    const env = { OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'delta' };
    const { registry, exports } = await use.open({ metrics: true }, env, SOON);
    registry.add('gateway.refusals', labels, 2);
    assert.equal((await use.collector.point('gateway.refusals')).temporality, 'delta');
    exports.use(use.telemetryOf({ metrics: true, compression: 'gzip' }, SOON));
    registry.add('gateway.refusals', labels);
    await until('the rest arrives', () => told() >= 3);
    await exports.close();
    assert.equal(told(), 3);
  });

  test('are sent a last time at the end', async () => {
    const { registry, exports } = await use.open({ metrics: true });
    registry.add('gateway.refusals', labels, 2);
    await exports.close();
    assert.equal(told(), 2);
  });

  test('that a collector does not take are told of once, and are there when it takes them again', async () => {
    use.collector.trouble(answerBytes(400, {}, 'no'));
    const { registry, lines } = await use.open({ metrics: true }, {}, SOON);
    registry.add('gateway.refusals', labels, 2);
    await until('it was asked twice', () => use.collector.server.requests.length > 1);
    use.collector.trouble(undefined);
    await use.collector.point('gateway.refusals', ({ value }) => value === 2);
    assert.equal(lines.filter((line) => /refuses telemetry/.test(line)).length, 1);
  });
});

function told(): number {
  const points = use.collector.points.filter(({ metric }) => metric === 'gateway.refusals');
  return points.reduce((sum, { value }) => sum + value, 0);
}

describe('the log', () => {
  test('is sent as it is written: without secrets, with its level, its fields and its trace', async () => {
    const { log } = await use.open({ logs: true });
    log.hide('hunter2-hunter2');
    const trace_id = '0af7651916cd43dd8448eb211c80319c';
    const fields = { trace_id, count: 3, password: 'planted', nested: { token: 'planted', kept: true } };
    log.warn(fields, 'something about hunter2-hunter2');
    const record = await until('it arrives', () =>
      use.collector.logs.find(({ body }) => /something/.test(String(body))),
    );
    assert.equal(record.body, 'something about [secret]');
    assert.equal(record.severity, 'WARN');
    assert.equal(record.severity_number, 13);
    assert.equal(record.trace_id, trace_id);
    assert.deepEqual(record.attributes, { count: 3, password: '[secret]', nested: { token: '[secret]', kept: true } });
    assert.doesNotMatch(use.collector.wire(), /planted|hunter2/);
  });

  test('says of an error its type, its words and where it happened', async () => {
    const { log } = await use.open({ logs: true });
    log.error({ err: new TypeError('no such thing') }, 'it broke');
    const { attributes } = await until('it arrives', () => use.collector.logs.find(({ body }) => body === 'it broke'));
    assert.equal(attributes['exception.type'], 'TypeError');
    assert.equal(attributes['exception.message'], 'no such thing');
    assert.match(String(attributes['exception.stacktrace']), /metrics-and-logs/);
  });

  test('never holds a credential for the collector', async () => {
    const env = { HEADERS: 'authorization=Basic%20planted-0123,x-team=platform' };
    const { log, lines } = await use.open({ logs: true, headers_env: 'HEADERS' }, env);
    log.info({ text: 'Basic planted-0123', platform: 'planted-0123' }, 'of planted-0123 and platform');
    await until('it arrives', () => use.collector.logs.length === 1);
    assert.equal(use.collector.logs[0]!.body, 'of [secret] and platform');
    assert.doesNotMatch(lines.join() + use.collector.exports.map(({ body }) => body.toString()).join(), /planted/);
  });

  test('goes on after a line that cannot be read', async () => {
    const { log, tap, dropped } = await use.open({ logs: true });
    tap('{"level":30,"port":[secret]}');
    await until('it is counted', () => dropped().refused === 1);
    log.info({}, 'the next one');
    await until('it arrives', () => use.collector.logs.some(({ body }) => body === 'the next one'));
  });

  test('is not sent unless it is asked for', async () => {
    const { log, exports } = await use.open({});
    log.error({}, 'it broke');
    await exports.close();
    assert.deepEqual(use.collector.logs, []);
  });

  test('about a collector that does not take the log does not feed itself', async () => {
    use.collector.trouble(answerBytes(400, {}, 'no'));
    const { log, lines, troubles } = await use.open({ logs: true });
    log.error({}, 'it broke');
    await until('it was refused', () => lines.some((line) => /refuses telemetry/.test(line)));
    await until('that was refused too', () => use.collector.server.requests.length === 2);
    assert.equal(troubles().length, 2);
  });
});
