import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { test } from 'node:test';
import { gatewayConfig, writeConfig } from '../support/gateway.ts';
import { commandBench } from './sign-in/with-gateway.ts';
import { cli } from './support.ts';

const bench = commandBench();

test('without its database a command says so in one line and exits 69', async () => {
  const unreachable = new URL(bench.database_url);
  unreachable.port = '1';
  const ended = await cli(['usage', '--config', bench.config_file], {
    env: { ...bench.env, TEST_DATABASE_URL: unreachable.href },
  });
  assert.equal(ended.exit_code, 69);
  assert.equal(ended.stdout, '');
  assert.match(ended.stderr, /^appscli: [^\n]*TEST_DATABASE_URL\n$/);
  assert.ok(!ended.stderr.includes(unreachable.password));
});

test('a missing configuration and a broken one exit 78 with what is wrong', async () => {
  const missing = await cli(['usage', '--config', 'nowhere.yaml'], { env: bench.env });
  assert.equal(missing.exit_code, 78);
  assert.match(missing.stderr, /nowhere\.yaml/);
  const broken = await writeConfig({ ...gatewayConfig('http://127.0.0.1:9'), serverr: {} });
  const ended = await cli(['tokens', 'list', '--config', broken.config_file], { env: bench.env });
  assert.equal(ended.exit_code, 78);
  assert.match(ended.stderr, /serverr/);
  assert.equal(ended.stdout, '');
  await rm(broken.directory, { recursive: true });
});
