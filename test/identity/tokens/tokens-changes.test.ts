import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Actor, type Changing, listChanges } from '../../../engine/audit/admin-changes.ts';
import { OperationError } from '../../../engine/contract/operation-error.ts';
import { deprovision, endSession } from '../../../engine/identity/deprovisioning/deprovision.ts';
import { SESSIONS_CHANNEL } from '../../../engine/identity/sessions/revocations.ts';
import { AccessTokens } from '../../../engine/identity/tokens/access-tokens.ts';
import { listTokens } from '../../../engine/identity/tokens/list-tokens.ts';
import { rotateToken } from '../../../engine/identity/tokens/rotate-token.ts';
import { hashToken, TOKENS_CHANNEL } from '../../../engine/identity/tokens/token-format.ts';
import { createToken, revokeToken, tokenState } from '../../../engine/identity/tokens/tokens.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const start = '2026-03-10T12:00:00Z';
const now = Date.parse(start);
const actor: Actor = { kind: 'command', name: 'root@host' };
const gateway: Actor = { kind: 'gateway', name: 'sign-in' };

let store: TestStore;
let by: Changing;
useTestStore((opened) => {
  store = opened;
  by = { database: opened.database, clock: frozenClock(start), actor };
});

let people = 0;
/** Somebody no other test knows. */
const somebody = () => `person${++people}@example.com`;
const wish = (user: string) => ({ user, group: 'coders', name: 'laptop' });
const changesOf = async (subject: string) =>
  (await listChanges(store.database, { limit: 1000 })).filter((change) => change.subject === subject).reverse();

async function addSession(user: string, id: string): Promise<void> {
  await store.database.query(
    'test_add_session',
    `with owner as (
       insert into principals (id, email) values ('user:' || $1::text, $1)
       on conflict (id) do update set email = excluded.email returning id
     )
     insert into sessions (id, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
     select $2, id, jsonb_build_object('email', $1::text), 'sealed', 'test/1', '192.0.2.1', $3::timestamptz, $3::timestamptz,
       $3::timestamptz + interval '30 days' from owner`,
    [user, id, new Date(start)],
  );
}

async function heard(channel: string, change: () => Promise<unknown>): Promise<string[]> {
  const messages: string[] = [];
  await (await store.another()).listen(
    channel,
    (payload) => void messages.push(payload),
    () => {},
  );
  await change();
  await until('something was announced', () => messages.length > 0);
  return messages;
}

describe('rotating an access token', () => {
  it('keeps owner, group, team, project and end, and lets the old one work for the overlap', async () => {
    const expires_at = new Date(now + 10 * 86_400_000);
    const old = await createToken(by, { ...wish(somebody()), team: 'search', project: 'apollo', expires_at });
    const made = await rotateToken(by, { id: old.id });
    assert.deepEqual(made.replaced.expires_at, new Date(now + 86_400_000));
    const clock = frozenClock(start);
    const tokens = new AccessTokens({ database: store.database, clock, log: quietLog, every: () => () => {} });
    const [before, after] = [await tokens.verify(old.token), await tokens.verify(made.token)];
    assert.deepEqual({ ...after, token: { ...after.token, id: old.id } }, before);
    assert.deepEqual(made.expires_at, expires_at);
    clock.advance(86_400_000);
    await assert.rejects(async () => tokens.verify(old.token), { code: 'credential_expired' });
    assert.ok(await tokens.verify(made.token));
  });

  it('by name finds the newest, and ten at once make one', async () => {
    const user = somebody();
    const first = await createToken(by, wish(user));
    const second = await rotateToken(by, { user, name: 'laptop' });
    assert.equal(second.replaced.id, first.id);
    const another = { ...by, database: await store.another() };
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) => rotateToken(i % 2 === 0 ? by : another, { id: second.id })),
    );
    const won = results.filter(({ status }) => status === 'fulfilled');
    assert.equal(won.length, 1);
    for (const result of results) if (result.status === 'rejected') assert.ok(result.reason instanceof OperationError);
    assert.equal((await listTokens(store.database, { user })).length, 3);
  });

  it('refuses a token that is revoked, expired, replaced or unknown, and an endless overlap', async () => {
    const user = somebody();
    const revoked = await createToken(by, wish(user));
    await revokeToken(by, { id: revoked.id });
    await assert.rejects(rotateToken(by, { id: revoked.id }), /is revoked already, since 2026-03-10/);
    const expired = await createToken(by, { ...wish(user), expires_at: new Date(now - 1) });
    await assert.rejects(rotateToken(by, { id: expired.id }), /is expired already, since 2026-03-10T11/);
    const replaced = await createToken(by, { ...wish(user), name: 'other' });
    const { id } = await rotateToken(by, { id: replaced.id });
    await assert.rejects(rotateToken(by, { id: replaced.id }), new RegExp(`is replaced already, by ${id}`));
    await assert.rejects(rotateToken(by, { id: 'tok_none' }), { problem: 'missing' });
    for (const overlap_seconds of [-1, 0.5, Number.NaN, 2_592_001]) {
      await assert.rejects(rotateToken(by, { id }, { overlap_seconds }), /from 0 to 2592000/);
    }
  });

  it('lists the old one before the new one, though both were made in the same instant', async () => {
    const user = somebody();
    const ids = [(await createToken(by, wish(user))).id];
    for (let i = 0; i < 9; i++) ids.push((await rotateToken(by, { id: ids.at(-1)! })).id);
    assert.deepEqual(
      (await listTokens(store.database, { user })).map(({ id }) => id),
      ids,
    );
  });

  it('announces both tokens', async () => {
    const old = await createToken(by, wish(somebody()));
    let made = '';
    const messages = await heard(TOKENS_CHANNEL, async () => {
      made = (await rotateToken(by, { id: old.id })).token;
    });
    await until('both are announced', () => messages.length === 2);
    assert.deepEqual(messages.sort(), [hashToken(old.token), hashToken(made)].sort());
  });
});

describe('revoking by name', () => {
  it('ends the newest and what it replaced, and leaves alone what had ended', async () => {
    const user = somebody();
    const first = await createToken(by, wish(user));
    const second = await rotateToken(by, { id: first.id }, { overlap_seconds: 0 });
    const third = await rotateToken(by, { id: second.id });
    const revoked = await revokeToken(by, { user, name: 'laptop' });
    assert.equal(revoked.id, third.id);
    assert.deepEqual(revoked.also_revoked, [second.id]);
    const states = (await listTokens(store.database, { user })).map((token) => [token.id, tokenState(token, now)]);
    assert.deepEqual(
      new Map(states as [string, string][]),
      new Map([
        [first.id, 'expired'],
        [second.id, 'revoked'],
        [third.id, 'revoked'],
      ]),
    );
  });

  it('of a replaced token by its id leaves its successor', async () => {
    const old = await createToken(by, wish(somebody()));
    const made = await rotateToken(by, { id: old.id });
    assert.deepEqual((await revokeToken(by, { id: old.id })).also_revoked, []);
    assert.equal((await revokeToken(by, { id: made.id })).id, made.id);
  });
});

describe('cutting a person off', () => {
  it('ends sessions, sign-ins under way and the tokens that are meant, and tells every replica', async () => {
    const user = somebody();
    await addSession(user, `ses_${user}`);
    const given = await createToken(by, wish(user));
    const made = await createToken(by, { ...wish(user), self_service: true });
    await store.database.query(
      'test_add_grant',
      `insert into device_grants (id, device_code_hash, user_code, status, client, client_address, created_at, expires_at, person, sealed_grant)
       values ($2, $1, $2, 'approved', 'x', 'x', $3, $3, jsonb_build_object('email', $4::text), 'sealed')`,
      [Buffer.from(user), user, new Date(start), user],
    );
    const because = 'the identity provider refused';
    const messages = await heard(SESSIONS_CHANNEL, async () => {
      const ended = await deprovision(by, {
        user: user.toUpperCase(),
        actor: gateway,
        because,
        tokens: 'self_service',
      });
      assert.deepEqual(ended, { known: true, sessions: 1, tokens: 1 });
    });
    assert.deepEqual(messages, [`ses_${user}`]);
    const [grant] = await store.database.query<object>(
      'test_grant',
      'select status, person, sealed_grant from device_grants where user_code = $1',
      [user],
    );
    assert.deepEqual(grant, { status: 'denied', person: null, sealed_grant: null });
    const states = Object.fromEntries(
      (await listTokens(store.database, { user })).map((token) => [token.id, tokenState(token, now)]),
    );
    assert.deepEqual(states, { [given.id]: 'active', [made.id]: 'revoked' });
    const [change] = await changesOf(`ses_${user}`);
    assert.deepEqual([change!.actor, change!.action, change!.at], [gateway, 'session.end', new Date(start)]);
    assert.equal(change!.after!.because, because);
    assert.deepEqual(
      (await changesOf(user)).map(({ action }) => action),
      ['person.deprovision'],
    );
    assert.deepEqual(await deprovision(by, { user, actor: gateway, because, tokens: 'all' }), {
      known: true,
      sessions: 0,
      tokens: 1,
    });
  });

  it('says when nobody knows the person, and then writes nothing down', async () => {
    const user = somebody();
    const ended = await deprovision(by, { user, actor, because: 'x', tokens: 'all' });
    assert.deepEqual(ended, { known: false, sessions: 0, tokens: 0 });
    assert.deepEqual(await changesOf(user), []);
  });

  it('leaves nothing to somebody who makes tokens at the same moment, on another gateway', async () => {
    for (let round = 0; round < 10; round++) {
      const user = somebody();
      const session_id = `ses_race_${round}`;
      await addSession(user, session_id);
      const first = await createToken(by, wish(user));
      const thief = { ...by, session_id, actor: { kind: 'person', name: user } } as const;
      const attempts = Promise.allSettled([
        ...Array.from({ length: 6 }, () => createToken(thief, { ...wish(user), self_service: true })),
        rotateToken(thief, { id: first.id }),
        deprovision(by, { user, actor, because: 'stolen', tokens: 'all' }),
        ...Array.from({ length: 6 }, () => createToken(thief, { ...wish(user), self_service: true })),
      ]);
      for (const result of await attempts) {
        if (result.status === 'rejected')
          assert.ok(['StageError', 'OperationError'].includes(result.reason.name), result.reason);
      }
      const alive = (await listTokens(store.database, { user })).filter(
        (token) => tokenState(token, now) !== 'revoked',
      );
      assert.deepEqual(alive, []);
      await assert.rejects(createToken(thief, wish(user)), { code: 'credential_revoked' });
      await assert.rejects(rotateToken(thief, { id: (await createToken(by, wish(user))).id }), {
        code: 'credential_revoked',
      });
    }
  });

  it('leaves no token that an administrator puts in the place of another at the same moment', async () => {
    const another = { ...by, database: await store.another() };
    for (let round = 0; round < 20; round++) {
      const user = somebody();
      const olds = await Promise.all([1, 2, 3, 4].map(() => createToken(by, wish(user))));
      await Promise.allSettled([
        ...olds.map(({ id }) => rotateToken(another, { id })),
        deprovision(by, { user, actor, because: 'stolen', tokens: 'all' }),
      ]);
      const tokens = await listTokens(store.database, { user });
      assert.deepEqual([...new Set(tokens.map((token) => tokenState(token, now)))], ['revoked']);
    }
  });

  it('ends a single session once', async () => {
    const user = somebody();
    await addSession(user, 'ses_single');
    assert.equal(await endSession(by, { id: 'ses_single', user: somebody(), because: 'x' }), false);
    const both = [1, 2].map(() => endSession(by, { id: 'ses_single', because: 'x' }));
    assert.deepEqual((await Promise.all(both)).sort(), [false, true]);
    assert.equal((await changesOf('ses_single')).length, 1);
  });
});

describe('the list of changes', () => {
  it('has who, when, before and after of every change of a token, and no token, hash or prefix', async () => {
    const user = somebody();
    const old = await createToken(by, { ...wish(user), team: 'search' });
    const made = await rotateToken(by, { id: old.id }, { overlap_seconds: 60 });
    await revokeToken({ ...by, actor: { kind: 'person', name: 'boss@example.com' } }, { id: made.id });
    const about = [...(await changesOf(old.id)), ...(await changesOf(made.id))];
    assert.deepEqual(
      about.map(({ actor, action }) => `${actor.kind} ${actor.name} ${action}`),
      [
        'command root@host token.create',
        'command root@host token.rotate',
        'person boss@example.com token.revoke',
        'command root@host token.create',
        'person boss@example.com token.revoke',
      ],
    );
    const [created, rotated] = about;
    assert.deepEqual(about.at(-1)!.before, { user, group: 'coders', name: 'laptop', expires_at: null });
    assert.equal(created!.before, null);
    assert.deepEqual(created!.after, {
      user,
      group: 'coders',
      name: 'laptop',
      team: 'search',
      project: null,
      expires_at: null,
      self_service: false,
    });
    assert.deepEqual(rotated!.before, { expires_at: null });
    assert.equal(rotated!.after!.replaced_by, made.id);
    const text = JSON.stringify(about);
    for (const { token, prefix } of [old, made]) {
      for (const secret of [token.slice(3), hashToken(token), prefix]) assert.ok(!text.includes(secret));
    }
  });
});

describe('the groups of an access token', () => {
  it('are its token group and those of its owner, each once', async () => {
    const user = somebody();
    const { token } = await createToken(by, wish(user));
    await store.database.query('test_groups', 'update principals set groups = $2 where email = $1', [
      user,
      ['engineering', 'coders'],
    ]);
    const tokens = new AccessTokens({
      database: store.database,
      clock: by.clock as never,
      log: quietLog,
      every: () => () => {},
    });
    assert.deepEqual((await tokens.verify(token)).groups, ['coders', 'engineering']);
  });
});

describe('an access token somebody made for themselves', () => {
  it('stops when nobody has verified them for too long, and works again after a sign-in', async () => {
    const user = somebody();
    const own = await createToken(by, { ...wish(user), self_service: true });
    const given = await createToken(by, wish(user));
    const clock = frozenClock(start);
    const options = { database: store.database, clock, log: quietLog, every: () => () => {} };
    let days: number | undefined = 30;
    const tokens = new AccessTokens({ ...options, verified_days: () => days });
    clock.advance(30 * 86_400_000 - 1);
    assert.ok(await tokens.verify(own.token));
    clock.advance(1);
    await assert.rejects(async () => tokens.verify(own.token), {
      code: 'credential_expired',
      message: /not signed in for 30 days\. Sign in again/,
    });
    assert.ok(await tokens.verify(given.token));
    const signed_in_at = new Date(clock.now());
    await store.database.query('test_signed_in', 'update principals set signed_in_at = $2 where email = $1', [
      user,
      signed_in_at,
    ]);
    clock.advance(30_000);
    assert.ok(await tokens.verify(own.token));
    clock.advance(31 * 86_400_000);
    days = undefined;
    assert.ok(await tokens.verify(own.token));
  });
});
