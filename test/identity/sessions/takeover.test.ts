import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Person } from '../../../engine/identity/provider/admit.ts';
import { type ClaimProblem, claimProblem, rebindPerson } from '../../../engine/identity/sessions/bindings.ts';
import { SESSIONS_CHANNEL } from '../../../engine/identity/sessions/revocations.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { TOKENS_CHANNEL } from '../../../engine/identity/tokens/token-format.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { approveSignIn, openGrantsAndForm, START, sent, signIn, somebody } from './people.ts';

let store: TestStore;
const announced: string[] = [];
useTestStore((opened) => {
  store = opened;
});

function open(database = store.database) {
  const clock = frozenClock(START);
  return {
    clock,
    grants: openGrantsAndForm({ database, clock, refresh_days: 30 }),
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

/** What becomes of a sign-in; its session where it worked. */
async function outcomeOf(grants: ReturnType<typeof open>['grants'], person: Person): Promise<string> {
  return (await grants.poll(await approveSignIn(grants, person))).outcome;
}

const by = { kind: 'command', name: 'ops@host' } as const;

describe('an e-mail address that another account claims', () => {
  it('stays with whom it is bound to, and nothing of theirs ends', async () => {
    const { grants, sessions } = open();
    const owner = somebody();
    const session = await signIn(grants, owner);
    const [given, own] = [await addToken(owner.email), await addToken(owner.email, true)];
    const rivals: [Person, ClaimProblem][] = [
      [{ ...owner, subject: 'somebody-else' }, 'other_account'],
      [{ ...owner, subject: owner.subject.toUpperCase() }, 'other_account'],
      [{ ...owner, issuer: 'https://other.example.com' }, 'other_provider'],
    ];
    for (const [rival, problem] of rivals) {
      assert.equal(await claimProblem(store.database, rival), problem);
      assert.equal(await outcomeOf(grants, rival), 'denied');
    }
    assert.equal(await claimProblem(store.database, { ...owner, issuer: `${owner.issuer}/` }), undefined);
    assert.deepEqual(
      (await sessions.list({ user: owner.email, ended: true })).map(({ id, revoked_at }) => [id, revoked_at]),
      [[session.id, null]],
    );
    for (const { id } of [given, own]) assert.equal((await tokenRow(id)).revoked_at, null);
    assert.equal((await sessions.beginRefresh(sent(session.refresh_token))).outcome, 'ready');
    assert.equal(await outcomeOf(grants, owner), 'signed_in');
  });

  it('is nobody’s by signing in once administrators made access tokens for it, whatever became of those', async () => {
    const { grants } = open();
    for (const revoked of [false, true]) {
      const person = somebody();
      const { id } = await addToken(person.email);
      if (revoked)
        await store.database.query('test_revoke', 'update access_tokens set revoked_at = now() where id = $1', [id]);
      assert.equal(await claimProblem(store.database, person), 'administrator_made');
      assert.equal(await outcomeOf(grants, person), 'denied');
    }
  });

  it('keeps the tokens an administrator made for a person who had signed in before', async () => {
    const { grants } = open();
    const person = somebody();
    await signIn(grants, person);
    const { id } = await addToken(person.email);
    assert.equal(await outcomeOf(grants, person), 'signed_in');
    assert.equal((await tokenRow(id)).revoked_at, null);
  });

  it('goes to the first of several who want it at the same moment, and to nobody else', async () => {
    const { clock, grants } = open();
    const elsewhere = openGrantsAndForm({ database: await store.another(), clock, refresh_days: 30 });
    for (let round = 0; round < 10; round++) {
      const contested = somebody();
      const rivals = ['one', 'two', 'three'].map((subject) => ({ ...contested, subject }));
      const codes = await Promise.all(rivals.map((rival) => approveSignIn(grants, rival)));
      const polled = await Promise.all(codes.map((code, i) => (i % 2 ? grants : elsewhere).poll(code)));
      assert.deepEqual(polled.map(({ outcome }) => outcome).sort(), ['denied', 'denied', 'signed_in']);
    }
  });

  it('of a new name is not taken by its renamed owner where somebody else has it', async () => {
    const { grants, sessions } = open();
    const [anna, ben] = [somebody(), somebody()];
    const session = await signIn(grants, anna);
    const of_ben = await signIn(grants, ben);
    await sessions.beginRefresh(sent(session.refresh_token));
    const renamed = { ...anna, email: ben.email };
    assert.equal(
      await sessions.finishRefresh(session.id, { ...sent(session.refresh_token), person: renamed, sealed_grant: '' }),
      undefined,
    );
    assert.deepEqual(
      (await sessions.list({ user: ben.email })).map(({ id }) => id),
      [of_ben.id],
    );
    assert.equal((await sessions.beginRefresh(sent(session.refresh_token))).outcome, 'revoked');
  });
});

describe('an e-mail address that an administrator binds anew', () => {
  it('goes to the account that is named, and takes what its former owner had', async () => {
    await listen();
    const { clock, grants, sessions } = open();
    const former = somebody();
    const session = await signIn(grants, former);
    const token = await addToken(former.email);
    const waiting = await approveSignIn(grants, former);
    const account = { issuer: former.issuer, subject: 'the-next' };
    const database = store.database;
    const ended = await rebindPerson(
      { database, clock },
      { user: former.email.toUpperCase(), account, with_tokens: true, actor: by },
    );
    assert.deepEqual(ended, { known: true, sessions: 1, tokens: 1 });
    assert.equal((await sessions.beginRefresh(sent(session.refresh_token))).outcome, 'revoked');
    assert.deepEqual((await tokenRow(token.id)).revoked_at, new Date(START));
    await until('the end of both is announced', () => announced.includes(session.id) && announced.includes(token.hash));
    assert.equal((await grants.poll(waiting)).outcome, 'denied', 'a sign-in under way is over, too');
    assert.equal(await outcomeOf(grants, former), 'denied');
    assert.equal(await outcomeOf(grants, { ...former, subject: 'the-next' }), 'signed_in');
    const [change] = await changesOf(former.email);
    assert.deepEqual(change, {
      at: new Date(START),
      actor_kind: 'command',
      actor: 'ops@host',
      action: 'person.rebind',
      before: { issuer: former.issuer, subject: former.subject },
      after: { ...account, sessions: 1, tokens: 1 },
    });
  });

  it('goes to the next account that signs in, and to that alone', async () => {
    const { clock, grants } = open();
    const former = somebody();
    await signIn(grants, former);
    const token = await addToken(former.email, true);
    const rebinding = { user: former.email, with_tokens: false, actor: by };
    await rebindPerson({ database: store.database, clock }, rebinding);
    const next = { ...former, issuer: 'https://new.example.com', subject: 'n-1' };
    assert.equal(await outcomeOf(grants, next), 'signed_in');
    assert.equal(await outcomeOf(grants, former), 'denied');
    assert.equal((await tokenRow(token.id)).revoked_at, null, 'a new provider costs nobody their tokens');
  });

  it('may be that of administrator-made tokens, which then are the person’s', async () => {
    const { clock, grants } = open();
    const person = somebody();
    const token = await addToken(person.email);
    const rebinding = { user: person.email, with_tokens: false, actor: by };
    await rebindPerson({ database: store.database, clock }, rebinding);
    assert.equal(await outcomeOf(grants, person), 'signed_in');
    assert.equal((await tokenRow(token.id)).revoked_at, null);
    const unknown = await rebindPerson(
      { database: store.database, clock },
      { ...rebinding, user: 'nobody@example.com' },
    );
    assert.equal(unknown.known, false);
  });
});

describe('a person who signs in', () => {
  it('has the groups and the name of the latest sign-in or refresh', async () => {
    const { grants, sessions } = open();
    const person = somebody({ name: 'First', groups: ['a'] });
    const { id, refresh_token } = await signIn(grants, person);
    const changed = { ...person, name: 'Second', groups: ['b', 'c'] };
    await sessions.finishRefresh(id, { ...sent(refresh_token), person: changed, sealed_grant: '' });
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
    const { id, refresh_token } = await signIn(grants, person);
    const token = await addToken(person.email);
    const marker = await addToken('marker@example.com');
    const gone_on = await sessions.finishRefresh(id, { ...sent(refresh_token), person, sealed_grant: '' });
    await store.database.query('test_mark', 'select pg_notify($1, $2)', [TOKENS_CHANNEL, marker.hash]);
    await until('the marker arrives', () => announced.includes(marker.hash));
    assert.ok(!announced.includes(token.hash));
    const changed = { ...person, groups: ['b'] };
    await sessions.finishRefresh(id, { ...sent(gone_on!.refresh_token), person: changed, sealed_grant: '' });
    await until('the token is announced', () => announced.includes(token.hash));
  });

  it('takes the tokens they made themselves along to a new address', async () => {
    const { grants, sessions } = open();
    const person = somebody();
    const { id, refresh_token } = await signIn(grants, person);
    const [own, given] = [await addToken(person.email, true), await addToken(person.email)];
    const renamed = { ...person, email: `new-${person.email}` };
    await sessions.beginRefresh(sent(refresh_token));
    await sessions.finishRefresh(id, { ...sent(refresh_token), person: renamed, sealed_grant: '' });
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
    const elsewhere = openGrantsAndForm({ database: await store.another(), clock, refresh_days: 30 });
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
