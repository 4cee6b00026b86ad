/** The examples that no other test boots start as they are, on ports and databases of the test. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startGateway } from '../../engine/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { cli, collectingLog } from '../cli/support.ts';
import { createTestDatabase } from '../support/database.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { until } from '../support/until.ts';

for (const name of ['rules', 'operations', 'every-client', 'redact-email-addresses', 'other-endpoints']) {
  test(`examples/${name} passes the check without a warning and serves requests`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'appscli-example-'));
    const closing: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
    // Hooks run in the order in which they were added, and a gateway that is not closed yet writes to its directory.
    t.after(async () => {
      for (const close of closing) await close();
    });
    // All of them, as one may name a file of another.
    await cp(join(REPOSITORY, 'examples'), directory, { recursive: true });
    const { url: DATABASE_URL, drop } = await createTestDatabase();
    closing.unshift(drop);
    const config_file = join(directory, name, 'gateway.yaml');
    const shipped = await readFile(config_file, 'utf8');
    const database = /^database:/m.test(shipped) ? '' : '\ndatabase:\n  postgres: { url_env: DATABASE_URL }\n';
    // No collector listens there; that must not keep a gateway from serving.
    const moved = shipped
      .replace(/listen: \S+/, 'listen: 127.0.0.1:0')
      .replace('127.0.0.1:9464', '127.0.0.1:0')
      .replaceAll('https://otel.example.com', 'http://127.0.0.1:9');
    await writeFile(config_file, moved + database);
    const secrets = [...shipped.matchAll(/(\w+)_env: (\w+)/g)].map(([, what, variable]) => [
      variable!,
      what === 'headers' ? 'authorization=not-needed-here' : 'not-needed-here',
    ]);
    const env = { ...process.env, ...Object.fromEntries(secrets), DATABASE_URL };

    const checked = await cli(['check', '--deny-warnings', '--config', config_file], { env });
    assert.equal(checked.exit_code, 0, checked.stdout + checked.stderr);
    const gateway = await startGateway({ config_file, stages, env, log: collectingLog().log });
    closing.unshift(() => gateway.close());
    await until('the database is ready', async () => (await gateway.database.check()).ok);
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
  });
}
