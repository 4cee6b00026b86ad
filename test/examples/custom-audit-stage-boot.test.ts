/** examples/custom-audit-stage as its README runs it: the mock of a SIEM, the gateway, one request. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { start } from '../cli/support.ts';
import { send } from '../e2e/support/client.ts';
import { startGatewayProcess } from '../e2e/support/gateway-process.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import { copyExample } from './support.ts';

test('the record of a rejected request reaches a SIEM that is away at first', async (t) => {
  const ports = { gateway: await freePort(), siem: await freePort() };
  const { directory, config_file, env, close } = await copyExample('custom-audit-stage', [
    ['listen: 127.0.0.1:8080', `listen: 127.0.0.1:${ports.gateway}`],
    [':8088', `:${ports.siem}`],
  ]);
  t.after(close);
  const siem = start(process.execPath, [join(directory, 'fake-siem.ts'), '--port', String(ports.siem), '--away', '1']);
  await until('the SIEM listens', () => siem.stderr().includes('listening'));
  const secrets = { UPSTREAM_KEY: 'upstream-secret', SIEM_TOKEN: 'siem-secret' };
  const gateway = await startGatewayProcess(config_file, { ...env, ...secrets });

  const response = await send(gateway.url, { method: 'POST', path: '/v1/messages', body: '{"planted": "prompt"}' });
  assert.equal(response.status, 401);
  // Stopping sends what waits: once refused by the SIEM, it is sent again in time.
  await until('the first attempt has failed', () => gateway.output().includes('takes no records'));
  assert.equal((await gateway.end('SIGINT')).code, 0);

  const [record, ...more] = siem.stdout().trimEnd().split('\n');
  assert.deepEqual(more, []);
  const { 'outcome.status': status, 'request.path': path, 'outcome.error': error } = JSON.parse(record!);
  assert.deepEqual([status, path, error], [401, '/v1/messages', 'credential_missing']);
  assert.doesNotMatch(gateway.output() + record, /secret|planted/);
});
