/** A gateway that stops first exports what its collector has not got yet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bootGateway, gatewayConfig } from '../../support/gateway.ts';
import { REACHED_SECONDS } from '../../support/limits.ts';
import { hang, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../../support/telemetry/collector.ts';
import { use } from '../../support/use.ts';
import { ask } from '../support/client.ts';

const upstream = use(() => startUpstream(hang));
const collector = use(startCollector);

test('a request that the gateway aborts at shutdown is exported before exit', async () => {
  const { server } = gatewayConfig(upstream.url) as { readonly server: object };
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: {
      telemetry: { otlp: { endpoint: collector.url, metrics: false } },
      server: { ...server, timeouts: { drain_seconds: REACHED_SECONDS } },
    },
    env: { OTEL_BSP_SCHEDULE_DELAY: '60000' },
  });
  const response = ask(gateway.url, gateway.token);
  await upstream.arrived(1);
  await gateway.close();
  assert.equal((await response).status, 503);
  const { server: span, attempts } = await collector.request('the request', ({ kind }) => kind === 'server');
  assert.equal(span.attributes['gateway.error.code'], 'draining');
  assert.equal(attempts.length, 1);
});
