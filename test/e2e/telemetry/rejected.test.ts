import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { parsePrometheusText } from '../../support/telemetry/prometheus-text.ts';
import { metricsUrl, READABLE_METRICS } from '../../support/telemetry/read-metrics.ts';
import { useGateway } from '../support/use-gateway.ts';

let gateway: TestGateway;
useGateway(
  (opened) => {
    gateway = opened.gateway;
  },
  { telemetry: READABLE_METRICS },
);

async function send(raw: string): Promise<string> {
  const { port } = new URL(gateway.url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.end(raw);
  return text(socket);
}

test('requests that no pipeline takes are counted by why', async () => {
  await fetch(`${gateway.url}/nowhere`);
  await fetch(`${gateway.url}/v1/messages`);
  await send('NONSENSE\r\n\r\n');
  await send('GET /v1/messages HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade, close\r\n\r\n');
  const page = await (await fetch(metricsUrl(gateway))).text();
  const found = parsePrometheusText(page).get('gateway_rejected_total')?.samples ?? [];
  const counts = found.map(({ labels, value }) => [labels.http_response_status_code, labels.gateway_error_code, value]);
  assert.deepEqual(counts.toSorted(), [
    ['400', 'bad_http', 1],
    ['404', 'path_not_found', 1],
    ['405', 'method_not_allowed', 1],
    ['426', 'upgrade_required', 1],
  ]);
});
