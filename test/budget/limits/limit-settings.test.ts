import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type CounterName, StageError } from '../../../engine/api.ts';
import { OperationError } from '../../../engine/base/contract/operation-error.ts';
import { type FrozenClock, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { type Changing, listChanges } from '../../../engine/domain/audit/admin-changes.ts';
import { amountIn, nameCounter, partsOf } from '../../../engine/domain/budget/limits/limit-names.ts';
import {
  clearLimit,
  grantLimit,
  listGrants,
  revokeGrant,
  setLimit,
} from '../../../engine/domain/budget/limits/limit-settings.ts';
import { useTestStore } from '../../support/store.ts';

const START = '2026-03-10T12:00:00Z';
const DAY_MS = 86_400_000;

let database: Database;
useTestStore((store) => {
  database = store.database;
});

let people = 0;
/** A counter that no other test of this file uses. */
function someone(more: Partial<CounterName> = {}): CounterName {
  return { scope: 'user', key: `u${++people}@example.com`, window: 'day', unit: 'nano_usd', ...more };
}

/** A user who changes limits, and the time of the change. */
function administrator(more: Partial<Changing> = {}): Changing & { readonly clock: FrozenClock } {
  const clock = frozenClock(START);
  return { database, actor: { kind: 'person', name: 'root@example.com' }, ...more, clock };
}

const changesOf = async (subject: string) =>
  (await listChanges(database, { limit: 1000 }))
    .filter((change) => change.subject === subject)
    .map(({ action, actor, before, after }) => ({ action, by: actor.name, before, after }))
    .toReversed();

const refused = (problem: OperationError['problem'], message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof OperationError, String(error));
  assert.equal(error.problem, problem);
  assert.match(error.message, message);
  return true;
};

describe('setting a limit', () => {
  it('returns the previous value and records every change', async () => {
    const by = administrator();
    const name = someone();
    assert.equal(await setLimit(by, { name, amount: 50_000_000_000, reason: 'release' }), null);
    assert.equal(await setLimit(by, { name, amount: 1 }), 50_000_000_000);
    assert.equal(await clearLimit(by, name), 1);
    const root = { by: 'root@example.com' };
    assert.deepEqual(await changesOf(`user ${name.key} per day`), [
      { action: 'limit.set', ...root, before: null, after: { usd: 50, reason: 'release' } },
      { action: 'limit.set', ...root, before: { usd: 50, reason: 'release' }, after: { usd: 1e-9 } },
      { action: 'limit.clear', ...root, before: { usd: 1e-9 }, after: null },
    ]);
  });

  it('of requests or tokens uses that unit', async () => {
    const name = someone({ window: 'minute', unit: 'tokens' });
    await setLimit(administrator(), { name, amount: 90_000 });
    const [change] = await changesOf(`user ${name.key} per minute`);
    assert.deepEqual(change!.after, { tokens: 90_000 });
  });

  it('of all six scopes together is stored, with any names', async () => {
    // Names that do not get smaller by compression, as long as they may be.
    const anyName = () =>
      String.fromCodePoint(...Array.from({ length: 254 }, (_, i) => 0x4e00 + ((i * 7919) % 20_000)));
    const name = nameCounter({
      of: {
        ...{ user: `${'a'.repeat(242)}@example.com`, team: anyName(), project: anyName(), token: 'tok_0123456789abc' },
        ...{ model: 'm'.repeat(254), upstream: 'u'.repeat(64) },
      },
      ...{ window: 'month', unit: 'nano_usd' },
    });
    await setLimit(administrator(), { name, amount: 7 });
    const counter = [name.scope, name.key, name.window, name.unit];
    await database.query(
      'test_counter',
      "insert into spend_counters (scope, key, window_kind, window_start, unit) values ($1, $2, $3, '2026-03-01', $4)",
      counter,
    );
    assert.equal(await clearLimit(administrator(), name), 7);
  });

  it('at the same time as others leaves one of them, and a line for each', async () => {
    const name = someone();
    const amounts = [1, 2, 3, 4, 5, 6, 7, 8];
    await Promise.all(amounts.map((amount) => setLimit(administrator(), { name, amount })));
    const last = await clearLimit(administrator(), name);
    assert.ok(amounts.includes(last));
    assert.equal((await changesOf(`user ${name.key} per day`)).length, amounts.length + 1);
  });

  it('through a session that has ended changes nothing', async () => {
    const by = { ...administrator(), session_id: 'ses_gone' };
    const name = someone();
    const ended = (error: unknown) => error instanceof StageError && error.code === 'credential_revoked';
    await assert.rejects(setLimit(by, { name, amount: 1 }), ended);
    await assert.rejects(grantLimit(by, { name, amount: 1, expires_at: new Date('2026-03-11T00:00:00Z') }), ended);
    await setLimit(administrator(), { name, amount: 7 });
    await assert.rejects(clearLimit(by, name), ended);
    const { id } = await grantLimit(administrator(), { name, amount: 1, expires_at: new Date('2026-03-11T00:00:00Z') });
    await assert.rejects(revokeGrant(by, id), ended);
    assert.equal(await clearLimit(administrator(), name), 7);
    assert.equal((await revokeGrant(administrator(), id)).state, 'revoked');
  });
});

describe('granting room', () => {
  it('lasts until its end, or until it is revoked', async () => {
    const by = administrator();
    const name = someone();
    const grant = { name, amount: 20_000_000_000, reason: 'release week' };
    const short = await grantLimit(by, { ...grant, expires_at: new Date(by.clock.now() + 1000) });
    const long = await grantLimit(by, { ...grant, expires_at: new Date(by.clock.now() + DAY_MS) });
    assert.match(short.id, /^grt_[0-9A-Za-z]{13}$/);
    const of = partsOf(name);
    const inForce = async () => (await listGrants(database, by.clock, { of })).map(({ id }) => id).sort();
    assert.deepEqual(await inForce(), [short.id, long.id].sort());
    by.clock.advance(1000);
    assert.deepEqual(await inForce(), [long.id]);
    await assert.rejects(
      revokeGrant(by, short.id),
      refused('conflict', /is expired already, since 2026-03-10T12:00:01/),
    );
    assert.equal((await revokeGrant(by, long.id)).revoked_at?.toISOString(), '2026-03-10T12:00:01.000Z');
    assert.deepEqual(await inForce(), []);
    await assert.rejects(
      revokeGrant(by, long.id),
      refused('conflict', /is revoked already, since 2026-03-10T12:00:01/),
    );
    const states = (await listGrants(database, by.clock, { of, ended: true })).map(({ state }) => state);
    assert.deepEqual(states.sort(), ['expired', 'revoked']);
    const { action, before, after } = (await changesOf(long.id))[1]!;
    assert.equal(action, 'limit.revoke');
    assert.deepEqual(before, {
      to: `user ${name.key} per day`,
      usd: 20,
      reason: 'release week',
      expires_at: '2026-03-11T12:00:00+00:00',
    });
    assert.deepEqual(after, { revoked_at: '2026-03-10T12:00:01+00:00' });
  });

  it("uses the database's own clock, and the effective one applies", async () => {
    const by = { ...administrator(), clock: systemClock };
    const before = Date.now();
    const { id, granted_at } = await grantLimit(by, {
      name: someone(),
      amount: 1,
      expires_at: new Date(before + DAY_MS),
    });
    const [row] = await database.query<{ is_past: boolean }>(
      'test_granted',
      'select granted_at <= now() as is_past from limit_grants where id = $1',
      [id],
    );
    assert.equal(row!.is_past, true);
    assert.ok(granted_at.getTime() >= before && granted_at.getTime() <= Date.now());
  });

  it('has a future end, a year away at most', async () => {
    const by = administrator();
    const grant = (expires_at: string) =>
      grantLimit(by, { name: someone(), amount: 1, expires_at: new Date(expires_at) });
    await assert.rejects(
      grant(START),
      refused('invalid', /the end of the grant, 2026-03-10T12:00:00.000Z, has passed/),
    );
    await assert.rejects(
      grant('2027-03-11T12:00:01Z'),
      refused('invalid', /too far away: expected 2027-03-11T12:00:00/),
    );
    assert.equal((await grant('2027-03-11T12:00:00Z')).state, 'active');
  });

  it('is bounded on one counter, in number and in sum', async () => {
    const by = administrator();
    const expires_at = new Date(by.clock.now() + DAY_MS);
    const [many, much] = [someone(), someone()];
    for (let i = 0; i < 20; i++) await grantLimit(by, { name: many, amount: 1, expires_at });
    await assert.rejects(
      grantLimit(by, { name: many, amount: 1, expires_at }),
      refused('conflict', /has 20 grants in force already/),
    );
    const most = amountIn('nano_usd', 4_000_000, 1);
    await grantLimit(by, { name: much, amount: most, expires_at });
    await assert.rejects(
      grantLimit(by, { name: much, amount: 1, expires_at }),
      refused('conflict', /add up to 4000000 usd at most, and 4000000 are granted/),
    );
  });

  it('is listed for those it is for, page by page', async () => {
    const by = administrator();
    const user = `u${++people}@example.com`;
    const give = (parts: Parameters<typeof nameCounter>[0]['of']) => {
      by.clock.advance(1);
      const name = nameCounter({ of: parts, window: 'day', unit: 'nano_usd' });
      return grantLimit(by, { name, amount: 1, expires_at: new Date(by.clock.now() + DAY_MS) });
    };
    const own = await give({ user });
    const with_model = await give({ user, model: 'coder-1' });
    const team = await give({ team: `team of ${user}` });
    await give({ user: 'other@example.com', team: `team of ${user}` });
    const listed = async (of: Parameters<typeof listGrants>[2]['of'], more = {}) =>
      (await listGrants(database, by.clock, { of, ...more })).map(({ id }) => id);
    assert.deepEqual(await listed({ user }), [with_model.id, own.id]);
    assert.deepEqual(await listed({ user, team: `team of ${user}` }), [team.id, with_model.id, own.id]);
    assert.deepEqual(await listed({ user, model: 'coder-2' }), [own.id]);
    assert.deepEqual(await listed({ user }, { after: with_model.id, limit: 5 }), [own.id]);
  });
});

describe('the name of a limit', () => {
  const name = (of: Parameters<typeof nameCounter>[0]['of']) => nameCounter({ of, window: 'day', unit: 'nano_usd' });

  it('is the same whatever the order of its parts and the case of an e-mail address', () => {
    const wanted = { scope: 'user+model', key: '["ana@example.com","coder-1"]', window: 'day', unit: 'nano_usd' };
    assert.deepEqual(name({ model: 'coder-1', user: ' Ana@Example.com ' }), wanted);
  });

  it('splits into its parts', () => {
    const text = fc.stringMatching(/^[!-~]{1,30}$/).filter((each) => !/^(gwr?_|eyJ)/.test(each));
    const parts = fc.record(
      {
        user: text.map((each) => each.toLowerCase()),
        team: text,
        project: text,
        token: text,
        model: text,
        upstream: text,
      },
      { requiredKeys: [], noNullPrototype: true },
    );
    fc.assert(
      fc.property(parts, (of) => {
        fc.pre(Object.keys(of).length > 0);
        assert.deepEqual(partsOf(name(of)), of);
      }),
    );
  });

  it('rejects whatever cannot be stored, shown or meant', () => {
    assert.throws(() => name({}), refused('invalid', /^whose limit\? Name a user, team,/));
    assert.throws(() => name({ team: ' ' }), refused('invalid', /the team is empty/));
    assert.throws(() => name({ team: 'a\u0000b' }), refused('invalid', /unprintable/));
    assert.throws(() => name({ team: '\ud800' }), refused('invalid', /unprintable/));
    assert.throws(() => name({ team: 'x'.repeat(255) }), refused('invalid', /longer than 254/));
    assert.throws(() => name({ user: 'a b@example.com' }), refused('invalid', /contains a space/));
    const credential = 'gw_secretsecretsecret';
    assert.throws(
      () => name({ token: credential }),
      (error: Error) => refused('invalid', /is a credential/)(error) && !error.message.includes(credential),
    );
  });
});

describe('an amount', () => {
  it('is exact or rejected', () => {
    assert.equal(amountIn('nano_usd', 0.1, 1), 100_000_000);
    assert.equal(amountIn('nano_usd', 0, 0), 0);
    assert.equal(amountIn('requests', 8, 1), 8);
    for (const amount of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e300, 4_000_000.5, 1e-10]) {
      assert.throws(() => amountIn('nano_usd', amount, 0), refused('invalid', /the amount is wrong/), String(amount));
    }
    for (const amount of [0, 1.5, -3, 1e15]) {
      assert.throws(
        () => amountIn('tokens', amount, 1),
        refused('invalid', /whole number of tokens above 0 and up to/),
      );
    }
  });
});
