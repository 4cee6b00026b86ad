/** A gateway exports to the collector of `telemetry.otlp`, and serves as before when that is away. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, beforeEach, test } from 'node:test';
import { bootGateway, gatewayConfig, type TestGateway } from '../../support/gateway.ts';
import { REACHED_SECONDS } from '../../support/limits.ts';
import { hang, type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector, type TestCollector } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';

const SECRET = 'planted-0123456789';
const ENV = {
  OTEL_HEADERS: `authorization=Basic%20${SECRET},x-team=platform`,
  OTEL_BSP_SCHEDULE_DELAY: '5',
  OTEL_RESOURCE_ATTRIBUTES: 'service.namespace=models,deployment.environment.name=from-the-variable',
};

let upstream: ScriptedUpstream;
let collector: TestCollector;
let gateway: TestGateway;

const withTelemetry = (otlp: object) => ({
  telemetry: {
    otlp: { endpoint: collector.url, headers_env: 'OTEL_HEADERS', metrics: false, ...otlp },
    resource: { 'deployment.environment.name': 'from-the-file' },
  },
});

before(async () => {
  upstream = await startUpstream();
  collector = await startCollector();
  gateway = await bootGateway({ upstream_url: upstream.url, config: withTelemetry({}), env: ENV });
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await collector?.close();
});
beforeEach(() => collector.clear());

const isRequest = ({ name }: { readonly name: string }) => name === 'POST /v1/messages';

test('spans go to the endpoint, at /v1/traces where it has no path, with the headers and the resource', async () => {
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  const { server } = await collector.request('the request', isRequest);
  const sent = collector.exports.find(({ spans }) => spans.includes(server))!.received;
  assert.equal(sent.url, '/v1/traces');
  assert.equal(sent.headers.authorization, `Basic ${SECRET}`);
  assert.equal(sent.headers['x-team'], 'platform');
  assert.equal(server.resource['service.name'], 'appscli-gateway');
  assert.equal(server.resource['service.namespace'], 'models');
  assert.equal(server.resource['deployment.environment.name'], 'from-the-file');
  assert.doesNotMatch(gateway.logs.join(), new RegExp(SECRET));
});

test('a reload changes how they are sent', async () => {
  await writeFile(
    gateway.config_file,
    JSON.stringify(gatewayConfig(upstream.url, withTelemetry({ protocol: 'http/json' }))),
  );
  await gateway.reload();
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  await collector.request('the request', isRequest);
  assert.equal(collector.exports.at(-1)!.received.headers['content-type'], 'application/json');
});

test('a request that the gateway aborts at shutdown is exported before exit', async () => {
  const { server } = gatewayConfig(upstream.url) as { readonly server: object };
  const other = await bootGateway({
    upstream_url: upstream.url,
    config: { ...withTelemetry({}), server: { ...server, timeouts: { drain_seconds: REACHED_SECONDS } } },
    env: { ...ENV, OTEL_BSP_SCHEDULE_DELAY: '60000' },
  });
  const { script } = upstream;
  upstream.script = hang;
  try {
    const asked = upstream.requests.length;
    const response = ask(other.url, other.token);
    await until('the upstream gets the request', () => upstream.requests.length > asked);
    await other.close();
    assert.equal((await response).status, 503);
    const { server: span, attempts } = await collector.request('the request', isRequest);
    assert.equal(span.attributes['gateway.error.code'], 'draining');
    assert.equal(attempts.length, 1);
  } finally {
    upstream.script = script;
  }
});
