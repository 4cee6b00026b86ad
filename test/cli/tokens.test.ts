import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask } from '../e2e/client.ts';
import { until } from '../support/until.ts';
import { commandBench } from './with-gateway.ts';

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
  const { token, id, prefix, expires_at, ...rest } = JSON.parse(stdout);
  assert.match(token, /^gw_/);
  assert.match(id, /^tok_/);
  assert.ok(token.startsWith(prefix));
  assert.ok(Math.abs(Date.parse(expires_at) - Date.now() - 30 * 86_400_000) < 60_000);
  assert.deepEqual(rest, { user: 'carol@example.com', group: 'all', name: 'ci', team: 'search', project: 'indexer' });
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
  assert.equal((await bench.run('tokens', 'revoke', 'tok_unknown')).exit_code, 1);
});
