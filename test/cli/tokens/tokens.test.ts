import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask } from '../../e2e/support/client.ts';
import { until } from '../../support/until.ts';
import { commandBench } from '../sign-in/with-gateway.ts';

const bench = commandBench();

test('tokens create prints the token alone on standard output, and a running gateway takes it', async () => {
  const ended = await bench.succeed(
    'tokens',
    'create',
    '--user',
    'alice@example.com',
    '--group',
    'all',
    '--name',
    'laptop',
  );
  assert.match(ended.stdout, /^gw_\w+\n$/);
  assert.match(ended.stderr, /tok_\w+ for alice@example\.com/);
  assert.ok(!ended.stderr.includes(ended.stdout.trim()));
  assert.equal((await ask(bench.gateway.url, ended.stdout.trim())).status, 200);
});

test('tokens create --json tells a program everything once', async () => {
  const { stdout, stderr } = await bench.succeed(
    ...['tokens', 'create', '--user', 'Carol@Example.com', '--group', 'all', '--name', 'ci', '--json'],
    ...['--team', 'search', '--project', 'indexer', '--expires', '30d'],
  );
  const { token, id, prefix, expires_at, created_at, created_by, ...rest } = JSON.parse(stdout);
  assert.match(token, /^gw_/);
  assert.match(id, /^tok_/);
  assert.ok(token.startsWith(prefix));
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 30 * 86_400_000) < 60_000);
  assert.ok(Math.abs(Date.parse(created_at) - Date.now()) < 60_000);
  assert.match(created_by, /^command .+@.+$/);
  assert.deepEqual(rest, {
    user: 'carol@example.com',
    group: 'all',
    name: 'ci',
    team: 'search',
    project: 'indexer',
    self_service: false,
    last_used_at: null,
    revoked_at: null,
    replaced_by: null,
    state: 'active',
    suspends_at: null,
  });
  assert.equal(stderr, '');
});

test('a token for a group that gateway.yaml does not have is refused with the groups it has', async () => {
  const typo = await bench.run('tokens', 'create', '--user', 'a@example.com', '--group', 'mapped-onyl', '--name', 'x');
  assert.equal(typo.exit_code, 64);
  assert.equal(typo.stdout, '');
  assert.equal(typo.stderr, 'appscli: there is no token group "mapped-onyl": did you mean `mapped-only`?\n');
  const foreign = await bench.run('tokens', 'create', '--user', 'a@example.com', '--group', 'wheel', '--name', 'x');
  assert.match(foreign.stderr, /no token group "wheel": gateway\.yaml has all or mapped-only\n$/);
});

test('a token is created, listed and revoked; then the running gateway refuses it', async () => {
  const token = await bench.newToken({ user: 'dave@example.com' });
  const listed = JSON.parse((await bench.succeed('tokens', 'list', '--user', 'dave@example.com', '--json')).stdout);
  assert.equal(listed.length, 1);
  const [{ id, state }] = listed;
  assert.equal(state, 'active');
  assert.ok(!JSON.stringify(listed).includes(token));
  assert.equal((await ask(bench.gateway.url, token)).status, 200);

  const revoked = await bench.succeed('tokens', 'revoke', id);
  assert.equal(revoked.stderr, `Revoked ${id}: "test" of dave@example.com.\n`);
  await until('the gateway refuses the token', async () => (await ask(bench.gateway.url, token)).status === 401);

  const again = await bench.run('tokens', 'revoke', id);
  assert.equal(again.exit_code, 1);
  assert.match(again.stderr, /revoked already/);
  const table = (await bench.succeed('tokens', 'list', '--user', 'dave@example.com')).stdout;
  assert.match(table, new RegExp(`^ID .*STATE\n${id} .*revoked\n$`));
});

test('a token can be revoked by user and name, and a half-said wish is a wrong command line', async () => {
  await bench.newToken({ user: 'erin@example.com' });
  assert.equal((await bench.run('tokens', 'revoke', '--user', 'erin@example.com')).exit_code, 64);
  assert.equal((await bench.run('tokens', 'revoke')).exit_code, 64);
  await bench.succeed('tokens', 'revoke', '--user', 'erin@example.com', '--name', 'test');
  const unknown = await bench.run('tokens', 'revoke', 'tok_unknown');
  assert.equal(unknown.exit_code, 1);
  assert.match(unknown.stderr, /no access token tok_unknown; "appscli tokens list" shows all/);
});

test('a token that is revoked leaves the others of its owner alone', async () => {
  const user = 'eve@example.com';
  const [laptop, editor] = [await bench.newToken({ user }), await bench.newToken({ user, name: 'editor' })];
  await bench.succeed('tokens', 'revoke', '--user', user, '--name', 'test');
  await until('the gateway refuses the one', async () => (await ask(bench.gateway.url, laptop)).status === 401);
  assert.equal((await ask(bench.gateway.url, editor)).status, 200);
});

test('a token is rotated: both work for the overlap, and revoking the new one ends the old one', async () => {
  const old = await bench.newToken({ user: 'frank@example.com' });
  const rotated = await bench.succeed('tokens', 'rotate', '--user', 'frank@example.com', '--name', 'test');
  const token = rotated.stdout.trim();
  assert.match(token, /^gw_\w{49}$/);
  const words = rotated.stderr.replaceAll('\n', ' ');
  assert.match(
    words,
    /^Access token tok_\w+ takes the place of tok_\w+, "test" of frank@example\.com, which works until 20/,
  );
  for (const line of rotated.stderr.split('\n')) assert.ok(line.length <= 80, line);
  for (const each of [old, token]) assert.equal((await ask(bench.gateway.url, each)).status, 200);
  const table = (await bench.succeed('tokens', 'list', '--user', 'frank@example.com')).stdout;
  assert.match(table, /replaced\n.* active\n$/);

  const revoked = await bench.succeed('tokens', 'revoke', '--user', 'frank@example.com', '--name', 'test');
  assert.match(
    revoked.stderr.replaceAll('\n', ' '),
    /^Revoked tok_\w+: "test" of frank@example\.com, and tok_\w+, which it had replaced\./,
  );
  for (const each of [old, token]) {
    await until('the gateway refuses both', async () => (await ask(bench.gateway.url, each)).status === 401);
  }
  assert.equal((await bench.run('tokens', 'rotate', '--user', 'frank@example.com', '--name', 'test')).exit_code, 1);
});

test('a rotation without overlap ends the old token at once', async () => {
  const old = await bench.newToken({ user: 'gina@example.com' });
  const given = ['--user', 'gina@example.com', '--name', 'test', '--overlap', '0', '--expires', '30d', '--json'];
  const { replaces, expires_at } = JSON.parse((await bench.succeed('tokens', 'rotate', ...given)).stdout);
  assert.equal(replaces.state, 'expired');
  assert.ok(Date.parse(expires_at) > Date.now());
  await until('the gateway refuses the old one', async () => (await ask(bench.gateway.url, old)).status === 401);
  for (const overlap of ['31d', 'soon', '-1']) {
    const wrong = await bench.run('tokens', 'rotate', 'tok_x', '--overlap', overlap);
    assert.equal(wrong.exit_code, 64);
    assert.match(wrong.stderr, /Write 24h/);
  }
});

test('a token made at the command line says who made it, and whose and which it must be', async () => {
  const nobody = await bench.run('tokens', 'create', '--name', 'x');
  assert.equal(nobody.exit_code, 64);
  assert.match(nobody.stderr, /whose token.* Give --user and --group, or --base-url/);
  const both = await bench.run('tokens', 'list', '--base-url', 'https://gateway.example.com');
  assert.equal(both.exit_code, 64);
  assert.match(both.stderr, /'--base-url <url>' cannot be used with option '--config <file>'/);
});
