/** examples/custom-audit-stage as its README runs it: the stand-in for a SIEM, the gateway, one request. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { start } from '../cli/support.ts';
import { send } from '../e2e/support/client.ts';
import { startGatewayProcess } from '../e2e/support/gateway-process.ts';
import { createTestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';

const EXAMPLE = join(import.meta.dirname, '../../examples/custom-audit-stage');

/** A copy of the example on ports that are free and a database of the test's own. */
async function copyExample(ports: { gateway: number; siem: number }): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-siem-'));
  await cp(EXAMPLE, directory, { recursive: true });
  const change = async (name: string, edit: (text: string) => string) => {
    const file = join(directory, name);
    await writeFile(file, edit(await readFile(file, 'utf8')));
  };
  const database = '\ndatabase:\n  postgres: { url_env: TEST_DATABASE_URL }\n';
  const onPorts = (text: string) => text.replaceAll(':8080', `:${ports.gateway}`).replace(':8088', `:${ports.siem}`);
  await change('gateway.yaml', (text) => onPorts(text) + database);
  return directory;
}

test('the record of a refused request reaches a SIEM that is away at first', async (t) => {
  const ports = { gateway: await freePort(), siem: await freePort() };
  const directory = await copyExample(ports);
  t.after(() => rm(directory, { recursive: true, force: true }));
  const siem = start(process.execPath, [join(EXAMPLE, 'fake-siem.ts'), '--port', String(ports.siem), '--away', '1']);
  await until('the SIEM listens', () => siem.stderr().includes('listening'));
  const { url: TEST_DATABASE_URL, drop } = await createTestDatabase();
  t.after(drop);
  const env = { ...process.env, UPSTREAM_KEY: 'upstream-secret', SIEM_TOKEN: 'siem-secret', TEST_DATABASE_URL };
  const gateway = await startGatewayProcess(join(directory, 'gateway.yaml'), env);

  const answer = await send(gateway.url, { method: 'POST', path: '/v1/messages', body: '{"planted": "prompt"}' });
  assert.equal(answer.status, 401);
  // Stopping sends what waits: once refused by the SIEM, it is sent again in time.
  await until('the first attempt has failed', () => gateway.output().includes('takes no records'));
  assert.equal((await gateway.end('SIGINT')).code, 0);

  const [record, ...more] = siem.stdout().trimEnd().split('\n');
  assert.deepEqual(more, []);
  const { 'outcome.status': status, 'request.path': path, 'outcome.error': error } = JSON.parse(record!);
  assert.deepEqual([status, path, error], [401, '/v1/messages', 'credential_missing']);
  assert.doesNotMatch(gateway.output() + record, /secret|planted/);
});
