import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import {
  type ConsoleSessions,
  createConsoleSessions,
} from '../../../engine/domain/identity/sessions/console-sessions.ts';
import { createProject } from '../../load/support/project.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig } from '../../support/gateway.ts';
import { open } from '../../support/open-database.ts';
import { closing } from '../../support/use.ts';
import { cli } from '../support.ts';

const database = await createTestDatabase();
after(() => database.drop());

async function run(sections: object, ...more: readonly string[]) {
  const text = JSON.stringify(gatewayConfig('http://127.0.0.1:9', { ...sections }));
  const config_file = createProject({ 'gateway.yaml': text }).path('gateway.yaml');
  const env = { ...process.env, TEST_DATABASE_URL: database.url };
  return cli(['console', '--config', config_file, ...more], { env });
}

async function withStore(use: (sessions: ConsoleSessions) => Promise<void>): Promise<void> {
  await using store = closing(await open(database.url));
  await use(createConsoleSessions({ database: store, clock: systemClock }));
}

const server = (public_url: string) => ({ listen: '127.0.0.1:8080', public_url });
const auth = { oidc: { issuer_url: 'https://id.example.com', client_id: 'x', client_secret_env: 'TEST_SECRET' } };

test('with sign-in, console prints its address', async () => {
  const { exit_code, stdout, stderr } = await run({ server: server('https://gateway.example.com/models/'), auth });
  assert.deepEqual([exit_code, stdout], [0, 'https://gateway.example.com/models/console\n'], stderr);
  assert.match(stderr, /sign in with your company account/);
});

test('where it cannot open one, it prints a fresh link and stores only its hash', async () => {
  const sections = { server: server('http://127.0.0.1:8080') };
  const { exit_code, stdout, stderr } = await run(sections);
  assert.equal(exit_code, 0, stderr);
  const [, secret] = /^http:\/\/127\.0\.0\.1:8080\/console\/link\?once=([\w-]{43})\n$/.exec(stdout) ?? [];
  assert.ok(secret, stdout);
  assert.match(stderr.replaceAll('\n', ' '), /works once, within a minute, and gives administrator access/);
  const { url, expires_at } = JSON.parse((await run(sections, '--json')).stdout);
  assert.notEqual(url, stdout.trim());
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 60_000) < 30_000);
});

test('sessions that links opened are ended all at once, and links that were not used with them', async () => {
  const sections = { server: server('http://127.0.0.1:8080') };
  const links = await Promise.all([run(sections), run(sections)]);
  const [used, unused] = links.map(({ stdout }) => stdout.trim().split('=')[1]!);
  await withStore(async (sessions) => {
    const { cookie } = (await sessions.openLink(used!))!;
    assert.deepEqual(JSON.parse((await run(sections, '--end', '--json')).stdout), { sessions: 1 });
    assert.equal(await sessions.find(cookie), undefined);
    assert.equal(await sessions.openLink(unused!), undefined);
  });
});

test('no link is printed that would open the console from another machine', async () => {
  const { exit_code, stdout, stderr } = await run({ server: server('http://gateway.example.com') });
  assert.deepEqual([exit_code, stdout], [78, '']);
  assert.match(stderr, /set auth\.oidc, or a server\.public_url/);
});
