import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as people from '../../../engine/cli/people/people.ts';
import { end, list } from '../../../engine/cli/sessions/sessions.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { commandBench } from '../sign-in/with-gateway.ts';
import { backendOf, failure } from '../tokens/backend-at-gateway.ts';

let api: AdminBench;
useAdminApi((opened) => {
  api = opened;
});
const bench = commandBench();

async function addSession(user: string, id: string): Promise<void> {
  const { knex } = bench.gateway.database;
  await knex('principals')
    .insert({ id: `user:${user}`, email: user })
    .onConflict('id')
    .ignore();
  const person = JSON.stringify({ email: user });
  const times = { created_at: new Date(), checked_at: new Date(), expires_at: new Date(Date.now() + 86_400_000 * 30) };
  const who = {
    id,
    principal_id: `user:${user}`,
    person,
    sealed_grant: 'sealed',
    client: 'appscli/1.0.0',
    client_address: '192.0.2.7',
  };
  await knex('sessions').insert({ ...who, ...times });
}

describe('on the database', () => {
  test('sessions are listed a line each, with nothing cut, and ended by id', async () => {
    await addSession('alice@example.com', 'ses_0123456789abc');
    const { stdout } = await bench.succeed('sessions', 'list', '--user', 'alice@example.com');
    assert.match(
      stdout,
      /^ID +USER +PROGRAM +FROM +SINCE +UNTIL \(UTC\)\nses_0123456789abc +alice@example\.com +appscli\/1.* +192\.0\.2\.7 .*\n$/,
    );
    const ended = await bench.succeed('sessions', 'end', 'ses_0123456789abc');
    assert.equal(ended.stderr, 'Ended the session ses_0123456789abc.\n');
    const none = await bench.succeed('sessions', 'list', '--user', 'alice@example.com');
    assert.equal(none.stderr, 'Nobody is signed in.\n');
    const all = await bench.succeed('sessions', 'list', '--user', 'alice@example.com', '--ended', '--json');
    assert.equal(JSON.parse(all.stdout)[0].revoked_because, 'ended at the command line');
    const again = await bench.run('sessions', 'end', 'ses_0123456789abc');
    assert.equal(again.exit_code, 1);
    assert.match(again.stderr, /no session ses_0123456789abc to end; "appscli sessions list"/);
  });

  test('a session whose refresh token was refused elsewhere says since when and from where', async () => {
    await addSession('carol@example.com', 'ses_c1');
    const refused = { refused_at: new Date('2027-02-01T09:00:00Z'), refused_from: '203.0.113.9' };
    await bench.gateway.database.knex('sessions').where({ id: 'ses_c1' }).update(refused);
    const { stdout } = await bench.succeed('sessions', 'list', '--user', 'carol@example.com');
    assert.match(stdout, /TOKEN REFUSED\n.* 2027-02-01 from 203\.0\.113\.9\n$/);
  });

  test('all sessions of a person are ended, with the access tokens where that is said', async () => {
    await bench.newToken({ user: 'bob@example.com' });
    await addSession('bob@example.com', 'ses_b1');
    await addSession('bob@example.com', 'ses_b2');
    const first = await bench.succeed('sessions', 'end', '--user', 'Bob@Example.com');
    assert.equal(first.stderr, 'Ended of Bob@Example.com: 2 sessions.\n');
    const second = await bench.succeed('sessions', 'end', '--user', 'bob@example.com', '--with-tokens', '--json');
    assert.deepEqual(JSON.parse(second.stdout), { sessions: 0, tokens: 1, service_tokens: [] });
    const unknown = await bench.run('sessions', 'end', '--user', 'nobody@example.com');
    assert.equal(unknown.exit_code, 1);
    assert.match(unknown.stderr, /nobody with the address nobody@example\.com has ever signed in here/);
  });

  test('a half-said wish is a wrong command line', async () => {
    for (const given of [[], ['ses_x', '--user', 'a@b.c'], ['ses_x', '--with-tokens']]) {
      const wrong = await bench.run('sessions', 'end', ...given);
      assert.equal(wrong.exit_code, 64, given.join(' '));
      assert.match(wrong.stderr, /^appscli: which session\?/);
    }
  });
});

describe('at a running gateway', () => {
  const place = () => ({ config: 'gateway.yaml', baseUrl: api.url });

  test('administrators look up people and let an address go to another account', async () => {
    await api.addSession('vera@example.com', 'ses_vera');
    const listing = backendOf('root', api.url);
    await people.list(listing.context, { ...place(), user: 'vera@example.com', json: true });
    assert.equal(JSON.parse(listing.data())[0].open_to_sign_in, false);
    const unknown = people.rebind(listing.context, ['vera@example.com', 'none@example.com'], place());
    assert.match((await failure(unknown)).message, /^none@example\.com: never signed in here.*nothing was changed/);
    const rebinding = backendOf('root', api.url);
    await people.rebind(rebinding.context, ['Vera@example.com'], place());
    assert.match(
      rebinding.info(),
      /^vera@example\.com goes to the next account that signs in with it\. Ended: 1 session/,
    );
    const denied = people.list(backendOf('nina', api.url).context, place());
    assert.match((await failure(denied)).message, /^This is for administrators/);
  });

  test('people see and end their own, the one they use last', async () => {
    for (const id of ['ses_n1', 'ses_n2']) await api.addSession('nina@example.com', id);
    const backend = backendOf('nina', api.url);
    await list(backend.context, { ...place(), json: true });
    assert.equal(JSON.parse(backend.data()).length, 3);
    await end(backend.context, undefined, { ...place(), user: 'nina@example.com' });
    assert.equal(backend.info(), 'Ended of nina@example.com: 3 sessions.\n');
    const theirs = await failure(end(backend.context, undefined, { ...place(), user: 'bob@example.com' }));
    assert.match(theirs.message, /Only administrators see/);
    const tokens = await failure(
      end(backend.context, undefined, { ...place(), user: 'nina@example.com', withTokens: true }),
    );
    assert.match(tokens.message, /This is for administrators/);
    const foreign = await failure(end(backend.context, 'ses_bob', place()));
    assert.match(foreign.message, /no session ses_bob to end among yours/);
    assert.equal(foreign.exit_code, 1);
  });

  test('administrators cut people off', async () => {
    const user = 'carol@example.com';
    await api.addSession(user, 'ses_c1');
    await createToken(api.by, { user, group: 'coders', name: 'x' });
    const backend = backendOf('root', api.url);
    await end(backend.context, undefined, { ...place(), user, json: true });
    await end(backend.context, undefined, { ...place(), user, withTokens: true });
    assert.equal(backend.data(), '{"sessions":1,"tokens":0}\n');
    assert.equal(backend.info(), 'Ended of carol@example.com: 0 sessions and 1 access token.\n');
  });
});
