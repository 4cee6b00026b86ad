/** `appscli tokens`: on the database beside a running gateway, and at one; the operations are in `test/http/admin/tokens.test.ts`. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import { createToken } from '../../engine/domain/identity/tokens/tokens.ts';
import { ask } from '../e2e/support/client.ts';
import { adminBench } from '../http/admin/support.ts';
import { ownPort } from '../support/net/own-port.ts';
import { until } from '../support/until.ts';
import { assertNarrow, assertRefused, commandsOf } from './at-gateway.ts';
import { commandBench } from './command-bench.ts';

const bench = commandBench();
const inOneLine = (text: string) => text.replaceAll('\n', ' ');
const works = async (token: string) => (await ask(bench.gateway.url, token)).status === 200;
const refused = (token: string) => until('the gateway rejects the token', async () => !(await works(token)));
const named = (user: string, name = 'test') => ['--user', user, '--name', name];

test('a token is created and printed alone, listed and revoked; then the running gateway rejects it', async () => {
  const made = await bench.succeed('tokens', 'create', ...named('dave@example.com', 'laptop'), '--group', 'all');
  assert.match(made.stdout, /^gw_\w+\n$/);
  assert.match(made.stderr, /tok_\w+ for dave@example\.com/);
  const token = made.stdout.trim();
  assert.ok(!made.stderr.includes(token));
  const listed = await bench.succeed('tokens', 'list', '--user', 'dave@example.com', '--json');
  assert.ok(!listed.stdout.includes(token));
  const [{ id, state }, ...more] = JSON.parse(listed.stdout);
  assert.deepEqual([state, more, await works(token)], ['active', [], true]);
  const revoked = await bench.succeed('tokens', 'revoke', id);
  assert.equal(revoked.stderr, `Revoked ${id}: "laptop" of dave@example.com.\n`);
  await refused(token);
  const again = await bench.run('tokens', 'revoke', id);
  assert.equal(again.exit_code, 1);
  assert.match(again.stderr, /revoked already/);
  const table = (await bench.succeed('tokens', 'list', '--user', 'dave@example.com')).stdout;
  assert.match(table, new RegExp(`^ID .*STATE\n${id} .*revoked\n$`));
});

test('a token is rotated by its name: both work for the overlap, and revoking the new one ends the old one', async () => {
  const old = await bench.newToken({ user: 'frank@example.com' });
  const other = await bench.newToken({ user: 'frank@example.com', name: 'editor' });
  const rotated = await bench.succeed('tokens', 'rotate', ...named('frank@example.com'));
  const token = rotated.stdout.trim();
  assert.match(
    inOneLine(rotated.stderr),
    /^Access token tok_\w+ replaces tok_\w+ \("test" of frank@example\.com, valid until 20/,
  );
  assertNarrow(rotated.stderr);
  assert.deepEqual([await works(old), await works(token)], [true, true]);
  const table = (await bench.succeed('tokens', 'list', '--user', 'frank@example.com')).stdout;
  assert.match(table, /replaced\n[\s\S]* active\n$/);
  const revoked = await bench.succeed('tokens', 'revoke', ...named('frank@example.com'));
  assert.match(
    inOneLine(revoked.stderr),
    /^Revoked tok_\w+: "test" of frank@example\.com, and tok_\w+, which it replaced/,
  );
  for (const each of [old, token]) await refused(each);
  assert.ok(await works(other));
  assert.equal((await bench.run('tokens', 'rotate', ...named('frank@example.com'))).exit_code, 1);
});

test('reports a wrong command line', async () => {
  const create = 'create --user a@example.com --name x --group';
  await assertRefused(
    (...words) => bench.run('tokens', ...words),
    [
      [`${create} mapped-onyl`, /there is no token group "mapped-onyl": did you mean `mapped-only`\?\n$/],
      [`${create} wheel`, /no token group "wheel": gateway\.yaml has all or mapped-only\n$/],
      ['create --name x', /no owner: use --user and --group, or --base-url/],
      ['revoke --user erin@example.com', /no token: give an id/],
      ['revoke', /no token: give an id/],
      ['revoke tok_unknown', /no access token tok_unknown; "appscli tokens list" shows all/, 1],
      ['rotate tok_x --overlap 31d', /Expected a duration such as 24h/],
      ['rotate tok_x --overlap soon', /Expected a duration such as 24h/],
      ['list --base-url https://gateway.example.com', /'--base-url <url>' cannot be used with option '--config/],
    ],
  );
});

describe('at a running gateway', () => {
  const api = adminBench();

  test('a signed-in user creates, rotates, lists and revokes personal access tokens', async () => {
    const alice = commandsOf('alice', api.url);
    const made = await alice('tokens', 'create', '--name', 'laptop');
    assert.match(made.stdout, /^gw_\w{49}\n$/);
    assert.match(
      made.stderr,
      /^Access token tok_\w+ for alice@example\.com\. It does not expire, and is\nshown only once:\n$/,
    );
    const rotated = await alice('tokens', 'rotate', '--name', 'laptop', '--overlap', '90m');
    assert.notEqual(rotated.stdout, made.stdout);
    const listed = (await alice('tokens', 'list')).stdout;
    const lines = listed.trimEnd().split('\n');
    assert.deepEqual(lines[0]!.split(/\s{2,}/), ['ID', 'USER', 'NAME', 'GROUP', 'TEAM', 'BY', 'STATE']);
    assert.match(lines[1]!, /alice@\S*\s+laptop\s+coders\s+search\s+self\s+replaced$/);
    assert.match(lines[2]!, /active$/);
    assertNarrow(listed);
    assert.match((await alice('tokens', 'revoke', '--name', 'laptop')).stderr, /^Revoked tok_\w+: "laptop" of alice/);
    await assertRefused(
      (...words) => alice('tokens', ...words),
      [
        ['revoke --name laptop', /is revoked already/, 1],
        ['create --name x --group everything', /group "everything": your token groups are coders\.\n$/, 1],
        ['list --user bob@example.com', /Admin role required/, 1],
        ['revoke tok_/../../me', /no access token with this id/, 1],
        [['rotate', '--name', 'never made'], /no token has the name "never made" of alice@example\.com/, 1],
      ],
    );
  });

  test('an administrator sees all pages', async () => {
    for (let i = 0; i < 1001; i++) {
      await createToken(api.by, { user: 'many@example.com', group: 'coders', name: `n${i}` });
    }
    const { stdout } = await commandsOf('root', api.url)('tokens', 'list', '--user', 'many@example.com', '--json');
    assert.equal(JSON.parse(stdout).length, 1001);
  });

  test('a gateway that sends escape sequences or nonsense does not move the cursor', async () => {
    const token = JSON.stringify({ id: '\x1b[2Jtok', user: '\x1b]0;x\x07', name: 7, state: 'great' });
    const server = createServer((_req, res) => {
      res.setHeader('content-type', 'application/json');
      const deep = '['.repeat(100_000) + ']'.repeat(100_000);
      const limits = '"written":[7,null,{}],"limits":[{"of":{"user":"a\\u001b[2J"}},"x"]';
      res.end(`{"email":"\\u009bx","tokens":[${token},null,3,${deep}],"next":null,${limits}}`);
    });
    const alice = commandsOf('alice', `http://127.0.0.1:${await ownPort(server)}`);
    for (const words of ['tokens list', 'tokens list --json', 'whoami --json', 'limits list']) {
      const { stdout, stderr } = await alice(...words.split(' '));
      for (const sign of ['\x9b', '\x1b', '\\u001b']) assert.ok(!(stdout + stderr).includes(sign), words);
    }
    for (const words of ['create --name x', 'rotate tok_1']) {
      const { exit_code, stderr } = await alice('tokens', ...words.split(' '));
      assert.deepEqual([exit_code, stderr.includes('contains no token')], [69, true]);
    }
  });
});
