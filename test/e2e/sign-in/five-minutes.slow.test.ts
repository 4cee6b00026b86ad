/** The first five minutes: an empty directory, `init`, `check`, `test`, a running gateway, one rule changed. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli } from '../../cli/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { lastFirst } from '../../support/file-end.ts';
import { startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';

test('a rule of a configuration that init began changes the next request once the file is saved', async (t) => {
  const atEnd = lastFirst(t);
  const directory = ownDirectory();
  const { url: TEST_DATABASE_URL, drop } = await createTestDatabase();
  atEnd(drop);
  const upstream = await startUpstream();
  atEnd(() => upstream.close());
  const env = { ...process.env, UPSTREAM_KEY: 'key', TEST_DATABASE_URL };
  const appscli = async (...args: string[]) => {
    const { exit_code, stdout, stderr } = await cli(args, { env });
    assert.equal(exit_code, 0, `${args.join(' ')}\n${stdout}${stderr}`);
    return stdout.trim();
  };
  const change = async (name: string, edit: (text: string) => string) => {
    const file = join(directory, name);
    await writeFile(file, edit(await readFile(file, 'utf8')));
  };

  await appscli('init', directory);
  await appscli('check', directory, '--deny-warnings');
  await appscli('test', directory);

  // The differences between machines: the provider, the port and here the database.
  const database = '\ndatabase:\n  postgres: { url_env: TEST_DATABASE_URL }\n';
  await change('gateway.yaml', (text) =>
    (text + database)
      .replace('listen: 127.0.0.1:8080', 'listen: 127.0.0.1:0')
      .replace('http://127.0.0.1:8090', upstream.url),
  );
  const config_file = join(directory, 'gateway.yaml');
  const gateway = await startGatewayProcess(config_file, env, ['--watch']);
  atEnd(() => gateway.end('SIGINT'));
  const who = ['--user', 'me@example.com', '--group', 'all', '--name', 'me'];
  const token = await appscli('tokens', 'create', '--config', config_file, ...who);
  const ask = () =>
    send(gateway.url, {
      method: 'POST',
      path: '/v1/messages',
      headers: bearer(token),
      body: messagesBody({ max_tokens: 9000 }),
    });

  const refused = await ask();
  assert.equal(refused.status, 400);
  assert.match(refused.text, /limited to 8000 tokens/);
  assert.equal(upstream.requests.length, 0);

  await change('pipelines/long-answers.yaml', (text) => text.replace('}, 8000]', '}, 10000]'));
  await until('the new rule is in force', async () => (await ask()).status === 200);
  assert.equal(upstream.requests.length, 1);
});
