/** A file of OpenTelemetry's own configuration says where everything goes. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { StartError } from '../../../engine/contract/start-error.ts';
import { span } from './finished-span.ts';
import { useExports } from './use-exports.ts';

const use = useExports();
const directory = mkdtempSync(join(tmpdir(), 'appscli-otel-'));
after(() => rmSync(directory, { recursive: true }));
afterEach(() => {
  delete process.env.OTEL_CONFIG_FILE;
});

function file(text: string): NodeJS.ProcessEnv {
  const path = join(directory, 'otel.yaml');
  writeFileSync(path, text);
  // The SDK reads this variable itself.
  process.env.OTEL_CONFIG_FILE = path;
  return { OTEL_CONFIG_FILE: path };
}

const exporter = (signal: string) => `{ otlp_http: { endpoint: "${use.collector.url}/v1/${signal}" } }`;
const configuration = () => `
file_format: "1.0"
resource: { attributes: [{ name: service.name, value: by-file }] }
tracer_provider: { processors: [{ batch: { schedule_delay: 10, exporter: ${exporter('traces')} } }] }
meter_provider: { readers: [{ periodic: { interval: 30, timeout: 30, exporter: ${exporter('metrics')} } }] }
logger_provider: { processors: [{ batch: { schedule_delay: 10, exporter: ${exporter('logs')} } }] }
`;

test('spans with their identifiers, lines of the log, counters and gauges go where the file says', async () => {
  const { exports, registry, log } = await use.open(undefined, file(configuration()));
  assert.equal(exports.sink.active, true);
  const parent_span_id = 'b7ad6b7169203331';
  exports.sink.take([span(1), span(2, { parent_span_id, parent_is_remote: true, failed: true })]);
  registry.add('gateway.refusals', { 'gateway.error.code': 'forbidden' }, 2);
  log.info({ trace_id: span(1).trace_id, span_id: span(1).span_id, count: 1 }, 'hello');

  const root = await use.collector.span('the first', ({ name }) => name === 'span 1');
  assert.deepEqual([root.trace_id, root.span_id, root.parent_span_id], [span(1).trace_id, span(1).span_id, undefined]);
  assert.equal(root.resource['service.name'], 'by-file');
  assert.equal(root.began_at, span(1).began_at);
  const child = await use.collector.span('the second', ({ name }) => name === 'span 2');
  assert.deepEqual(
    [child.trace_id, child.span_id, child.parent_span_id],
    [span(2).trace_id, span(2).span_id, parent_span_id],
  );
  assert.equal(child.status, 'error');
  assert.equal(child.events[0]!.name, 'happened');
  const point = await use.collector.point('gateway.refusals', ({ value }) => value === 2);
  assert.deepEqual(point.labels, { 'gateway.error.code': 'forbidden' });
  await exports.close();
  const record = use.collector.logs.find(({ body }) => body === 'hello')!;
  assert.deepEqual([record.trace_id, record.severity], [span(1).trace_id, 'INFO']);
});

test('one that cannot be used stops the start and says what is wrong', async () => {
  await assert.rejects(
    use.open(undefined, file('file_format: "1.0"\ntracer_provider: { processors: [{ nonsense: {} }] }\n')),
    (error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, /OTEL_CONFIG_FILE .*nonsense/);
      return true;
    },
  );
});

test('gateway.yaml comes before it', async () => {
  const { exports } = await use.open({}, file('nonsense: 1'));
  exports.sink.take([span(1)]);
  const { resource } = await use.collector.span('the span', ({ name }) => name === 'span 1');
  assert.equal(resource['service.name'], 'appscli-gateway');
});
