import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bootGateway, type TestGateway } from '../support/gateway.ts';
import { startCollector, type TestCollector } from '../support/telemetry/collector.ts';
import { until } from '../support/until.ts';

let gateway: TestGateway;
let collector: TestCollector;
let narrow: TestCollector;

before(async () => {
  collector = await startCollector();
  narrow = await startCollector();
  gateway = await bootGateway({
    upstream_url: 'http://127.0.0.1:9',
    config: {
      telemetry: {
        forward_to: [
          { url: collector.url, headers_env: 'TEST_COLLECTOR_HEADERS', logs: true, traces: true },
          {
            url: `${narrow.url}/v1/metrics`,
            names: ['tool.tokens', 'tool.asked'],
            attributes: ['model', 'service.*', 'prompt'],
            logs: true,
            content_reason: 'agreed with the works council on 2026-11-02',
            caller: ['team'],
            compression: 'none',
          },
        ],
      },
    },
    env: { TEST_COLLECTOR_HEADERS: 'authorization=Bearer%20collector-secret-1,x-tenant=a' },
  });
});

after(async () => {
  await gateway?.close();
  await collector?.close();
  await narrow?.close();
});

beforeEach(() => {
  collector.clear();
  narrow.clear();
});

const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const AT = '1763877600123456789';

function metricsOf(...names: string[]): object {
  const metrics = names.map((name) => ({
    name,
    unit: '{token}',
    sum: {
      aggregationTemporality: 1,
      isMonotonic: true,
      dataPoints: [
        {
          startTimeUnixNano: AT,
          timeUnixNano: AT,
          asInt: '41',
          attributes: [text('model', 'coder-1'), text('type', 'input')],
        },
      ],
    },
  }));
  const resource = { attributes: [text('service.name', 'tool'), text('user.email', 'boss@example.com')] };
  return { resourceMetrics: [{ resource, scopeMetrics: [{ scope: { name: 'tool' }, metrics }] }] };
}

function logsOf(attributes: readonly object[], record: object = {}): object {
  const resource = { attributes: [text('service.name', 'tool')] };
  const logRecords = [
    {
      timeUnixNano: AT,
      body: { stringValue: 'tool.asked' },
      attributes: [text('event.name', 'asked'), ...attributes],
      ...record,
    },
  ];
  return { resourceLogs: [{ resource, scopeLogs: [{ scope: { name: 'tool' }, logRecords }] }] };
}

function send(signal: string, body: object | Buffer | string, headers: Record<string, string> = {}): Promise<Response> {
  const is_bytes = typeof body === 'string' || Buffer.isBuffer(body);
  return fetch(`${gateway.url}/v1/${signal}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.token}`, 'content-type': 'application/json', ...headers },
    body: is_bytes ? body : JSON.stringify(body),
  });
}

describe('telemetry of clients', () => {
  test('reaches a collector with who sent it on the resource, whatever the client says there', async () => {
    const token = await gateway.newToken({ user: 'ada@example.com', team: 'compilers', project: 'parser' });
    const answer = await send('metrics', metricsOf('tool.tokens'), { authorization: `Bearer ${token}` });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'application/json');
    assert.equal(await answer.text(), '{}');
    const point = await collector.point('tool.tokens');
    assert.equal(point.value, 41);
    assert.equal(point.resource['user.email'], 'ada@example.com');
    assert.equal(point.resource['gateway.team'], 'compilers');
    assert.equal(point.resource['gateway.project'], 'parser');
    assert.equal(point.resource['gateway.token_group'], 'all');
    assert.equal(point.resource['identity.source'], 'gateway-token');
    assert.equal(point.resource['service.name'], 'tool');
    assert.ok(point.resource['user.id']);
    assert.ok(!collector.wire().includes('boss@example.com'));
    assert.match(collector.wire(), /authorization\nBearer collector-secret-1\nx-tenant\na\n/);
  });

  test('goes to each destination without what it may not have', async () => {
    const content = [text('prompt', 'a planted prompt'), text('tool_input', 'planted input')];
    await send('metrics', metricsOf('tool.tokens', 'tool.sessions'));
    await send(
      'logs',
      logsOf([...content, text('prompt_length', '16'), text('model', 'coder-1'), text('user.email', 'x@y.z')]),
    );
    await until('both metrics arrived', () => collector.points.length === 2);
    const [log] = await until('the event arrived', () => collector.logs.length > 0 && collector.logs);
    assert.deepEqual(log?.attributes, { 'event.name': 'asked', prompt_length: '16', model: 'coder-1' });
    assert.equal(log?.body, 'tool.asked');
    const [point, ...more] = await until('the metric arrived', () => narrow.points.length > 0 && narrow.points);
    assert.deepEqual(more, []);
    assert.equal(point?.metric, 'tool.tokens');
    assert.deepEqual(point?.labels, { model: 'coder-1' });
    assert.deepEqual(point?.resource, { 'service.name': 'tool', 'identity.source': 'gateway-token' });
    const [agreed] = await until('the event arrived', () => narrow.logs.length > 0 && narrow.logs);
    assert.deepEqual(agreed?.attributes, { prompt: 'a planted prompt', model: 'coder-1' });
    assert.ok(!collector.wire().includes('planted'));
  });

  test('has no credentials left, not even where texts may pass', async () => {
    const planted = [
      text('model', `gw_${'a1b2'.repeat(8)}`),
      text('prompt', 'use the header authorization: Bearer abcdef0123456789'),
      text('api_key', 'planted-key'),
      text('service.password', 'planted-password'),
    ];
    await send(
      'logs',
      logsOf([...planted, text('token_type', 'input')], { body: { stringValue: `gw_${'a1b2'.repeat(8)}` } }),
    );
    await send('logs', logsOf(planted));
    await until('both arrived', () => narrow.logs.length === 1 && collector.logs.length === 2);
    assert.deepEqual(collector.logs[0]?.attributes, { 'event.name': 'asked', token_type: 'input' });
    for (const { wire } of [collector, narrow]) assert.doesNotMatch(wire(), /planted|a1b2|abcdef01/);
  });

  test('is taken in protobuf and JSON, compressed or not, with either header for the credential', async () => {
    const { decodeRequest, encodeRequest } = await import('../../engine/telemetry/relay/otlp/codec.ts');
    const json = Buffer.from(JSON.stringify(logsOf([])));
    const protobuf = encodeRequest('logs', decodeRequest('logs', 'json', json));
    const type = { 'content-type': 'application/x-protobuf' };
    const answers = [
      await send('logs', protobuf, type),
      await send('logs', gzipSync(protobuf), { ...type, 'content-encoding': 'gzip' }),
      await send('logs', gzipSync(json), { 'content-encoding': 'gzip', authorization: '', 'x-api-key': gateway.token }),
    ];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.deepEqual(
      answers.map(({ headers }) => headers.get('content-type')),
      ['application/x-protobuf', 'application/x-protobuf', 'application/json'],
    );
    assert.equal(await answers[0]?.text(), '');
    const logs = await until('three events arrived', () => collector.logs.length === 3 && collector.logs);
    assert.ok(logs.every(({ at }) => Math.trunc(at) === 1_763_877_600_123));
  });

  test('that cannot be taken is answered by OTLP status', async () => {
    const bomb = gzipSync(Buffer.alloc(16 * 1024 * 1024));
    const many = Buffer.alloc(1024 * 1024);
    for (let at = 0; at < many.length; at += 2) many[at] = 0x0a;
    const protobuf = { 'content-type': 'application/x-protobuf' };
    const refused: [string, Promise<Response>, number, number][] = [
      ['no credential', send('logs', {}, { authorization: '' }), 401, 16],
      ['a wrong credential', send('logs', {}, { authorization: 'Bearer gw_nobody' }), 401, 16],
      ['no JSON', send('logs', '{"resourceLogs":'), 400, 3],
      ['another shape', send('logs', '{"resourceLogs":7}'), 400, 3],
      ['deep JSON', send('logs', `{"a":${'['.repeat(500_000)}`), 400, 3],
      ['another type', send('logs', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }), 415, 3],
      ['another coding', send('logs', 'a', { 'content-encoding': 'compress' }), 415, 3],
      ['no gzip', send('logs', 'a', { 'content-encoding': 'gzip' }), 400, 3],
      ['a body that grows', send('logs', bomb, { 'content-encoding': 'gzip' }), 413, 8],
      ['a large body', send('logs', Buffer.alloc(5 * 1024 * 1024)), 413, 8],
    ];
    for (const [what, sent, status, code] of refused) {
      const answer = await sent;
      assert.equal(answer.status, status, what);
      assert.equal(answer.headers.get('content-type'), 'application/json', what);
      const said = (await answer.json()) as { code: number; message: string };
      assert.equal(said.code, code, what);
      assert.ok(said.message.length > 20, what);
    }
    const binary = await send('traces', many, protobuf);
    assert.equal(binary.status, 400);
    assert.equal(binary.headers.get('content-type'), 'application/x-protobuf');
    assert.match(await binary.text(), /it has more than 300000 values/);
    const got = await fetch(`${gateway.url}/v1/logs`, { headers: { authorization: `Bearer ${gateway.token}` } });
    assert.equal(got.status, 405);
    assert.equal(got.headers.get('allow'), 'POST');
    assert.deepEqual(collector.exports, []);
  });

  test('goes where a reload says, and is answered the same where it goes nowhere', async () => {
    const written = await readFile(gateway.config_file, 'utf8');
    const config = JSON.parse(written);
    const use = async (forward_to: readonly object[]) => {
      await writeFile(gateway.config_file, JSON.stringify({ ...config, telemetry: { forward_to } }));
      await gateway.reload();
    };
    await use([]);
    assert.equal((await send('metrics', metricsOf('tool.tokens'))).status, 200);
    await use([{ url: narrow.url }]);
    assert.equal((await send('metrics', metricsOf('tool.moved'))).status, 200);
    await narrow.point('tool.moved');
    assert.deepEqual(
      narrow.points.map(({ metric }) => metric),
      ['tool.moved'],
    );
    assert.deepEqual(collector.points, []);
    await writeFile(gateway.config_file, written);
    await gateway.reload();
  });

  test('is answered at once while its destination hangs, and gets there afterwards', async () => {
    let hanging: (() => void) | undefined;
    collector.trouble(({ res }) => {
      hanging = () => res.writeHead(503, { 'retry-after': '0' }).end();
    });
    for (let n = 0; n < 3; n++) assert.equal((await send('metrics', metricsOf(`tool.late${n}`))).status, 200);
    await until('the collector was asked', () => hanging !== undefined);
    collector.trouble(undefined);
    hanging?.();
    await until('all of it arrived', () => collector.points.length === 3);
  });
});
