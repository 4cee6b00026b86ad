import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changes } from '../../../engine/cli/audit/audit-changes.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { commandBench } from '../sign-in/with-gateway.ts';
import { assertNarrow, backendOf, failure } from '../tokens/backend-at-gateway.ts';

let api: AdminBench;
useAdminApi((opened) => {
  api = opened;
});
const bench = commandBench();

test('audit changes tells who did what in 80 columns, the oldest first', async () => {
  const user = 'somebody-with-a-long-name@department.example.com';
  const wish = [
    '--user',
    user,
    '--group',
    'all',
    '--name',
    'a long name of a device',
    '--team',
    'search',
    '--expires',
    '30d',
  ];
  const created = await bench.succeed('tokens', 'create', ...wish, '--json');
  const { id, token } = JSON.parse(created.stdout);
  await bench.succeed('tokens', 'rotate', id);
  const { stdout } = await bench.succeed('audit', 'changes');
  assertNarrow(stdout);
  assert.match(stdout, new RegExp(`^20\\S+Z  token\\.create  ${id}\\n    \\S+@\\S+ at the command line made `, 'm'));
  assert.match(
    stdout.replace(/\s+/g, ' '),
    /token\.rotate tok_\w+ \S+@\S+ at the command line replaced the access token tok_\w+ by tok_\w+; the old one works until 20/,
  );
  assert.ok(stdout.indexOf('token.create') < stdout.indexOf('token.rotate'));
  assert.ok(!stdout.includes(token.slice(3, 12)));
});

test('audit changes --json prints one object per line, as many as asked for, from a moment on', async () => {
  for (const name of ['a', 'b', 'c']) {
    await bench.succeed('tokens', 'create', '--user', 'x@example.com', '--group', 'all', '--name', name);
  }
  const { stdout } = await bench.succeed('audit', 'changes', '-n', '2', '--json');
  const names = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).after.name);
  assert.deepEqual(names, ['b', 'c']);
  const later = await bench.succeed('audit', 'changes', '--since', '2100-01-01');
  assert.equal(later.stderr, 'Nothing was changed.\n');
});

test('audit changes finds what somebody did to somebody', async () => {
  for (const user of ['ida@example.com', 'jon@example.com']) {
    await bench.succeed('tokens', 'create', '--user', user, '--group', 'all', '--name', 'desk');
  }
  await bench.succeed('tokens', 'revoke', '--user', 'ida@example.com', '--name', 'desk');
  const actions = async (...filter: string[]) => {
    const { stdout } = await bench.succeed('audit', 'changes', '--json', ...filter);
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line).action);
  };
  assert.deepEqual(await actions('--subject', 'ida@example.com'), ['token.create', 'token.revoke']);
  assert.deepEqual(await actions('--subject', 'ida@example.com', '--action', 'token.revoke'), ['token.revoke']);
  assert.deepEqual(await actions('--subject', 'ida@example.com', '--actor', 'nobody@example.com'), []);
  const misspelt = await bench.run('audit', 'changes', '--action', 'token.revok');
  assert.equal(misspelt.exit_code, 64);
  assert.match(misspelt.stderr, /token\.revoke/);
});

test('audit changes --base-url asks a running gateway, which tells administrators', async () => {
  for (const name of ['one', 'two', 'three']) await api.ask('bob', 'POST', '/admin/api/tokens', { name });
  const place = { config: 'gateway.yaml', baseUrl: api.url };
  const backend = backendOf('root', api.url);
  await changes(backend.context, { ...place, lines: 2 });
  assertNarrow(backend.data());
  assert.match(
    backend.data(),
    /^2026-03-10T12:00:00\.000Z {2}token\.create .*\n {4}bob@example\.com made the access token "two" of their own, group coders\n/,
  );
  assert.match(
    (await failure(changes(backendOf('bob', api.url).context, { ...place, lines: 5 }))).message,
    /for administrators/,
  );
});
