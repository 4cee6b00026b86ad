import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type FrozenClock, frozenClock } from '../../../engine/services/clock.ts';
import type { Database } from '../../../engine/services/database.ts';
import { createDeviceGrants } from '../../../engine/services/identity/device-grants.ts';
import { createSessions } from '../../../engine/services/identity/sessions.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';
import { START, signIn, somebody } from './people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

function open(clock: FrozenClock = frozenClock(START), database: Database = store.database) {
  const grants = createDeviceGrants({ database, clock, refresh_days: 30 });
  return { grants, sessions: createSessions({ database, clock }) };
}

/** Goes through with a refresh; the outcome of its beginning when it does not get further. */
async function refresh({ sessions }: Pick<ReturnType<typeof open>, 'sessions'>, refresh_token: string) {
  const begun = await sessions.beginRefresh(refresh_token);
  if (begun.outcome !== 'ready') return begun.outcome;
  return (await sessions.finishRefresh(begun.session.id, begun.session)) ?? 'ended';
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
    assert.deepEqual(await gateway.sessions.beginRefresh(refresh_token), {
      outcome: 'ready',
      session: { id, person, sealed_grant: 'sealed' },
    });
    const changed = { ...person, groups: ['staff', 'leads'], name: 'New Name' };
    const gone_on = await gateway.sessions.finishRefresh(id, { person: changed, sealed_grant: 'sealed-anew' });
    assert.deepEqual({ ...gone_on, refresh_token: '' }, { id, person: changed, refresh_token: '' });
    assert.match(gone_on!.refresh_token, /^gwr_[\w-]{43}$/);
    assert.notEqual(gone_on!.refresh_token, refresh_token);
    assert.deepEqual(await gateway.sessions.beginRefresh(gone_on!.refresh_token), {
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

  it('ends the session when a used token comes again, and says so only once', async () => {
    const gateway = open();
    const { id, refresh_token } = await signIn(gateway.grants, somebody());
    const gone_on = await refresh(gateway, refresh_token);
    assert.ok(typeof gone_on === 'object');
    assert.equal(await refresh(gateway, refresh_token), 'reused');
    assert.equal(await refresh(gateway, refresh_token), 'revoked');
    assert.equal(await refresh(gateway, gone_on.refresh_token), 'revoked');
    const [seen] = await gateway.sessions.list({ user: gone_on.person.email, ended: true });
    assert.deepEqual([seen?.id, seen?.revoked_because], [id, 'a refresh token was used twice']);
  });

  it('makes a second one wait while the first is under way, and ends nothing', async () => {
    const clock = frozenClock(START);
    const gateway = open(clock);
    const { id, refresh_token } = await signIn(gateway.grants, somebody());
    assert.equal((await gateway.sessions.beginRefresh(refresh_token)).outcome, 'ready');
    assert.equal((await gateway.sessions.beginRefresh(refresh_token)).outcome, 'busy');
    await gateway.sessions.abandonRefresh(id);
    assert.equal((await gateway.sessions.beginRefresh(refresh_token)).outcome, 'ready', 'it was given back unused');
    clock.advance(60_000);
    assert.equal((await gateway.sessions.beginRefresh(refresh_token)).outcome, 'ready', 'whoever had it is gone');
  });

  it('makes it wait longer where the identity provider may take longer', async () => {
    const clock = frozenClock(START);
    const { refresh_token } = await signIn(open(clock).grants, somebody());
    const sessions = createSessions({ database: store.database, clock, refresh_seconds: 260 });
    await sessions.beginRefresh(refresh_token);
    clock.advance(259_000);
    assert.equal((await sessions.beginRefresh(refresh_token)).outcome, 'busy');
    clock.advance(1000);
    assert.equal((await sessions.beginRefresh(refresh_token)).outcome, 'ready');
  });

  it('is given back with what the identity provider replaced meanwhile', async () => {
    const gateway = open();
    const { id, refresh_token } = await signIn(gateway.grants, somebody());
    await gateway.sessions.beginRefresh(refresh_token);
    await gateway.sessions.abandonRefresh(id, 'sealed-anew');
    const begun = await gateway.sessions.beginRefresh(refresh_token);
    assert.ok(begun.outcome === 'ready');
    assert.equal(begun.session.sealed_grant, 'sealed-anew');
  });

  it('comes to nothing when the session is ended meanwhile', async () => {
    const gateway = open();
    const person = somebody();
    const { id, refresh_token } = await signIn(gateway.grants, person);
    await gateway.sessions.beginRefresh(refresh_token);
    assert.equal(await gateway.sessions.end(id, 'signed out'), true);
    const changed = { person: { ...person, groups: ['changed'] }, sealed_grant: 'sealed' };
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
      assert.deepEqual(await sessions.beginRefresh(text), { outcome: 'unknown' });
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
        // Who began while it was under way was told to wait; who came after it ended the session.
        assert.ok(outcomes.filter((word) => word === 'finished').length <= 1);
        assert.ok(outcomes.filter((word) => word === 'reused').length <= 1);
        assert.ok(
          outcomes.every((word) => /^(?:finished|busy|reused|revoked|ended)$/.test(word)),
          String(outcomes),
        );
        assert.ok(outcomes.includes('finished') || outcomes.includes('ended'));
        const left = await gateways[0]!.sessions.list({ user: person.email });
        assert.equal(left.length, outcomes.includes('reused') ? 0 : 1);
      }),
      { numRuns: 15 },
    );
  });

  it('begins once with one token, however many try at the same moment', async () => {
    const handles = [store.database, await store.another()];
    for (let round = 0; round < 10; round++) {
      const gateways = handles.map((database) => open(frozenClock(START), database));
      const { refresh_token } = await signIn(gateways[0]!.grants, somebody());
      const begun = await Promise.all(
        Array.from({ length: 8 }, (_, i) => gateways[i % 2]!.sessions.beginRefresh(refresh_token)),
      );
      const outcomes = begun.map(({ outcome }) => outcome).sort();
      assert.deepEqual(outcomes, [...Array<string>(7).fill('busy'), 'ready']);
    }
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
    await refresh(gateway, stolen.refresh_token);
    await refresh(gateway, stolen.refresh_token);
    const rows = await store.database.query<{ before: object; after: { because: string } }>(
      'test_changes',
      `select at, actor_kind || ' ' || actor as actor, action, subject, before, after from admin_changes
       where before->>'user' = $1 order by id`,
      [person.email],
    );
    const change = { at: new Date(START), action: 'session.end' };
    assert.deepEqual(
      rows.map(({ before: _, after, ...row }) => ({ ...row, because: after.because })),
      [
        { ...change, actor: `person ${person.email}`, subject: left.id, because: 'signed out' },
        { ...change, actor: 'gateway sign-in', subject: refused.id, because: 'the identity provider refused' },
        { ...change, actor: 'gateway sign-in', subject: stolen.id, because: 'a refresh token was used twice' },
      ],
    );
    assert.ok(!JSON.stringify(rows).includes('sealed'));
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
