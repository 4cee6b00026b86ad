import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { frozenClock } from '../../../engine/services/clock.ts';
import { createDeviceGrants } from '../../../engine/services/identity/device-grants.ts';
import { SESSIONS_CHANNEL } from '../../../engine/services/identity/revocations.ts';
import { createSessions } from '../../../engine/services/identity/sessions.ts';
import { TOKENS_CHANNEL } from '../../../engine/services/token-format.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { approveSignIn, START, signIn, somebody } from './people.ts';

let store: TestStore;
const announced: string[] = [];
useTestStore((opened) => {
  store = opened;
});

function open(database = store.database) {
  const clock = frozenClock(START);
  return {
    clock,
    grants: createDeviceGrants({ database, clock, refresh_days: 30 }),
    sessions: createSessions({ database, clock }),
  };
}

let tokens = 0;

/** Puts an access token of somebody into the database; returns its id and how it is announced. */
async function addToken(email: string, self_service = false): Promise<{ id: string; hash: string }> {
  const id = `tok_${++tokens}`;
  const hash = Buffer.alloc(32, tokens).toString('base64');
  await store.database.query(
    'test_add_token',
    `with owner as (
       insert into principals (id, email) values ('user:' || $1, $1) on conflict (id) do update set email = excluded.email
       returning id
     )
     insert into access_tokens (id, hash, prefix, principal_id, token_group, name, self_service)
     select $2, decode($3, 'base64'), 'gw_test', owner.id, 'all', 'test', $4 from owner`,
    [email, id, hash, self_service],
  );
  return { id, hash };
}

async function tokenRow(id: string) {
  const [row] = await store.database.query<{ owner: string; revoked_at: Date | null }>(
    'test_token_row',
    'select p.email as owner, t.revoked_at from access_tokens t join principals p on p.id = t.principal_id where t.id = $1',
    [id],
  );
  return row!;
}

function changesOf(subject: string) {
  return store.database.query<object>(
    'test_changes',
    'select at, actor_kind, actor, action, before, after from admin_changes where subject = $1',
    [subject],
  );
}

async function listen(): Promise<void> {
  for (const channel of [TOKENS_CHANNEL, SESSIONS_CHANNEL])
    await store.database.listen(
      channel,
      (payload) => announced.push(payload),
      () => {},
    );
}

describe('an e-mail address that now belongs to somebody else', () => {
  it('takes along nothing of its former owner, and says so in the record of changes', async () => {
    await listen();
    const { grants, sessions } = open();
    const former = somebody();
    const session = await signIn(grants, former);
    const token = await addToken(former.email);
    const next = { ...former, subject: 'somebody-else' };
    const code = await approveSignIn(grants, next);
    assert.equal((await tokenRow(token.id)).revoked_at, null, 'nothing ends before the new owner has signed in');
    const polled = await grants.poll(code);
    assert.ok(polled.outcome === 'signed_in');

    const seen = await sessions.list({ user: former.email, ended: true });
    assert.deepEqual(
      new Map(seen.map(({ id, revoked_because }) => [id, revoked_because])),
      new Map([
        [session.id, 'the e-mail address now belongs to somebody else'],
        [polled.session.id, null],
      ]),
    );
    assert.equal((await sessions.beginRefresh(session.refresh_token)).outcome, 'revoked');
    assert.deepEqual((await tokenRow(token.id)).revoked_at, new Date(START));
    await until('the end of both is announced', () => announced.includes(session.id) && announced.includes(token.hash));
    const change = { at: new Date(START), actor_kind: 'gateway', actor: 'sign-in' };
    const because = 'the e-mail address now belongs to somebody else';
    for (const [subject, action] of [
      [session.id, 'session.end'],
      [token.id, 'token.revoke'],
    ] as const) {
      const [row, ...others] = await changesOf(subject);
      const { before, after, ...rest } = row as {
        before: { user: string };
        after: { because: string; revoked_at: string };
      };
      assert.deepEqual(rest, { ...change, action });
      assert.equal(before.user, former.email);
      assert.equal(after.because, because);
      assert.equal(new Date(after.revoked_at).toISOString(), '2026-03-10T12:00:00.000Z');
      assert.equal(others.length, 0);
    }
  });

  it('is the same address at another identity provider, too', async () => {
    const { grants, sessions } = open();
    const person = somebody();
    await signIn(grants, person);
    const second = await signIn(grants, { ...person, issuer: 'https://other.example.com' });
    assert.deepEqual(
      (await sessions.list({ user: person.email })).map(({ id }) => id),
      [second.id],
    );
  });

  it('cannot be taken back by a refresh of its former owner', async () => {
    const { grants, sessions } = open();
    const former = somebody();
    const { id, refresh_token } = await signIn(grants, former);
    await sessions.beginRefresh(refresh_token);
    const next = await signIn(grants, { ...former, subject: 'next-owner' });
    assert.equal(await sessions.finishRefresh(id, { person: former, sealed_grant: 'sealed' }), undefined);
    assert.deepEqual(
      (await sessions.list({ user: former.email })).map((each) => each.id),
      [next.id],
    );
  });

  it('ends up with one owner when several want the address at the same moment', async () => {
    const databases = [store.database, await store.another()];
    const gateways = databases.map((database) => open(database));
    const contested = somebody();
    const rivals = ['one', 'two', 'three'].map((subject) => ({ ...contested, subject }));
    for (let round = 0; round < 15; round++) {
      const codes = await Promise.all(rivals.map((rival) => approveSignIn(gateways[0]!.grants, rival)));
      const before = await gateways[0]!.sessions.list({ user: contested.email });
      await Promise.all([
        ...codes.map((code, i) => gateways[i % 2]!.grants.poll(code)),
        ...before.map(({ id }, i) =>
          gateways[i % 2]!.sessions.finishRefresh(id, { person: contested, sealed_grant: '' }),
        ),
        ...before.map(({ id }, i) => gateways[(i + 1) % 2]!.sessions.end(id, 'signed out')),
      ]);
      const left = await gateways[0]!.sessions.list({ user: contested.email });
      const owners = await store.database.query<{ subject: string; person: { subject: string } }>(
        'test_owner',
        `select p.subject, s.person from principals p join sessions s on s.principal_id = p.id
         where p.email = $1 and s.revoked_at is null`,
        [contested.email],
      );
      assert.equal(left.length, 1, 'whoever came last is in, and nobody else');
      for (const { subject, person } of owners) assert.equal(person.subject, subject);
    }
  });
});

describe('a person who signs in', () => {
  it('keeps the access tokens that were made for the address before', async () => {
    const { grants } = open();
    const person = somebody();
    const token = await addToken(person.email);
    await signIn(grants, person);
    await signIn(grants, person);
    assert.equal((await tokenRow(token.id)).revoked_at, null);
  });

  it('has the groups and the name of the latest sign-in or refresh', async () => {
    const { grants, sessions } = open();
    const person = somebody({ name: 'First', groups: ['a'] });
    const { id } = await signIn(grants, person);
    await sessions.finishRefresh(id, { person: { ...person, name: 'Second', groups: ['b', 'c'] }, sealed_grant: '' });
    const [row] = await store.database.query<object>(
      'test_principal',
      'select id, issuer, subject, name, groups, signed_in_at from principals where email = $1',
      [person.email],
    );
    const { issuer, subject } = person;
    const signed_in_at = new Date(START);
    assert.deepEqual(row, {
      id: `user:${person.email}`,
      issuer,
      subject,
      name: 'Second',
      groups: ['b', 'c'],
      signed_in_at,
    });
  });

  it('has access tokens looked up anew when the groups changed, and only then', async () => {
    await listen();
    const { grants, sessions } = open();
    const person = somebody({ groups: ['a'] });
    const { id } = await signIn(grants, person);
    const token = await addToken(person.email);
    const marker = await addToken('marker@example.com');
    await sessions.finishRefresh(id, { person, sealed_grant: '' });
    await store.database.query('test_mark', 'select pg_notify($1, $2)', [TOKENS_CHANNEL, marker.hash]);
    await until('the marker arrives', () => announced.includes(marker.hash));
    assert.ok(!announced.includes(token.hash));
    await sessions.finishRefresh(id, { person: { ...person, groups: ['b'] }, sealed_grant: '' });
    await until('the token is announced', () => announced.includes(token.hash));
  });

  it('takes the tokens they made themselves along to a new address', async () => {
    const { grants, sessions } = open();
    const person = somebody();
    const { id, refresh_token } = await signIn(grants, person);
    const [own, given] = [await addToken(person.email, true), await addToken(person.email)];
    const renamed = { ...person, email: `new-${person.email}` };
    await sessions.beginRefresh(refresh_token);
    await sessions.finishRefresh(id, { person: renamed, sealed_grant: '' });
    assert.equal((await tokenRow(own.id)).owner, renamed.email);
    assert.equal(
      (await tokenRow(given.id)).owner,
      person.email,
      'what an administrator made for an address stays with it',
    );
    assert.deepEqual(
      (await sessions.list({ user: renamed.email })).map((each) => each.id),
      [id],
    );
    assert.equal((await changesOf(own.id)).length, 1);
  });

  it('is one person when two replicas sign them in for the first time at the same moment', async () => {
    const { clock, grants, sessions } = open();
    const elsewhere = createDeviceGrants({ database: await store.another(), clock, refresh_days: 30 });
    for (let round = 0; round < 10; round++) {
      const person = somebody();
      const codes = [await approveSignIn(grants, person), await approveSignIn(grants, person)];
      const polled = await Promise.all([grants.poll(codes[0]!), elsewhere.poll(codes[1]!)]);
      assert.deepEqual(
        polled.map(({ outcome }) => outcome),
        ['signed_in', 'signed_in'],
      );
      assert.equal((await sessions.list({ user: person.email })).length, 2);
    }
  });
});
