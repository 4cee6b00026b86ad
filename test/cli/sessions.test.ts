import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../engine/base/kit/clock.ts';
import { noteRefusal, type RefusedSignIn } from '../../engine/domain/identity/provider/refused-sign-ins.ts';
import { createToken } from '../../engine/domain/identity/tokens/tokens.ts';
import { adminBench } from '../http/admin/support.ts';
import { quietLog } from '../support/store.ts';
import { assertNarrow, assertRefused, commandsOf } from './at-gateway.ts';
import { commandBench } from './command-bench.ts';

const api = adminBench();
const bench = commandBench();

async function addSession(user: string, id: string, more: object = {}): Promise<void> {
  const { knex } = bench.gateway.database;
  const principal_id = `user:${user}`;
  await knex('principals').insert({ id: principal_id, email: user }).onConflict('id').ignore();
  const times = { created_at: new Date(), checked_at: new Date(), expires_at: new Date(Date.now() + 86_400_000 * 30) };
  const from = { sealed_grant: 'sealed', client: 'appscli/1.0.0', client_address: '192.0.2.7' };
  const person = JSON.stringify({ email: user });
  await knex('sessions').insert({ id, principal_id, person, ...from, ...times, ...more });
}

describe('sessions', () => {
  test('are listed a line each, with nothing cut, and ended by id', async () => {
    const refused = { refused_at: new Date('2027-02-01T09:00:00Z'), refused_from: '203.0.113.9' };
    await addSession('alice@example.com', 'ses_0123456789abc', refused);
    const { stdout } = await bench.succeed('sessions', 'list', '--user', 'alice@example.com');
    assert.match(
      stdout,
      /^ID +USER +CLIENT +FROM +SINCE +UNTIL \(UTC\) +TOKEN REJECTED\nses_0123456789abc +alice@example\.com +appscli\/1.* +192\.0\.2\.7 .* 2027-02-01 from 203\.0\.113\.9\n$/,
    );
    const ended = await bench.succeed('sessions', 'end', 'ses_0123456789abc');
    assert.equal(ended.stderr, 'Ended session ses_0123456789abc.\n');
    const none = await bench.succeed('sessions', 'list', '--user', 'alice@example.com');
    assert.equal(none.stderr, 'No sessions.\n');
    const all = await bench.succeed('sessions', 'list', '--user', 'alice@example.com', '--ended', '--json');
    assert.equal(JSON.parse(all.stdout)[0].revoked_because, 'ended at the command line');
  });

  test('of a user end together, with the access tokens on request', async () => {
    await bench.newToken({ user: 'bob@example.com' });
    for (const id of ['ses_b1', 'ses_b2']) await addSession('bob@example.com', id);
    const first = await bench.succeed('sessions', 'end', '--user', 'Bob@Example.com');
    assert.equal(first.stderr, 'Ended 2 sessions of Bob@Example.com.\n');
    const second = await bench.succeed('sessions', 'end', '--user', 'bob@example.com', '--with-tokens', '--json');
    assert.deepEqual(JSON.parse(second.stdout), { sessions: 0, tokens: 1, service_tokens: [] });
  });

  test('rejects unknown ones and incomplete arguments', async () => {
    await assertRefused(
      (...words) => bench.run('sessions', 'end', ...words),
      [
        ['', /no session: give an id/],
        ['ses_x --user a@b.c', /no session: give an id/],
        ['ses_x --with-tokens', /no session: give an id/],
        ['ses_x', /no active session ses_x; "appscli sessions list"/, 1],
        ['--user nobody@example.com', /unknown person: the address nobody@example\.com has never signed in/, 1],
      ],
    );
  });

  test('of others are visible to administrators, who may end them; users see their own, last used first', async () => {
    for (const id of ['ses_n1', 'ses_n2']) await api.addSession('nina@example.com', id);
    await api.addSession('carol@example.com', 'ses_c1');
    await createToken(api.by, { user: 'carol@example.com', group: 'coders', name: 'x' });
    const nina = commandsOf('nina', api.url);
    assert.equal(JSON.parse((await nina('sessions', 'list', '--json')).stdout).length, 3);
    await assertRefused(
      (...words) => nina('sessions', 'end', ...words),
      [
        ['--user bob@example.com', /Admin role required/, 1],
        ['--user nina@example.com --with-tokens', /Admin role required/, 1],
        ['ses_bob', /no active session ses_bob among yours/, 1],
      ],
    );
    const own = await nina('sessions', 'end', '--user', 'nina@example.com');
    assert.equal(own.stderr, 'Ended 3 sessions of nina@example.com.\n');
    const root = commandsOf('root', api.url);
    const carol = ['sessions', 'end', '--user', 'carol@example.com'];
    assert.equal((await root(...carol, '--json')).stdout, '{"sessions":1,"tokens":0}\n');
    const cut_off = await root(...carol, '--with-tokens');
    assert.equal(cut_off.stderr, 'Ended 0 sessions and 1 access token of carol@example.com.\n');
  });
});

test('administrators look up users and release an address for another account', async () => {
  await api.addSession('vera@example.com', 'ses_vera');
  const root = commandsOf('root', api.url);
  const { stdout } = await root('users', 'list', '--user', 'vera@example.com', '--json');
  assert.equal(JSON.parse(stdout)[0].open_to_sign_in, false);
  await createToken(api.by, { user: 'given@example.com', group: 'coders', name: 'x' });
  const input = await root('users', 'list', '--user', 'given@example.com');
  assert.match(input.stdout, /has tokens of an administrator; sign-in is rejected/);
  const unknown = await root('users', 'reassign', 'vera@example.com', 'none@example.com');
  assert.match(unknown.stderr, /unknown user none@example\.com: nothing was changed/);
  const rebound = await root('users', 'reassign', 'Vera@example.com');
  assert.match(
    rebound.stderr,
    /^Assigned vera@example\.com to the next account that signs in with it\. Ended: 1 session/,
  );
  const denied = await commandsOf('nina', api.url)('users', 'list');
  assert.match(denied.stderr, /Admin role required/);
});

describe('sessions explain', () => {
  const REFUSED: Omit<RefusedSignIn, 'at'> = {
    ...{ email: 'dana@example.com', subject: 'dana-1', issuer: 'https://id.example.com', request_id: 'request-1' },
    ...{ client: 'Claude Code 2.1.330', client_address: '192.0.2.7', refused: 'group' },
    detail: 'dana@example.com is in none of auth.oidc.allowed_groups; /engineering came, and engineering is expected',
    groups: ['/engineering', 'everybody'],
    expected: ['engineering', 'research'],
  };
  const refuse = (more: object = {}) =>
    noteRefusal({ database: bench.gateway.database, clock: systemClock, log: quietLog }, { ...REFUSED, ...more });

  test('explains a rejection, with the received and the expected groups', async () => {
    await refuse();
    const { stdout } = await bench.succeed('sessions', 'explain', 'Dana@example.com');
    assertNarrow(stdout);
    assert.match(
      stdout,
      /^dana@example\.com\n {2}rejected {2}\d{4}-\d\d-\d\d \d\d:\d\d UTC: dana@example\.com is in none/,
    );
    assert.match(stdout, /^ {2}received {2}\/engineering, everybody$/m);
    assert.match(stdout, /^ {2}expected {2}one of engineering, research \(auth\.oidc\.allowed_groups\)$/m);
    assert.match(stdout, /Claude Code 2\.1\.330 from 192\.0\.2\.7, request request-1/);
    const { stdout: json } = await bench.succeed('sessions', 'explain', 'dana@example.com', '--json');
    const { refused, sessions } = JSON.parse(json);
    assert.deepEqual([refused[0].groups, sessions], [REFUSED.groups, []]);
  });

  test('lists rejections initiated by the gateway, and reports if there are none', async () => {
    await refuse({ email: 'erin@example.com', request_id: '' });
    const { stdout } = await bench.succeed('sessions', 'explain', 'erin@example.com');
    assert.match(stdout.replace(/\s+/g, ' '), /from 192\.0\.2\.7, at a refresh by the gateway received/);
    const unknown = await bench.succeed('sessions', 'explain', 'nobody@example.com');
    assert.match(unknown.stdout, /no sign-in with this address/);
  });

  test('keeps ten rejections of one address', async () => {
    for (let n = 0; n < 25; n++) await refuse({ email: 'often@example.com', request_id: `request-${n}` });
    const { stdout } = await bench.succeed('sessions', 'explain', 'often@example.com', '--json');
    const { refused } = JSON.parse(stdout) as { refused: { request_id: string }[] };
    assert.deepEqual([refused.length, refused[0]!.request_id], [10, 'request-24']);
  });
});
