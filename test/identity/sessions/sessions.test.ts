import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { Person } from '../../../engine/domain/identity/provider/admit.ts';
import { createDeviceGrants } from '../../../engine/domain/identity/sessions/device-grants.ts';
import { type ClaimProblem, claimProblem, rebindAs } from '../../../engine/domain/identity/sessions/people.ts';
import {
  createSessions,
  openRevocations,
  openSessionActivity,
} from '../../../engine/domain/identity/sessions/sessions.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { addToken, anyPerson, approveSignIn, DEVICE, openGrantsAndForm, START, sent, signIn } from './people.ts';

const { store, ledgers: to_close } = useTestStore();

function open(clock: FrozenClock = frozenClock(START), database: Database = store.database) {
  const grants = openGrantsAndForm({ database, clock, refresh_days: 30 });
  return { clock, grants, sessions: createSessions({ database, clock, busy_timeout_ms: 0 }) };
}

async function signedIn() {
  const gateway = open();
  return { gateway, clock: gateway.clock, ...(await signIn(gateway.grants, anyPerson())) };
}

async function begun(grants: ReturnType<typeof open>['grants']) {
  const { device_code, user_code } = await grants.begin(DEVICE);
  return { device_code, id: (await grants.enter(user_code))!.id };
}

const began = async ({ sessions }: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string) =>
  (await sessions.beginRefresh(sent(refresh_token))).outcome;

/** Goes through with a refresh; the outcome of its beginning when it does not get further. */
async function refresh({ sessions }: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string, from?: string) {
  const begun = await sessions.beginRefresh(sent(refresh_token, from));
  if (begun.outcome === 'repeated') return begun.session;
  if (begun.outcome !== 'ready') return begun.outcome;
  return (
    (await sessions.finishRefresh(begun.session.id, { ...sent(refresh_token, from), ...begun.session })) ?? 'ended'
  );
}

async function renewed(gateway: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string, from?: string) {
  const result = await refresh(gateway, refresh_token, from);
  assert.ok(typeof result === 'object', String(result));
  return result;
}

async function useToken(session_id: string, clock: Pick<FrozenClock, 'now'>) {
  const session_activity = openSessionActivity({ database: store.database, log: quietLog, every: () => () => {} });
  session_activity.note(session_id, Math.floor(clock.now() / 1000) * 1000);
  await session_activity.flush();
}

it('a sign-in stores the hash of its device code, and what PostgreSQL can store of the program', async () => {
  const { grants } = open();
  const { device_code, user_code } = await grants.begin({ client: 'a\0b\ud800', client_address: '\0' });
  const rows = await store.rows('select g::text as text from device_grants g');
  assert.ok(rows.length > 0);
  assert.ok(rows.every(({ text }) => !text.includes(device_code)));
  assert.equal((await grants.enter(user_code))?.client, 'a\ufffdb\ufffd');
});

it('a sign-in whose random user code is taken gets another one', async () => {
  const { clock, grants } = open();
  const { user_code: taken } = await grants.begin(DEVICE);
  let tries = 0;
  const database: Pick<Database, 'query'> = {
    query(name, text, values) {
      const first = values.with(2, taken.replace('-', ''));
      return store.database.query(name, text, ++tries === 1 ? first : values);
    },
  };
  const { user_code } = await createDeviceGrants({ database, clock, refresh_days: 30 }).begin(DEVICE);
  assert.equal(tries, 2);
  assert.notEqual(user_code, taken);
  assert.ok(await grants.enter(user_code));
});

describe('the state a browser comes back with', () => {
  it('leads to its sign-in once', async () => {
    const { grants } = open();
    const { id } = await begun(grants);
    assert.equal(await grants.noteState(id, 'state-1'), true);
    const others = [await store.another(), await store.another()].map(
      (database) => open(frozenClock(START), database).grants,
    );
    const taken = await Promise.all([grants, ...others, ...others].map((each) => each.takeState('state-1')));
    const ids = taken.flatMap((grant) => grant?.id ?? []);
    assert.deepEqual(ids, [id]);
    assert.equal(await grants.takeState('state-1'), undefined);
  });
});

describe('a device that asks whether its sign-in is done', () => {
  it('gets what was approved in the last second, and not much later', async () => {
    const { clock, grants } = open();
    const begun = [await grants.begin(DEVICE), await grants.begin(DEVICE)];
    const ids = await Promise.all(begun.map(async ({ user_code }) => (await grants.enter(user_code))!.id));
    clock.advance(599_000);
    for (const id of ids) await grants.approve(id, { person: anyPerson(), sealed_grant: 'sealed' });
    clock.advance(5000);
    assert.equal((await grants.poll(begun[0]!.device_code)).outcome, 'signed_in');
    clock.advance(60_000);
    assert.equal((await grants.poll(begun[1]!.device_code)).outcome, 'expired');
  });
});

describe('a device whose answer got lost', () => {
  /** A sign-in that was collected, and how to ask again at another replica. */
  async function collected() {
    const { clock, grants } = open();
    const device_code = await approveSignIn(grants, anyPerson());
    const first = await grants.poll(device_code);
    assert.ok(first.outcome === 'signed_in');
    const elsewhere = open(clock, await store.another()).grants;
    const sessions = createSessions({ database: store.database, clock });
    const statusOf = async () => (await sessions.list({ user: first.session.person.email, ended: true }))[0]!;
    return { clock, device_code, session: first.session, sessions, again: () => elsewhere.poll(device_code), statusOf };
  }

  it('is given the same session at another replica for half a minute, also after its code has expired', async () => {
    const { clock, session, sessions, again } = await collected();
    clock.advance(29_999);
    assert.deepEqual(await again(), { outcome: 'repeated', session });
    assert.equal((await sessions.list({ user: session.person.email })).length, 1);
    const late = frozenClock(START);
    const { grants } = open(late);
    const { device_code, id } = await begun(grants);
    late.advance(599_999);
    await grants.approve(id, { person: anyPerson(), sealed_grant: 'sealed' });
    late.advance(59_000);
    assert.equal((await grants.poll(device_code)).outcome, 'signed_in');
    late.advance(20_000);
    assert.equal((await grants.poll(device_code)).outcome, 'repeated');
  });

  it('is rejected after that, and the session ends once', async () => {
    const { clock, session, sessions, again, statusOf } = await collected();
    clock.advance(30_000);
    assert.deepEqual(await again(), { outcome: 'used', session_id: session.id, ended: true });
    assert.deepEqual(await again(), { outcome: 'used', session_id: session.id, ended: false });
    assert.equal((await statusOf()).revoked_because, 'its device code was used again');
    assert.equal(await began({ sessions }, session.refresh_token), 'revoked');
  });
});

describe('approving and denying', () => {
  it('is decided once, by the first', async () => {
    const other = open(frozenClock(START), await store.another()).grants;
    for (let round = 0; round < 10; round++) {
      const { grants } = open();
      const { device_code, id } = await begun(grants);
      const approval = { person: anyPerson(), sealed_grant: 'sealed' };
      const [approved, denied] = await Promise.all([grants.approve(id, approval), other.deny(id)]);
      assert.notEqual(approved, denied);
      assert.equal((await grants.poll(device_code)).outcome, approved ? 'signed_in' : 'denied');
    }
  });

  it('keeps no provider tokens of a sign-in that was collected', async () => {
    const { grants } = open();
    await grants.poll(await approveSignIn(grants, anyPerson({ email: 'collected@example.com' }), 'sealed-collected'));
    const rows = await store.rows(
      `select 1 from device_grants where sealed_grant = $1 or person->>'email' = $2`,
      'sealed-collected',
      'collected@example.com',
    );
    assert.deepEqual(rows, []);
  });
});

describe('refreshing a session', () => {
  it('returns the grant for the identity provider, and replaces the token', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const person = anyPerson({ groups: ['staff'], team: 'search' });
    const { id, refresh_token } = await signIn(gateway.grants, person);
    clock.advance(3_600_000);
    assert.deepEqual(await gateway.sessions.beginRefresh(sent(refresh_token)), {
      outcome: 'ready',
      session: { id, person, sealed_grant: 'sealed' },
    });
    const changed = { ...person, groups: ['staff', 'leads'], name: 'New Name' };
    const gone_on = await gateway.sessions.finishRefresh(id, {
      ...sent(refresh_token),
      person: changed,
      sealed_grant: 'sealed-anew',
    });
    assert.deepEqual({ ...gone_on, refresh_token: '' }, { id, person: changed, refresh_token: '' });
    assert.match(gone_on!.refresh_token, /^gwr_[\w-]{43}$/);
    assert.notEqual(gone_on!.refresh_token, refresh_token);
    assert.deepEqual(await gateway.sessions.beginRefresh(sent(gone_on!.refresh_token)), {
      outcome: 'ready',
      session: { id, person: changed, sealed_grant: 'sealed-anew' },
    });
    const [seen] = await gateway.sessions.list({ user: person.email });
    assert.equal(seen?.checked_at.toISOString(), '2026-03-10T13:00:00.000Z');
    assert.equal(seen?.expires_at.toISOString(), '2026-04-09T12:00:00.000Z', 'a session does not grow by refreshes');
  });

  it('is given back with what the identity provider replaced, and waited for as long as that may take', async () => {
    const { clock, id, refresh_token } = await signedIn();
    const sessions = createSessions({ database: store.database, clock, refresh_seconds: 260, busy_timeout_ms: 0 });
    await sessions.beginRefresh(sent(refresh_token));
    clock.advance(259_000);
    assert.equal(await began({ sessions }, refresh_token), 'busy');
    await sessions.abandonRefresh(id, 'sealed-anew');
    const begun = await sessions.beginRefresh(sent(refresh_token));
    assert.ok(begun.outcome === 'ready');
    assert.equal(begun.session.sealed_grant, 'sealed-anew');
    clock.advance(260_000);
    assert.equal(await began({ sessions }, refresh_token), 'ready');
  });

  it('is over when the session has expired', async () => {
    const { gateway, clock, refresh_token, person } = await signedIn();
    clock.advance(30 * 86_400_000);
    assert.equal(await refresh(gateway, refresh_token), 'expired');
    assert.deepEqual(await gateway.sessions.list({ user: person.email }), []);
    assert.equal((await gateway.sessions.list({ user: person.email, ended: true })).length, 1);
  });
});

describe('a refresh token that was replaced', () => {
  const MINUTE = 60_000;

  it('gives the same successor again for half a minute, and is rejected after that; nothing ends', async () => {
    const { gateway, refresh_token, person } = await signedIn();
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token);
    await useToken(first.id, gateway.clock);
    gateway.clock.advance(29_000);
    for (let times = 0; times < 3; times++) assert.deepEqual(await renewed(gateway, refresh_token), first);
    gateway.clock.advance(1000);
    for (let times = 0; times < 3; times++) assert.equal(await refresh(gateway, refresh_token), 'replaced');
    assert.equal((await gateway.sessions.list({ user: person.email })).length, 1);
    await renewed(gateway, first.refresh_token);
  });

  it('gives nothing, and keeps no successor, when it is older than the one before the newest', async () => {
    const { gateway, refresh_token, id } = await signedIn();
    const first = await renewed(gateway, refresh_token);
    await renewed(gateway, first.refresh_token);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    const kept = 'select count(successor)::integer as kept from refresh_tokens where session_id = $1';
    assert.deepEqual(await store.rows(kept, id), [{ kept: 1 }]);
  });

  it('does not put a second line of tokens beside the first when a slow refresh ends after another one', async () => {
    const { gateway, refresh_token, id, person } = await signedIn();
    await gateway.sessions.beginRefresh(sent(refresh_token));
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token);
    const late = { ...sent(refresh_token), person, sealed_grant: 'sealed-late' };
    assert.equal((await gateway.sessions.finishRefresh(id, late))?.refresh_token, first.refresh_token);
    await renewed(gateway, first.refresh_token);
    assert.equal(await gateway.sessions.finishRefresh(id, late), undefined);
  });

  it('ends nothing at the next sign-in if the rejected address continues, or renews the session', async () => {
    const { gateway, person, refresh_token, id } = await signedIn();
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token, '203.0.113.9');
    await useToken(id, gateway.clock);
    gateway.clock.advance(MINUTE);
    assert.equal(await refresh(gateway, refresh_token, '203.0.113.9'), 'replaced');
    await signIn(gateway.grants, person);
    // A laptop that was taken elsewhere: its idle terminal is refused, and adopts what the other one stored.
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    await renewed(gateway, first.refresh_token);
    await signIn(gateway.grants, person);
    assert.equal((await gateway.sessions.list({ user: person.email })).length, 3);
  });

  it('leaves sessions of other programs alone', async () => {
    const { gateway, person, refresh_token, id } = await signedIn();
    await store.rows("update sessions set client = 'other/1.0' where id = $1", id);
    gateway.clock.advance(MINUTE);
    await renewed(gateway, refresh_token, '203.0.113.9');
    await useToken(id, gateway.clock);
    gateway.clock.advance(MINUTE);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    assert.equal(DEVICE.client.split('/')[0], 'coder');
    await signIn(gateway.grants, person);
    assert.equal((await gateway.sessions.list({ user: person.email })).length, 2);
  });
});

describe('ending a session', () => {
  it('is done once, and reports whether there was one to end', async () => {
    const { gateway, id, refresh_token, person } = await signedIn();
    assert.equal(await gateway.sessions.sessionOf(refresh_token), id);
    const other = open(frozenClock(START), await store.another());
    const ended = await Promise.all(
      [gateway, other, gateway, other].map(({ sessions }) => sessions.end(id, 'signed out')),
    );
    assert.deepEqual(ended.sort(), [false, false, false, true]);
    assert.equal(await gateway.sessions.end('ses_none', 'signed out'), false);
    assert.equal(await gateway.sessions.end("' or true --\0", 'signed out'), false);
    assert.equal(await gateway.sessions.sessionOf(refresh_token), id, 'signing out twice is not an error');
    assert.deepEqual(await gateway.sessions.list({ user: person.email }), []);
    const [seen] = await gateway.sessions.list({ user: person.email, ended: true });
    assert.deepEqual([seen?.revoked_at, seen?.revoked_because], [new Date(START), 'signed out']);
    await gateway.sessions.abandonRefresh(id, 'sealed-late');
    const kept = await store.rows('select sealed_grant from sessions where id = $1', id);
    assert.deepEqual(kept, [{ sealed_grant: '' }], 'nothing of the identity provider is left');
  });
});

it('the record of changes names who ended a session, and why', async () => {
  const clock = frozenClock(START);
  const gateway = open(clock);
  const person = anyPerson();
  const [left, refused, stolen] = [
    await signIn(gateway.grants, person),
    await signIn(gateway.grants, person),
    await signIn(gateway.grants, person),
  ];
  await gateway.sessions.end(left.id, 'signed out', 'person');
  await gateway.sessions.end(refused.id, 'the identity provider refused');
  await gateway.sessions.end(refused.id, 'again');
  clock.advance(60_000);
  await renewed(gateway, stolen.refresh_token, '203.0.113.9');
  await useToken(stolen.id, clock);
  clock.advance(60_000);
  assert.equal(await refresh(gateway, stolen.refresh_token), 'replaced');
  const anew = await signIn(gateway.grants, person);
  const rows = await store.rows(
    `select at, actor_kind || ' ' || actor as actor, action, subject, before, after from admin_changes
     where before->>'user' = $1 order by id`,
    person.email,
  );
  const change = { at: new Date(START), action: 'session.end' };
  const because = 'its person signed in again after a replaced refresh token was rejected';
  assert.deepEqual(
    rows.map(({ before: _, after, ...row }) => ({ ...row, because: after.because })),
    [
      { ...change, actor: `person ${person.email}`, subject: left.id, because: 'signed out' },
      { ...change, actor: 'gateway sign-in', subject: refused.id, because: 'the identity provider refused' },
      { ...change, at: new Date(clock.now()), actor: 'gateway sign-in', subject: stolen.id, because },
    ],
  );
  assert.ok(!JSON.stringify(rows).includes('sealed'));
  const left_over = (await gateway.sessions.list({ user: person.email })).map(({ id }) => id);
  assert.deepEqual(left_over, [anew.id]);
});

const opened_lists: { close(): Promise<void> }[] = [];
to_close.push({ close: async () => void (await Promise.all(opened_lists.map((list) => list.close()))) });

/** Opens a list on a database of its own that may be switched off and whose announcements may be lost. */
async function openList(clock: FrozenClock = frozenClock(START), away = false) {
  const database = await store.another();
  const seen = { away, deaf: false, reconnect: () => {} };
  const list = openRevocations({
    clock,
    log: quietLog,
    every: () => () => {},
    database: {
      async query(name, text, values) {
        if (seen.away) throw new StageError('store_unavailable', 'switched off by the test');
        return database.query(name, text, values);
      },
      async listen(channel, onMessage, onReconnect) {
        if (seen.away) throw new Error('no listening either');
        seen.reconnect = onReconnect;
        return database.listen(channel, (payload) => seen.deaf || onMessage(payload), onReconnect);
      },
    },
  });
  opened_lists.push(list);
  await list.attempted;
  return { list, seen };
}

async function endedSession(clock?: FrozenClock) {
  const { grants, sessions } = open(clock);
  const { id } = await signIn(grants, anyPerson());
  await sessions.end(id, 'signed out');
  return id;
}

describe('the list of ended sessions', () => {
  it('knows what was ended before it was opened, and finds what was not announced, also by a slow clock', async () => {
    const clock = frozenClock(START);
    const before = await endedSession();
    const { list, seen } = await openList(clock);
    assert.equal(list.has(before), true);
    seen.deaf = true;
    const heard: string[] = [];
    list.onRevoked((each) => heard.push(each));
    const ids = [await endedSession(clock), await endedSession(frozenClock('2026-03-10T11:59:30Z'))];
    for (const id of ids) assert.equal(list.has(id), false);
    clock.advance(3000);
    await list.refresh();
    await list.refresh();
    for (const id of ids) assert.equal(list.has(id), true);
    assert.deepEqual(heard.sort(), ids.sort(), 'it tells of each once');
  });

  it('reads anew when it listens again', async () => {
    const { list, seen } = await openList();
    seen.deaf = true;
    const id = await endedSession();
    seen.reconnect();
    await until('the end is known', () => list.has(id));
  });

  it('forgets a session when no token of it can be good any more', async () => {
    const clock = frozenClock(START);
    const { list } = await openList(clock);
    const id = await endedSession(clock);
    await list.refresh();
    clock.advance(24 * 3_600_000);
    await list.refresh();
    assert.equal(list.has(id), true);
    clock.advance(61_000);
    await list.refresh();
    assert.equal(list.has(id), false);
  });

  it('reports that the store is away until it was read once, and goes on with what it knows after that', async () => {
    const { list, seen } = await openList(undefined, true);
    assert.throws(() => list.has('ses_1'), { code: 'store_unavailable' });
    for (const away of [false, true]) {
      seen.away = away;
      await list.refresh();
      assert.equal(list.has('ses_1'), false);
    }
  });
});

async function tokenRow(id: string) {
  const [row] = await store.rows(
    'select p.email as owner, t.revoked_at from access_tokens t join principals p on p.id = t.principal_id where t.id = $1',
    id,
  );
  return row!;
}

function changesOf(subject: string) {
  return store.rows(
    'select at, actor_kind, actor, action, before, after from admin_changes where subject = $1',
    subject,
  );
}

async function outcomeOf(grants: ReturnType<typeof open>['grants'], person: Person): Promise<string> {
  return (await grants.poll(await approveSignIn(grants, person))).outcome;
}

const by = { kind: 'command', name: 'ops@host' } as const;

describe('an e-mail address that another account claims', () => {
  it('stays with whom it is bound to, and nothing of theirs ends', async () => {
    const { grants, sessions } = open();
    const owner = anyPerson();
    const session = await signIn(grants, owner);
    const [given, own] = [await addToken(store, owner.email), await addToken(store, owner.email, true)];
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
    const kept = (await sessions.list({ user: owner.email, ended: true })).map(({ id, revoked_at }) => [
      id,
      revoked_at,
    ]);
    assert.deepEqual(kept, [[session.id, null]]);
    for (const { id } of [given, own]) assert.equal((await tokenRow(id)).revoked_at, null);
    assert.equal(await began({ sessions }, session.refresh_token), 'ready');
    assert.equal(await outcomeOf(grants, owner), 'signed_in');
  });

  it('is no one’s by signing in once administrators made access tokens for it, also when those are revoked', async () => {
    const { grants } = open();
    const person = anyPerson();
    const { id } = await addToken(store, person.email);
    await store.rows('update access_tokens set revoked_at = now() where id = $1', id);
    assert.equal(await claimProblem(store.database, person), 'administrator_made');
    assert.equal(await outcomeOf(grants, person), 'denied');
  });

  it('goes to the first of several who want it at the same moment, and to no one else', async () => {
    const { clock, grants } = open();
    const elsewhere = openGrantsAndForm({ database: await store.another(), clock, refresh_days: 30 });
    for (let round = 0; round < 10; round++) {
      const contested = anyPerson();
      const rivals = ['one', 'two', 'three'].map((subject) => ({ ...contested, subject }));
      const codes = await Promise.all(rivals.map((rival) => approveSignIn(grants, rival)));
      const polled = await Promise.all(codes.map((code, i) => (i % 2 ? grants : elsewhere).poll(code)));
      assert.deepEqual(polled.map(({ outcome }) => outcome).sort(), ['denied', 'denied', 'signed_in']);
    }
  });

  it('of a new name is not taken by its renamed owner where another user has it', async () => {
    const { grants, sessions } = open();
    const [anna, ben] = [anyPerson(), anyPerson()];
    const session = await signIn(grants, anna);
    const of_ben = await signIn(grants, ben);
    await sessions.beginRefresh(sent(session.refresh_token));
    const renamed = { ...anna, email: ben.email };
    const ended = await sessions.finishRefresh(session.id, {
      ...sent(session.refresh_token),
      person: renamed,
      sealed_grant: '',
    });
    assert.equal(ended, undefined);
    const of_address = (await sessions.list({ user: ben.email })).map(({ id }) => id);
    assert.deepEqual(of_address, [of_ben.id]);
    assert.equal(await began({ sessions }, session.refresh_token), 'revoked');
  });
});

it('an e-mail address that an administrator binds anew ends a sign-in under way, and the change is kept', async () => {
  const { clock, grants } = open();
  const former = anyPerson();
  await signIn(grants, former);
  const waiting = await approveSignIn(grants, former);
  const provider = { issuer_url: former.issuer };
  const rebinding = { ...former, email: former.email.toUpperCase() };
  const to = { subject: 'the-next', tokens: 'revoke' } as const;
  await rebindAs({ database: store.database, clock, actor: by }, rebinding, to, provider);
  assert.equal((await grants.poll(waiting)).outcome, 'denied');
  const before = { issuer: former.issuer, subject: former.subject };
  const change = { actor_kind: 'command', actor: 'ops@host', action: 'person.rebind', before };
  const after = { issuer: new URL(former.issuer).href, subject: 'the-next', sessions: 1, tokens: 0 };
  assert.deepEqual(await changesOf(former.email), [{ at: new Date(START), ...change, after }]);
});

describe('a person who signs in', () => {
  it('takes the tokens they made themselves along to a new address', async () => {
    const { grants, sessions } = open();
    const person = anyPerson();
    const { id, refresh_token } = await signIn(grants, person);
    const [own, given] = [await addToken(store, person.email, true), await addToken(store, person.email)];
    const renamed = { ...person, email: `new-${person.email}` };
    await sessions.beginRefresh(sent(refresh_token));
    await sessions.finishRefresh(id, { ...sent(refresh_token), person: renamed, sealed_grant: '' });
    assert.equal((await tokenRow(own.id)).owner, renamed.email);
    assert.equal(
      (await tokenRow(given.id)).owner,
      person.email,
      'what an administrator made for an address stays with it',
    );
    const moved = (await sessions.list({ user: renamed.email })).map((each) => each.id);
    assert.deepEqual(moved, [id]);
    assert.equal((await changesOf(own.id)).length, 1);
  });

  it('is one person when two replicas sign them in for the first time at the same moment', async () => {
    const { clock, grants, sessions } = open();
    const elsewhere = openGrantsAndForm({ database: await store.another(), clock, refresh_days: 30 });
    for (let round = 0; round < 10; round++) {
      const person = anyPerson();
      const codes = [await approveSignIn(grants, person), await approveSignIn(grants, person)];
      const polled = await Promise.all([grants.poll(codes[0]!), elsewhere.poll(codes[1]!)]);
      const outcomes = polled.map(({ outcome }) => outcome);
      assert.deepEqual(outcomes, ['signed_in', 'signed_in']);
      assert.equal((await sessions.list({ user: person.email })).length, 2);
    }
  });
});
