import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from '@decimalturn/toml-patch';
import { codingCli } from '../../cli/client/set-up.ts';
import { createBackend } from '../../client/scripted-gateway.ts';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { startCollector, type TestCollector } from '../../support/telemetry/collector.ts';

let gateway: TestGateway;
let collector: TestCollector;

before(async () => {
  collector = await startCollector();
  gateway = await bootGateway({
    upstream_url: 'http://127.0.0.1:9',
    config: { telemetry: { forward_to: [{ url: collector.url, metrics: true, logs: false }] } },
  });
});

after(async () => {
  await gateway?.close();
  await collector?.close();
});

describe('a client that was set up with --telemetry', () => {
  const backend = createBackend();
  const exporters = () => {
    const text = readFileSync(join(backend.home, '.codingcli', 'config.toml'), 'utf8');
    return (parse(text) as { otel: Record<string, { 'otlp-http': Exporter }> }).otel;
  };
  interface Exporter {
    readonly endpoint: string;
    readonly headers: Readonly<Record<string, string>>;
  }

  before(async () => {
    const [responses, line] = [false, async () => assert.fail('prompted the user')];
    const given = { baseUrl: gateway.url, model: 'coder-1', telemetry: ['metrics', 'logs'], write: true } as const;
    const more = { tokenStdin: true, check: true } as const;
    const input = { answers: responses, line, all: async () => gateway.token };
    assert.equal(await codingCli(backend.context, { ...given, ...more }, { input }), 0);
    assert.deepEqual(collector.exports, []);
  });

  test('is shown by --check which signals the gateway passes on', () => {
    assert.match(backend.info(), /accepts metrics\n/);
    assert.match(backend.info(), /accepts logs: .* drops them/);
  });

  test('sends data that arrives at the collector, with the user', async () => {
    const { endpoint, headers } = exporters().metrics_exporter!['otlp-http'];
    const gauge = { dataPoints: [{ timeUnixNano: '1763877600123456789', asDouble: 1 }] };
    const scopeMetrics = [{ metrics: [{ name: 'client.sessions', gauge }] }];
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ resourceMetrics: [{ scopeMetrics }] }),
    });
    assert.deepEqual([response.status, await response.text()], [200, '{}']);
    await collector.point('client.sessions');
    assert.ok(collector.exports[0]?.received.headers['x-gateway-caller-id']);
  });

  test('is never shown it while it sends data', async () => {
    const { endpoint, headers } = exporters().exporter!['otlp-http'];
    const logRecords = [{ timeUnixNano: '1763877600123456789', body: { stringValue: 'client.started' } }];
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }),
    });
    assert.deepEqual([response.status, await response.text()], [200, '{}']);
  });
});
