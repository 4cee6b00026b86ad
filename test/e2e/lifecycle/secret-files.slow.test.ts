/** Secrets in files, as Kubernetes mounts them: a process whose files are swapped while requests run. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { cli } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import { mainUpstream } from '../../support/gateway.ts';
import { answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, send } from '../support/client.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';
import { useProcessScene } from '../support/process-scene.ts';

const FIRST = 'first-upstream-key-5f3a9c17';
const SECOND = 'second-upstream-key-81bd02ee';
const METRICS = ['metrics-token-one-77a1', 'metrics-token-two-90c4'] as const;

let gateway: GatewayProcess;
let metrics_port: number;
let swaps = 0;

const scene = useProcessScene({
  sections: async (url) => {
    metrics_port = await freePort();
    const { api_key_env: _, ...main } = mainUpstream(url);
    return {
      database: { postgres: { url_file: 'secrets/database-url' } },
      telemetry: {
        metrics: { listen: `127.0.0.1:${metrics_port}`, token_file: 'secrets/metrics-token' },
        // Looks like the name that a secret in a file has within the program, and is none.
        resource: { deployment_env: 'file:/nonexistent' },
      },
      upstreams: [{ ...main, api_key_file: 'secrets/upstream-key', breaker: { mode: 'enforce' } }],
    };
  },
});

/** Swaps all secrets at once, as the kubelet does: a new directory, and a link that is renamed over the one before. */
function mount(secrets: Readonly<Record<string, string>>): void {
  const directory = join(scene.directory, 'secrets');
  const data = `..data_${++swaps}`;
  mkdirSync(join(directory, data), { recursive: true });
  for (const [name, text] of Object.entries(secrets)) {
    writeFileSync(join(directory, data, name), text);
    if (!readdirSync(directory).includes(name)) symlinkSync(`..data/${name}`, join(directory, name));
  }
  symlinkSync(data, join(directory, '..data_next'));
  renameSync(join(directory, '..data_next'), join(directory, '..data'));
  if (swaps > 1) rmSync(join(directory, `..data_${swaps - 1}`), { recursive: true });
}

const secrets = (upstream_key: string, more: Readonly<Record<string, string>> = {}) => ({
  'upstream-key': `${upstream_key}\r\n`,
  'database-url': `${scene.database_url}\n`,
  'metrics-token': METRICS[0],
  ...more,
});

const run = (...words: string[]) => cli([...words, '--config', scene.config_file], { env: process.env });
const keySent = () => scene.upstream.requests.at(-1)?.headers['x-api-key'];
const reloadState = async () =>
  (await send(gateway.url, { method: 'GET', path: '/readyz' })).json().configuration.state;
const metricsStatus = async (token: string) =>
  (
    await send(`http://127.0.0.1:${metrics_port}`, {
      method: 'GET',
      path: '/metrics',
      headers: ['authorization', `Bearer ${token}`],
    })
  ).status;

test('secret files are checked, read again when swapped, and kept where a swap breaks one', async () => {
  const { upstream } = scene;
  mount({ 'database-url': `${scene.database_url}\n`, 'metrics-token': ' \n' });
  const missing = await run('check');
  assert.match(missing.stdout, /W7007[\s\S]*secrets\/upstream-key/, 'missing');
  assert.match(missing.stdout, /the file is empty/, 'empty');
  const refused = await run('gateway');
  assert.equal(refused.exit_code, 78);
  assert.match(refused.stderr, /C4021|the file is empty/);

  mount(secrets(FIRST));
  assert.doesNotMatch((await run('check')).stdout, /W7007|error/);
  const made = await run('tokens', 'create', '--user', 'a@example.com', '--group', 'all', '--name', 'x', '--json');
  assert.equal(made.exit_code, 0, made.stderr);
  const { token } = JSON.parse(made.stdout);
  gateway = await scene.start('--watch');
  const { url } = gateway;
  const keysOf = async () => {
    assert.equal((await ask(url, token)).status, 200);
    return keySent();
  };
  assert.equal(await keysOf(), FIRST);
  assert.equal(await metricsStatus(METRICS[0]), 200);

  // While requests run, one of which began with the key before.
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const usual = upstream.script;
  upstream.script = (exchange) => void released.then(() => usual(exchange));
  const slow = ask(url, token);
  await until('it is on its way', () => upstream.requests.length > 1);
  upstream.script = usual;
  mount(secrets(SECOND, { 'metrics-token': METRICS[1] }));
  await until('the new key is in force', async () => (await keysOf()) === SECOND);
  await until('so is the new token', async () => (await metricsStatus(METRICS[1])) === 200);
  assert.equal(await metricsStatus(METRICS[0]), 401);
  release();
  assert.equal((await slow).status, 200);

  // A broken one is rejected and named, and the previous secret stays.
  for (const broken of ['', '\n', 'two\nlines', '\0\0']) {
    mount(secrets(SECOND, { 'upstream-key': broken }));
    await until(`the reload with ${JSON.stringify(broken)} failed`, async () => (await reloadState()) !== 'ok');
    assert.equal(await keysOf(), SECOND);
    mount(secrets(SECOND));
    await until('it is mended', async () => (await reloadState()) === 'ok');
  }
  mount({ 'database-url': `${scene.database_url}\n`, 'metrics-token': METRICS[1] });
  await until('a file that vanished is noticed', async () => (await reloadState()) !== 'ok');
  assert.equal(await keysOf(), SECOND);
  assert.match(gateway.output(), /secrets\/upstream-key/);

  // A provider that took the first key back: the next request after the swap is served, whatever the breaker knew.
  upstream.script = (exchange) =>
    answerJson({ type: 'error', error: { type: 'authentication_error', message: 'no' } }, 401)(exchange);
  mount(secrets(FIRST));
  await until('it is mended', async () => (await reloadState()) === 'ok');
  for (let n = 0; n < 10; n++) await ask(url, token);
  upstream.script = usual;
  mount(secrets(SECOND));
  await until('the new key is used', async () => (await ask(url, token)).status === 200 && keySent() === SECOND);

  await passwordChanges(token);

  const everything = gateway.output();
  for (const secret of [FIRST, SECOND, ...METRICS, 'password-one', 'password-two']) {
    assert.ok(!everything.includes(secret), `the log holds ${secret}`);
  }
  const client = new pg.Client({ connectionString: scene.database_url });
  await client.connect();
  const { rows } = await client.query(
    'select (select count(distinct config_hash)::int from config_loads where not failed) as hashes, (select string_agg(v::text, $1) from config_versions v) as kept, (select string_agg(l::text, $1) from config_loads l) as loads',
    [' '],
  );
  await client.end();
  assert.equal(rows[0].hashes, 1, 'another secret is no other configuration');
  for (const secret of [FIRST, SECOND, ...METRICS]) assert.ok(!`${rows[0].kept}${rows[0].loads}`.includes(secret));
});

/** The password of the database changes for new connections; another database would need a restart, which is logged. */
async function passwordChanges(token: string): Promise<void> {
  const url = new URL(scene.database_url);
  const client = new pg.Client({ connectionString: scene.database_url });
  await client.connect();
  url.searchParams.set('application_name', 'second-password');
  mount(secrets(SECOND, { 'database-url': url.href }));
  const named = async () =>
    (
      await client.query(
        "select count(*)::int as n from pg_stat_activity where application_name = 'second-password' and datname = current_database()",
      )
    ).rows[0].n;
  // Old connections stay until they break.
  await until('new connections are made with the new URL', async () => {
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    );
    await ask(gateway.url, token);
    return (await named()) > 0;
  });
  url.pathname = '/another';
  mount(secrets(SECOND, { 'database-url': url.href }));
  await until('it says that this needs a restart', () => gateway.output().includes('database needs a restart'));
  assert.equal((await ask(gateway.url, token)).status, 200);
  mount(secrets(SECOND));
  await client.end();
}
