import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { makeSecret } from '../../../engine/identity/sessions/opaque.ts';
import { createSessions } from '../../../engine/identity/sessions/sessions.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import type { Database } from '../../../engine/store/database.ts';
import { anyText } from '../../support/any-text.ts';
import { type TestStore, useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { approveSignIn, DEVICE, openGrantsAndForm, START, sent, somebody } from './people.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

function openGrants(clock: FrozenClock = frozenClock(START), database: Database = store.database) {
  return openGrantsAndForm({ database, clock, refresh_days: 30 });
}

describe('beginning a sign-in', () => {
  it('gives out a device code of 256 bits and a user code that can be read aloud', async () => {
    const begun = await openGrants().begin(DEVICE);
    assert.match(begun.device_code, /^[\w-]{43}$/);
    assert.match(begun.user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    assert.deepEqual([begun.expires_in_seconds, begun.interval_seconds], [600, 5]);
  });

  it('stores the hash of the device code and never the code', async () => {
    const { device_code } = await openGrants().begin(DEVICE);
    const rows = await store.database.query<{ text: string }>(
      'test_grants',
      'select g::text as text from device_grants g',
      [],
    );
    assert.ok(rows.length > 0);
    assert.ok(rows.every(({ text }) => !text.includes(device_code)));
  });

  it('takes another user code when somebody has the first', async () => {
    const codes = ['BCDFGHJK', 'BCDFGHJK', 'LMNPQRST'];
    const clock = frozenClock(START);
    const grants = openGrantsAndForm({
      database: store.database,
      clock,
      refresh_days: 30,
      makeCode: () => codes.shift()!,
    });
    assert.equal((await grants.begin(DEVICE)).user_code, 'BCDF-GHJK');
    assert.equal((await grants.begin(DEVICE)).user_code, 'LMNP-QRST');
  });

  it('gives up rather than look for a free code for ever', async () => {
    const grants = openGrantsAndForm({
      database: store.database,
      clock: frozenClock(START),
      refresh_days: 30,
      makeCode: () => 'ZZZZZZZZ',
    });
    await grants.begin(DEVICE);
    await assert.rejects(grants.begin(DEVICE), /5 user codes in a row were taken/);
  });

  it('keeps what PostgreSQL cannot store out of the way', async () => {
    const grants = openGrants();
    const { user_code } = await grants.begin({ client: 'a\0b\ud800', client_address: '\0' });
    assert.equal((await grants.enter(user_code))?.client, 'a\ufffdb\ufffd');
  });
});

describe('finding a sign-in by its user code', () => {
  it('takes the code in any case, with and without dash and spaces', async () => {
    const grants = openGrants();
    const { user_code } = await grants.begin(DEVICE);
    const letters = user_code.replace('-', '');
    const typed = fc
      .tuple(
        ...[...letters].map((letter) =>
          fc.constantFrom(letter, letter.toLowerCase(), ` ${letter}`, `${letter}–`, `${letter}-`),
        ),
      )
      .map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(typed, async (text) => {
        const found = await grants.enter(text);
        assert.equal(found?.user_code, user_code);
        assert.equal(found?.client, DEVICE.client);
        assert.equal(found?.expires_at.toISOString(), '2026-03-10T12:10:00.000Z');
      }),
      { numRuns: times(25) },
    );
  });

  it('finds nothing for what is no code, and never fails', async () => {
    const grants = openGrants();
    const hostile = ['', '-', '%', "' or 1=1 --", '\0', 'ﬀﬀﬀﬀ', 'ßßßß', 'BCDF-GHJ', 'B'.repeat(100_000), '__proto__'];
    for (const text of hostile) assert.equal(await grants.enter(text), undefined, text);
    await fc.assert(
      fc.asyncProperty(anyText(), async (text) => {
        assert.equal(await grants.enter(text), undefined);
      }),
    );
  });

  it('finds only sign-ins that still wait for somebody', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const [denied, late] = [await grants.begin(DEVICE), await grants.begin(DEVICE)];
    assert.equal(await grants.deny((await grants.enter(denied.user_code))!.id), true);
    assert.equal(await grants.enter(denied.user_code), undefined);
    clock.advance(599_999);
    assert.ok(await grants.enter(late.user_code));
    clock.advance(1);
    assert.equal(await grants.enter(late.user_code), undefined);
  });
});

describe('the state a browser comes back with', () => {
  it('leads to its sign-in once', async () => {
    const grants = openGrants();
    const { user_code } = await grants.begin(DEVICE);
    const { id } = (await grants.enter(user_code))!;
    assert.equal(await grants.noteState(id, 'state-1'), true);
    const others = [await store.another(), await store.another()].map((database) =>
      openGrants(frozenClock(START), database),
    );
    const taken = await Promise.all([grants, ...others, ...others].map((each) => each.takeState('state-1')));
    assert.deepEqual(
      taken.flatMap((grant) => grant?.id ?? []),
      [id],
    );
    assert.equal(await grants.takeState('state-1'), undefined);
  });

  it('is void once the browser went again with another', async () => {
    const grants = openGrants();
    const { user_code } = await grants.begin(DEVICE);
    const { id } = (await grants.enter(user_code))!;
    await grants.noteState(id, 'first');
    await grants.noteState(id, 'second');
    assert.equal(await grants.takeState('first'), undefined);
    assert.equal((await grants.takeState('second'))?.user_code, user_code);
  });

  it('is not taken for a sign-in that is decided, expired or unknown', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const [denied, late] = [await grants.begin(DEVICE), await grants.begin(DEVICE)];
    const [denied_id, late_id] = [(await grants.enter(denied.user_code))!.id, (await grants.enter(late.user_code))!.id];
    await grants.noteState(denied_id, 'state-of-denied');
    await grants.noteState(late_id, 'state-of-late');
    await grants.deny(denied_id);
    assert.equal(await grants.takeState('state-of-denied'), undefined);
    clock.advance(600_000);
    assert.equal(await grants.takeState('state-of-late'), undefined);
    assert.equal(await grants.noteState(late_id, 'again'), false);
    assert.equal(await grants.noteState('dev_none', 'state'), false);
    assert.equal(await grants.noteState("'; drop table principals; --\0", 'state'), false);
  });
});

describe('a device that asks whether its sign-in is done', () => {
  it('hears that it is pending, and to slow down when it asks too soon', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const { device_code } = await grants.begin(DEVICE);
    const ask = async () => (await grants.poll(device_code)).outcome;
    assert.equal(await ask(), 'pending');
    clock.advance(4000);
    assert.equal(await ask(), 'slow_down');
    clock.advance(1000);
    assert.equal(await ask(), 'pending', 'asking too soon does not move the interval');
  });

  it('hears of a decision at once, however soon it asks', async () => {
    const grants = openGrants();
    const { device_code, user_code } = await grants.begin(DEVICE);
    await grants.poll(device_code);
    await grants.deny((await grants.enter(user_code))!.id);
    assert.equal((await grants.poll(device_code)).outcome, 'denied');
    assert.equal((await grants.poll(device_code)).outcome, 'denied');
  });

  it('hears that its code has expired', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const { device_code } = await grants.begin(DEVICE);
    clock.advance(600_000);
    assert.equal((await grants.poll(device_code)).outcome, 'expired');
  });

  it('gets what was approved in the last second, and not much later', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const begun = [await grants.begin(DEVICE), await grants.begin(DEVICE)];
    const ids = await Promise.all(begun.map(async ({ user_code }) => (await grants.enter(user_code))!.id));
    clock.advance(599_000);
    for (const id of ids) await grants.approve(id, { person: somebody(), sealed_grant: 'sealed' });
    clock.advance(5000);
    assert.equal((await grants.poll(begun[0]!.device_code)).outcome, 'signed_in');
    clock.advance(60_000);
    assert.equal((await grants.poll(begun[1]!.device_code)).outcome, 'expired');
  });

  it('is not known by a code that nobody was given', async () => {
    const grants = openGrants();
    for (const code of ['', '\0', 'A'.repeat(43), 'A'.repeat(1_000_000), "' or true"])
      assert.equal((await grants.poll(code)).outcome, 'unknown');
  });

  it('gets a session of the person who approved, with what the identity provider gave', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const person = somebody({ name: 'Alice', groups: ['b', 'a'], team: 'search', project: 'apollo' });
    const polled = await grants.poll(await approveSignIn(grants, person, 'sealed-grant'));
    assert.ok(polled.outcome === 'signed_in');
    assert.match(polled.session.id, /^ses_[0-9a-f]{20}$/);
    assert.match(polled.session.refresh_token, /^gwr_[\w-]{43}$/);
    assert.deepEqual(polled.session.person, person);
    const sessions = createSessions({ database: store.database, clock });
    assert.deepEqual(await sessions.list({ user: person.email.toUpperCase() }), [
      {
        id: polled.session.id,
        kind: 'client',
        user: person.email,
        ...DEVICE,
        created_at: new Date(START),
        checked_at: new Date(START),
        seen_at: null,
        expires_at: new Date('2026-04-09T12:00:00Z'),
        revoked_at: null,
        revoked_because: null,
        refused_at: null,
        refused_from: null,
      },
    ]);
  });

  it('gets one session, however many ask at the same moment on however many replicas', async () => {
    const handles = [store.database, await store.another(), await store.another()];
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 12 }), async (count) => {
        const clock = frozenClock(START);
        const person = somebody();
        const device_code = await approveSignIn(openGrants(clock), person);
        const polled = await Promise.all(
          Array.from({ length: count }, (_, i) => openGrants(clock, handles[i % handles.length]!).poll(device_code)),
        );
        const outcomes = polled.map(({ outcome }) => outcome).sort();
        assert.deepEqual(outcomes, [...Array<string>(count - 1).fill('repeated'), 'signed_in']);
        const given = polled.map((each) => ('session' in each ? JSON.stringify(each.session) : 'nothing'));
        assert.equal(new Set(given).size, 1, 'all get the same refresh token');
        const sessions = createSessions({ database: store.database, clock });
        assert.equal((await sessions.list({ user: person.email })).length, 1);
      }),
      { numRuns: times(10) },
    );
  });
});

describe('a device whose answer got lost', () => {
  const hashOf = (text: string) => hash('sha256', text, 'buffer');
  /** A sign-in that was collected, and how to ask again at another replica. */
  async function collected() {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const device_code = await approveSignIn(grants, somebody());
    const first = await grants.poll(device_code);
    assert.ok(first.outcome === 'signed_in');
    const elsewhere = openGrants(clock, await store.another());
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
    const grants = openGrants(late);
    const { device_code, user_code } = await grants.begin(DEVICE);
    const { id } = (await grants.enter(user_code))!;
    late.advance(599_999);
    await grants.approve(id, { person: somebody(), sealed_grant: 'sealed' });
    late.advance(59_000);
    assert.equal((await grants.poll(device_code)).outcome, 'signed_in');
    late.advance(20_000);
    assert.equal((await grants.poll(device_code)).outcome, 'repeated');
  });

  it('is refused after that, and the session ends once', async () => {
    const { clock, session, sessions, again, statusOf } = await collected();
    clock.advance(30_000);
    assert.deepEqual(await again(), { outcome: 'used', session_id: session.id, ended: true });
    assert.deepEqual(await again(), { outcome: 'used', session_id: session.id, ended: false });
    assert.equal((await statusOf()).revoked_because, 'its device code was used again');
    assert.equal((await sessions.beginRefresh(sent(session.refresh_token))).outcome, 'revoked');
  });

  it('is refused at once when the session was renewed meanwhile: the answer had arrived, and somebody else asks', async () => {
    const { session, sessions, again, statusOf } = await collected();
    const begun = await sessions.beginRefresh(sent(session.refresh_token));
    assert.equal(begun.outcome, 'ready');
    await sessions.finishRefresh(session.id, {
      ...sent(session.refresh_token),
      person: session.person,
      sealed_grant: 'next',
    });
    assert.equal((await again()).outcome, 'used');
    assert.notEqual((await statusOf()).revoked_at, null);
  });

  it('gets nothing once the session was ended', async () => {
    const { session, sessions, again } = await collected();
    await sessions.end(session.id, 'signed out', 'person');
    assert.deepEqual(await again(), { outcome: 'used', session_id: session.id, ended: false });
  });

  it('is the only one who can open what is kept for it', async () => {
    const { device_code, session } = await collected();
    const [row] = await store.database.query<{ text: string }>(
      'test_collected',
      'select g::text as text from device_grants g where device_code_hash = $1',
      [hashOf(device_code)],
    );
    assert.ok(!row!.text.includes(session.refresh_token) && !row!.text.includes(device_code));
    const stranger = openGrants(frozenClock(START));
    assert.equal((await stranger.poll(makeSecret())).outcome, 'unknown');
  });

  it('of a gateway of the version before is refused as before, and its session goes on', async () => {
    const { device_code, session, again, statusOf } = await collected();
    await store.database.query(
      'test_version_before',
      'update device_grants set session_id = null, redeemed_at = null, sealed_refresh = null where device_code_hash = $1',
      [hashOf(device_code)],
    );
    assert.deepEqual(await again(), { outcome: 'unknown' });
    assert.equal((await statusOf()).id, session.id);
    assert.equal((await statusOf()).revoked_at, null);
  });
});

describe('approving and denying', () => {
  it('is decided once, whoever comes first', async () => {
    const other = openGrants(frozenClock(START), await store.another());
    for (let round = 0; round < 10; round++) {
      const grants = openGrants();
      const { device_code, user_code } = await grants.begin(DEVICE);
      const { id } = (await grants.enter(user_code))!;
      const approval = { person: somebody(), sealed_grant: 'sealed' };
      const [approved, denied] = await Promise.all([grants.approve(id, approval), other.deny(id)]);
      assert.notEqual(approved, denied);
      assert.equal((await grants.poll(device_code)).outcome, approved ? 'signed_in' : 'denied');
    }
  });

  it('is too late for a sign-in that has expired', async () => {
    const clock = frozenClock(START);
    const grants = openGrants(clock);
    const { user_code } = await grants.begin(DEVICE);
    const { id } = (await grants.enter(user_code))!;
    clock.advance(600_000);
    assert.equal(await grants.approve(id, { person: somebody(), sealed_grant: 'sealed' }), false);
    assert.equal(await grants.deny(id), false);
  });

  it('keeps no provider tokens of a sign-in that was collected', async () => {
    const grants = openGrants();
    await grants.poll(await approveSignIn(grants, somebody({ email: 'collected@example.com' }), 'sealed-collected'));
    const rows = await store.database.query(
      'test_kept',
      `select 1 from device_grants where sealed_grant = $1 or person->>'email' = $2`,
      ['sealed-collected', 'collected@example.com'],
    );
    assert.deepEqual(rows, []);
  });
});
