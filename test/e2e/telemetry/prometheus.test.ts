/** A gateway that serves its metrics to Prometheus: at the address of gateway.yaml, and nowhere else. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { METRICS, type MetricSpec } from '../../../engine/domain/telemetry/catalogue/metrics.ts';
import { prometheusName } from '../../../engine/domain/telemetry/catalogue/prometheus-names.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway } from '../../support/gateway.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { parsePrometheusText } from '../../support/telemetry/prometheus-text.ts';
import { until } from '../../support/until.ts';
import { useGateway } from '../support/use-gateway.ts';

const resource = { 'deployment.environment.name': 'test' };
const first = `127.0.0.1:${await freePort()}`;
const second = `127.0.0.1:${await freePort()}`;
const { gateway } = useGateway({ telemetry: { metrics: { listen: first }, resource } });

const read = async (listen: string, headers = {}) => {
  const response = await fetch(`http://${listen}/metrics`, { headers });
  return { status: response.status, text: await response.text() };
};
/** Absent where nothing listens. */
const statusAt = (listen: string, headers = {}): Promise<number | undefined> =>
  read(listen, headers).then(
    ({ status }) => status,
    () => undefined,
  );

async function reloadWith(telemetry: object): Promise<void> {
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8')) as object;
  await writeFile(gateway.config_file, JSON.stringify({ ...config, telemetry: { ...telemetry, resource } }));
  await gateway.reload();
}

test('GET /metrics is served by its own listener, and not at the gateway', async () => {
  const { status, text } = await read(first);
  assert.equal(status, 200);
  const families = parsePrometheusText(text);
  const target = families.get('target_info')?.samples[0]?.labels;
  assert.equal(target?.service_name, 'appscli-gateway');
  assert.equal(target?.deployment_environment_name, 'test');
  const build = families.get('gateway_build_info')?.samples[0];
  assert.equal(build?.value, 1);
  assert.equal(build?.labels.process_runtime_version, process.versions.node);
  assert.match(build?.labels.gateway_config_hash ?? '', /^[0-9a-f]{12}$/);
  assert.equal((await fetch(`${gateway.url}/metrics`)).status, 404);
  const [rejected] = parsePrometheusText((await read(first)).text).get('gateway_rejected_total')?.samples ?? [];
  const { http_response_status_code, gateway_error_code } = rejected?.labels ?? {};
  assert.deepEqual([http_response_status_code, gateway_error_code, rejected?.value], ['404', 'path_not_found', 1]);
});

test('every gauge of the catalogue is in the metrics of a running gateway', async () => {
  const families = await until('the first heartbeat is written', async () => {
    const read_now = parsePrometheusText((await read(first)).text);
    return read_now.get('gateway_database_up')?.samples[0]?.value === 1 && read_now;
  });
  const expected = Object.entries<MetricSpec>(METRICS)
    .filter(
      ([name, { kind }]) => kind === 'gauge' && !/^gateway\.(?:budget|telemetry\.queue|client_telemetry)/.test(name),
    )
    .map(([name, spec]) => prometheusName(name, spec))
    // The event loop is watched from the first reading on, and this gateway has no limit in money.
    .filter((name) => !/delay|overshoot/.test(name));
  const missing = expected.filter((name) => !families.has(name));
  assert.deepEqual(missing, []);
});

test('a reload moves the listener, also to another address with its port, adds a token, and removes it', async () => {
  const becomes = (status: number | undefined, listen: string) =>
    until(`${listen} has the status ${status}`, async () => (await statusAt(listen)) === status);
  await reloadWith({ metrics: { listen: second } });
  await becomes(200, second);
  await becomes(undefined, first);
  gateway.env.TEST_METRICS_TOKEN = 'reader-token-7c1d';
  await reloadWith({ metrics: { listen: second, token_env: 'TEST_METRICS_TOKEN' } });
  await becomes(401, second);
  assert.equal(await statusAt(second, { authorization: 'Bearer reader-token-7c1d' }), 200);
  await reloadWith({});
  await becomes(undefined, second);
  await reloadWith({ metrics: { listen: first } });
  await becomes(200, first);
  const everywhere = `0.0.0.0:${first.split(':')[1]}`;
  await reloadWith({ metrics: { listen: everywhere, token_env: 'TEST_METRICS_TOKEN' } });
  await becomes(401, first);
  await reloadWith({ metrics: { listen: first } });
  await becomes(200, first);
});

test('a reload to an address in use leaves the metrics where they are, and reports it', async () => {
  const port = await ownPort(createServer());
  await reloadWith({ metrics: { listen: `127.0.0.1:${port}` } });
  await until('it is reported', () =>
    gateway.logs.some((line) => line.includes('the metrics listener could not be moved')),
  );
  assert.ok(gateway.logs.some((line) => line.includes(`127.0.0.1:${port} is in use by another program`)));
  assert.equal((await read(first)).status, 200);
});

test('a gateway does not start when its metrics cannot be served, and names the key to change', async () => {
  const config = { telemetry: { metrics: { listen: first } } };
  const remedy = 'stop it, or set telemetry.metrics.listen in gateway.yaml to a free port';
  await assert.rejects(bootGateway({ upstream_url: 'http://127.0.0.1:9', config }), {
    message: `${first} is in use by another program; ${remedy}`,
  });
});
