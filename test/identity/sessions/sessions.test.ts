import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { openSightings } from '../../../engine/identity/sessions/sightings.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import type { Database } from '../../../engine/store/database.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { DEVICE, openGrantsAndForm, START, sent, signIn, somebody } from './people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

function open(clock: FrozenClock = frozenClock(START), database: Database = store.database) {
  const grants = openGrantsAndForm({ database, clock, refresh_days: 30 });
  return { clock, grants, sessions: createSessions({ database, clock, busy_patience_ms: 0 }) };
}

/** Goes through with a refresh; the outcome of its beginning when it does not get further. */
async function refresh({ sessions }: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string, from?: string) {
  const begun = await sessions.beginRefresh(sent(refresh_token, from));
  if (begun.outcome === 'repeated') return begun.session;
  if (begun.outcome !== 'ready') return begun.outcome;
  return (
    (await sessions.finishRefresh(begun.session.id, { ...sent(refresh_token, from), ...begun.session })) ?? 'ended'
  );
}

/** The same, where it must work. */
async function renewed(gateway: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string, from?: string) {
  const result = await refresh(gateway, refresh_token, from);
  assert.ok(typeof result === 'object', String(result));
  return result;
}

/** Uses the session token that a renewal of this moment gave. */
async function useToken(session_id: string, clock: Pick<FrozenClock, 'now'>) {
  const sightings = openSightings({ database: store.database, log: quietLog, every: () => () => {} });
  sightings.note(session_id, Math.floor(clock.now() / 1000) * 1000);
  await sightings.flush();
}

/** Outcomes of refreshes: `finished` for those that went through. */
const words = (results: readonly (object | string)[]) =>
  results.map((result) => (typeof result === 'string' ? result : 'finished')).sort();

describe('refreshing a session', () => {
  it('gives what the identity provider is asked with, and replaces the token', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const person = somebody({ groups: ['staff'], team: 'search' });
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

  it('stores hashes of refresh tokens and never the tokens', async () => {
    const gateway = open();
    const { refresh_token } = await signIn(gateway.grants, somebody());
    const rows = await store.database.query<{ text: string }>(
      'test_sessions',
      'select s::text || t::text as text from sessions s join refresh_tokens t on t.session_id = s.id',
      [],
    );
    assert.ok(rows.length > 0);
    assert.ok(rows.every(({ text }) => !text.includes(refresh_token.slice(4))));
  });

  it('makes a second one wait while the first is under way, and ends nothing', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const { id, refresh_token } = await signIn(gateway.grants, somebody());
    assert.equal((await gateway.sessions.beginRefresh(sent(refresh_token))).outcome, 'ready');
    assert.equal((await gateway.sessions.beginRefresh(sent(refresh_token))).outcome, 'busy');
    await gateway.sessions.abandonRefresh(id);
    assert.equal(
      (await gateway.sessions.beginRefresh(sent(refresh_token))).outcome,
      'ready',
      'it was given back unused',
    );
    clock.advance(60_000);
    assert.equal((await gateway.sessions.beginRefresh(sent(refresh_token))).outcome, 'ready', 'whoever had it is gone');
  });

  it('makes it wait longer where the identity provider may take longer', async () => {
    const clock = frozenClock(START);
    const { refresh_token } = await signIn(open(clock).grants, somebody());
    const sessions = createSessions({ database: store.database, clock, refresh_seconds: 260, busy_patience_ms: 0 });
    await sessions.beginRefresh(sent(refresh_token));
    clock.advance(259_000);
    assert.equal((await sessions.beginRefresh(sent(refresh_token))).outcome, 'busy');
    clock.advance(1000);
    assert.equal((await sessions.beginRefresh(sent(refresh_token))).outcome, 'ready');
  });

  it('is given back with what the identity provider replaced meanwhile', async () => {
    const gateway = open();
    const { id, refresh_token } = await signIn(gateway.grants, somebody());
    await gateway.sessions.beginRefresh(sent(refresh_token));
    await gateway.sessions.abandonRefresh(id, 'sealed-anew');
    const begun = await gateway.sessions.beginRefresh(sent(refresh_token));
    assert.ok(begun.outcome === 'ready');
    assert.equal(begun.session.sealed_grant, 'sealed-anew');
  });

  it('comes to nothing when the session is ended meanwhile', async () => {
    const gateway = open();
    const person = somebody();
    const { id, refresh_token } = await signIn(gateway.grants, person);
    await gateway.sessions.beginRefresh(sent(refresh_token));
    assert.equal(await gateway.sessions.end(id, 'signed out'), true);
    const changed = { ...sent(refresh_token), person: { ...person, groups: ['changed'] }, sealed_grant: 'sealed' };
    assert.equal(await gateway.sessions.finishRefresh(id, changed), undefined);
    const [row] = await store.database.query('test_groups', 'select groups from principals where email = $1', [
      person.email,
    ]);
    assert.deepEqual(row, { groups: ['staff'] }, 'nothing is half done');
    assert.equal(await gateway.sessions.finishRefresh('ses_none', changed), undefined);
  });

  it('is over when the session has expired', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const { refresh_token, person } = await signIn(gateway.grants, somebody());
    clock.advance(30 * 86_400_000);
    assert.equal(await refresh(gateway, refresh_token), 'expired');
    assert.deepEqual(await gateway.sessions.list({ user: person.email }), []);
    assert.equal((await gateway.sessions.list({ user: person.email, ended: true })).length, 1);
  });

  it('knows nothing of texts that are no refresh token of its own', async () => {
    const { sessions } = open();
    const hostile = [
      '',
      'gwr_',
      '\0',
      `gwr_${'A'.repeat(43)}`,
      `gwr_${'A'.repeat(43)}\n`,
      "gwr_' or true --",
      'A'.repeat(1e6),
    ];
    for (const text of hostile) {
      assert.deepEqual(await sessions.beginRefresh(sent(text)), { outcome: 'unknown' });
      assert.equal(await sessions.sessionOf(text), undefined);
    }
  });

  it('goes through once with one token, however many try on however many replicas', async () => {
    const handles = [store.database, await store.another(), await store.another()];
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 12 }), async (count) => {
        const clock = frozenClock(START);
        const gateways = handles.map((database) => open(clock, database));
        const { refresh_token, person } = await signIn(gateways[0]!.grants, somebody());
        const results = await Promise.all(
          Array.from({ length: count }, (_, i) => refresh(gateways[i % gateways.length]!, refresh_token)),
        );
        const outcomes = words(results);
        // Who began while it was under way was told to wait; who came after it got the same.
        assert.ok(
          outcomes.every((word) => /^(?:finished|busy)$/.test(word)),
          String(outcomes),
        );
        const got = results.flatMap((result) => (typeof result === 'string' ? [] : [result.refresh_token]));
        assert.equal(new Set(got).size, 1);
        assert.equal((await gateways[0]!.sessions.list({ user: person.email })).length, 1);
      }),
      { numRuns: times(15) },
    );
  });

  it('begins once with one token, however many try at the same moment', async () => {
    const handles = [store.database, await store.another()];
    for (let round = 0; round < 10; round++) {
      const gateways = handles.map((database) => open(frozenClock(START), database));
      const { refresh_token } = await signIn(gateways[0]!.grants, somebody());
      const begun = await Promise.all(
        Array.from({ length: 8 }, (_, i) => gateways[i % 2]!.sessions.beginRefresh(sent(refresh_token))),
      );
      const outcomes = begun.map(({ outcome }) => outcome).sort();
      assert.deepEqual(outcomes, [...Array<string>(7).fill('busy'), 'ready']);
    }
  });
});

describe('a refresh token that was replaced', () => {
  const MINUTE = 60_000;

  it('gives the same successor again for half a minute, to as many as come, without asking anybody', async () => {
    const gateway = open();
    const { refresh_token } = await signIn(gateway.grants, somebody());
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token);
    await useToken(first.id, gateway.clock);
    gateway.clock.advance(29_000);
    for (let times = 0; times < 3; times++) assert.deepEqual(await renewed(gateway, refresh_token), first);
    gateway.clock.advance(1000);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
  });

  it('is refused after that, and nothing ends: the successor goes on', async () => {
    const gateway = open();
    const { refresh_token, person } = await signIn(gateway.grants, somebody());
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token);
    await useToken(first.id, gateway.clock);
    gateway.clock.advance(MINUTE);
    for (let times = 0; times < 3; times++) assert.equal(await refresh(gateway, refresh_token), 'replaced');
    assert.equal((await gateway.sessions.list({ user: person.email })).length, 1);
    await renewed(gateway, first.refresh_token);
  });

  it('goes on to be good while nothing shows that its successor arrived, which is then replaced as well', async () => {
    const gateway = open();
    const { refresh_token, id } = await signIn(gateway.grants, somebody());
    // The session token of before is in use, and says nothing about what came later.
    await useToken(id, gateway.clock);
    gateway.clock.advance(60 * MINUTE);
    const lost = [(await renewed(gateway, refresh_token)).refresh_token];
    for (const hours of [1, 9]) {
      gateway.clock.advance(hours * 60 * MINUTE);
      const begun = await gateway.sessions.beginRefresh(sent(refresh_token));
      assert.equal(begun.outcome, 'ready', 'the identity provider is asked again');
      await gateway.sessions.abandonRefresh(id);
      lost.push((await renewed(gateway, refresh_token)).refresh_token);
    }
    assert.equal(new Set(lost).size, 3);
    await useToken(id, gateway.clock);
    gateway.clock.advance(MINUTE);
    const newest = lost.pop()!;
    for (const other of [refresh_token, ...lost])
      assert.equal(await refresh(gateway, other), 'replaced', 'the one that replaced it was seen');
    await renewed(gateway, newest);
  });

  it('goes on to be good when the session token of before was used in the second of a renewal that got lost', async () => {
    const gateway = open();
    const { refresh_token, id } = await signIn(gateway.grants, somebody());
    const issued_at = gateway.clock.now();
    gateway.clock.advance(100);
    const first = await renewed(gateway, refresh_token);
    await useToken(id, { now: () => issued_at });
    for (const pause_ms of [300, 200]) {
      gateway.clock.advance(MINUTE);
      await renewed(gateway, refresh_token);
      gateway.clock.advance(pause_ms);
    }
    assert.notEqual(first.refresh_token, (await renewed(gateway, refresh_token)).refresh_token);
    await useToken(id, gateway.clock);
    gateway.clock.advance(2 * MINUTE);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
  });

  it('may be one that nothing showed to have arrived: it goes on until the one that replaced it is seen', async () => {
    const gateway = open();
    const { refresh_token } = await signIn(gateway.grants, somebody());
    const first = await renewed(gateway, refresh_token);
    gateway.clock.advance(MINUTE);
    const second = await renewed(gateway, refresh_token);
    gateway.clock.advance(MINUTE);
    const third = await renewed(gateway, first.refresh_token);
    await useToken(third.id, gateway.clock);
    gateway.clock.advance(MINUTE);
    for (const other of [refresh_token, first.refresh_token, second.refresh_token])
      assert.equal(await refresh(gateway, other), 'replaced');
    await renewed(gateway, third.refresh_token);
  });

  it('gives nothing when it is older than the one before the newest, however fast they were replaced', async () => {
    const gateway = open();
    const { refresh_token } = await signIn(gateway.grants, somebody());
    const first = await renewed(gateway, refresh_token);
    await renewed(gateway, first.refresh_token);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    const [row] = await store.database.query(
      'test_sealed',
      'select count(successor)::integer as kept from refresh_tokens where session_id = $1',
      [first.id],
    );
    assert.deepEqual(row, { kept: 1 });
  });

  it('does not put a second line of tokens beside the first when a slow refresh ends after another one', async () => {
    const gateway = open();
    const { refresh_token, id, person } = await signIn(gateway.grants, somebody());
    await gateway.sessions.beginRefresh(sent(refresh_token));
    gateway.clock.advance(MINUTE);
    const first = await renewed(gateway, refresh_token);
    const late = { ...sent(refresh_token), person, sealed_grant: 'sealed-late' };
    assert.equal((await gateway.sessions.finishRefresh(id, late))?.refresh_token, first.refresh_token);
    await renewed(gateway, first.refresh_token);
    assert.equal(await gateway.sessions.finishRefresh(id, late), undefined);
  });

  it('ends the session once its person signs in again with the program that was refused', async () => {
    const gateway = open();
    const person = somebody();
    const { refresh_token, id } = await signIn(gateway.grants, person);
    gateway.clock.advance(MINUTE);
    await renewed(gateway, refresh_token, '203.0.113.9');
    await useToken(id, gateway.clock);
    gateway.clock.advance(MINUTE);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    const ids = async () => (await gateway.sessions.list({ user: person.email })).map((session) => session.id);
    assert.deepEqual(await ids(), [id]);
    const anew = await signIn(gateway.grants, person);
    assert.deepEqual(await ids(), [anew.id]);
  });

  it('ends nothing at the next sign-in where the refused one goes on, or is where the session is renewed from', async () => {
    const gateway = open();
    const person = somebody();
    const { refresh_token, id } = await signIn(gateway.grants, person);
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
    const gateway = open();
    const person = somebody();
    const { refresh_token, id } = await signIn(gateway.grants, person);
    await store.database.query('test_client', "update sessions set client = 'other/1.0' where id = $1", [id]);
    gateway.clock.advance(MINUTE);
    await renewed(gateway, refresh_token, '203.0.113.9');
    await useToken(id, gateway.clock);
    gateway.clock.advance(MINUTE);
    assert.equal(await refresh(gateway, refresh_token), 'replaced');
    assert.equal(DEVICE.client.split('/')[0], 'coder');
    await signIn(gateway.grants, person);
    assert.equal((await gateway.sessions.list({ user: person.email })).length, 2);
  });

  it('is stored so that the database alone gives nobody its successor', async () => {
    const gateway = open();
    const { refresh_token } = await signIn(gateway.grants, somebody());
    const first = await renewed(gateway, refresh_token);
    const rows = await store.database.query<{ text: string }>(
      'test_successors',
      'select t::text as text from refresh_tokens t where session_id = $1',
      [first.id],
    );
    for (const { text } of rows) assert.ok(![refresh_token, first.refresh_token].some((token) => text.includes(token)));
  });
});

describe('a second refresh of a session', () => {
  it('waits for the first, and gets what that one got', async () => {
    const gateway = open();
    const patient = createSessions({ database: await store.another(), clock: gateway.clock });
    const { refresh_token, id } = await signIn(gateway.grants, somebody());
    const begun = await gateway.sessions.beginRefresh(sent(refresh_token));
    assert.ok(begun.outcome === 'ready');
    const second = patient.beginRefresh(sent(refresh_token));
    const first = await gateway.sessions.finishRefresh(id, { ...sent(refresh_token), ...begun.session });
    assert.deepEqual(await second, { outcome: 'repeated', session: first });
  });
});

describe('ending a session', () => {
  it('is done once, and tells whether there was one to end', async () => {
    const gateway = open();
    const { id, refresh_token, person } = await signIn(gateway.grants, somebody());
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
  });

  it('leaves nothing of the identity provider behind', async () => {
    const gateway = open();
    const { id } = await signIn(gateway.grants, somebody());
    await gateway.sessions.end(id, 'signed out');
    await gateway.sessions.abandonRefresh(id, 'sealed-late');
    const [row] = await store.database.query('test_grant', 'select sealed_grant from sessions where id = $1', [id]);
    assert.deepEqual(row, { sealed_grant: '' });
  });
});

describe('the record of changes', () => {
  it('says who ended a session, and why', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const person = somebody();
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
    const rows = await store.database.query<{ before: object; after: { because: string } }>(
      'test_changes',
      `select at, actor_kind || ' ' || actor as actor, action, subject, before, after from admin_changes
       where before->>'user' = $1 order by id`,
      [person.email],
    );
    const change = { at: new Date(START), action: 'session.end' };
    const because = 'its person signed in again after a replaced refresh token was refused';
    assert.deepEqual(
      rows.map(({ before: _, after, ...row }) => ({ ...row, because: after.because })),
      [
        { ...change, actor: `person ${person.email}`, subject: left.id, because: 'signed out' },
        { ...change, actor: 'gateway sign-in', subject: refused.id, because: 'the identity provider refused' },
        { ...change, at: new Date(clock.now()), actor: 'gateway sign-in', subject: stolen.id, because },
      ],
    );
    assert.ok(!JSON.stringify(rows).includes('sealed'));
    assert.deepEqual(
      (await gateway.sessions.list({ user: person.email })).map(({ id }) => id),
      [anew.id],
    );
  });
});

describe('listing sessions', () => {
  it('shows the newest first, of one person or of all', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const person = somebody();
    const first = await signIn(gateway.grants, person);
    clock.advance(1000);
    const second = await signIn(gateway.grants, person);
    const other = await signIn(gateway.grants, somebody());
    const ids = async (only: { user?: string }) => (await gateway.sessions.list(only)).map(({ id }) => id);
    assert.deepEqual(await ids({ user: person.email }), [second.id, first.id]);
    const all = await ids({});
    for (const { id } of [first, second, other]) assert.ok(all.includes(id));
    assert.deepEqual(await ids({ user: "' or true --" }), []);
  });
});
