import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type CounterName, type LimitUnit, StageError } from '../../../engine/api.ts';
import { OperationError } from '../../../engine/base/contract/operation-error.ts';
import { type FrozenClock, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { type Changing, listChanges } from '../../../engine/domain/audit/admin-changes.ts';
import {
  type Lack,
  lackOf,
  limitInForce,
  type Needs,
  overshootOf,
  percentToPpm,
  remainingOf,
} from '../../../engine/domain/budget/limits/headroom.ts';
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

const { database, store } = useTestStore();

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

const assertRefused = (change: Promise<unknown>, ...why: Parameters<typeof refused>) =>
  assert.rejects(change, refused(...why));

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
    const { scope, key, window, unit } = name;
    const counter = { scope, key, window_kind: window, unit };
    await database.knex('spend_counters').insert({ ...counter, window_start: '2026-03-01' });
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
    await assertRefused(revokeGrant(by, short.id), 'conflict', /is expired already, since 2026-03-10T12:00:01/);
    assert.equal((await revokeGrant(by, long.id)).revoked_at?.toISOString(), '2026-03-10T12:00:01.000Z');
    assert.deepEqual(await inForce(), []);
    await assertRefused(revokeGrant(by, long.id), 'conflict', /is revoked already, since 2026-03-10T12:00:01/);
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
    const expires_at = new Date(before + DAY_MS);
    const { id, granted_at } = await grantLimit(by, { name: someone(), amount: 1, expires_at });
    const [row] = await store.rows('select granted_at <= now() as is_past from limit_grants where id = $1', id);
    assert.equal(row.is_past, true);
    assert.ok(granted_at.getTime() >= before && granted_at.getTime() <= Date.now());
  });

  it('has a future end, a year away at most', async () => {
    const by = administrator();
    const grant = (expires_at: string) =>
      grantLimit(by, { name: someone(), amount: 1, expires_at: new Date(expires_at) });
    await assertRefused(grant(START), 'invalid', /the end of the grant, 2026-03-10T12:00:00.000Z, has passed/);
    await assertRefused(grant('2027-03-11T12:00:01Z'), 'invalid', /too far away: expected 2027-03-11T12:00:00/);
    assert.equal((await grant('2027-03-11T12:00:00Z')).state, 'active');
  });

  it('is bounded on one counter, in number and in sum', async () => {
    const by = administrator();
    const expires_at = new Date(by.clock.now() + DAY_MS);
    const [many, much] = [someone(), someone()];
    for (let i = 0; i < 20; i++) await grantLimit(by, { name: many, amount: 1, expires_at });
    await assertRefused(
      grantLimit(by, { name: many, amount: 1, expires_at }),
      'conflict',
      /has 20 grants in force already/,
    );
    const most = amountIn('nano_usd', 4_000_000, 1);
    await grantLimit(by, { name: much, amount: most, expires_at });
    await assertRefused(
      grantLimit(by, { name: much, amount: 1, expires_at }),
      'conflict',
      /add up to 4000000 usd at most, and 4000000 are granted/,
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

/** A limit as it is configured, set and granted, its counter, and a request that needs headroom. */
interface Question extends Needs {
  readonly unit: LimitUnit;
  readonly configured: number | null;
  readonly set: number | null;
  readonly granted: number;
  readonly spent: number;
  readonly reserved: number;
  readonly most: number;
  readonly in_flight: number;
}

const PLAIN: Question = {
  ...{ unit: 'nano_usd', configured: 100, set: null, granted: 0 },
  ...{ spent: 0, reserved: 0, most: 0, in_flight: 0 },
  ...{ amount_nano_usd: 10, most_nano_usd: 10, tokens: 0 },
};
const busy = { reserved: 40, most: 80, in_flight: 2 };
const typical = { amount_nano_usd: 10, most_nano_usd: 40, overshoot_percent: 20 };

/** The one table of both. The missing amount; nothing: there is headroom. */
const CASES: Readonly<Record<string, readonly [Partial<Question>, Lack | undefined]>> = {
  'all of an unused limit may be needed': [{ amount_nano_usd: 100, most_nano_usd: 100 }, undefined],
  'one more than the limit is too much': [{ amount_nano_usd: 101, most_nano_usd: 101 }, 'limit'],
  'a limit of nothing allows nothing': [{ configured: 0 }, 'limit'],
  'a limit of nothing allows what costs nothing': [{ configured: 0, amount_nano_usd: 0, most_nano_usd: 0 }, undefined],
  'what is left may be needed': [{ spent: 90 }, undefined],
  'what is spent counts': [{ spent: 91 }, 'spent'],
  'a limit that was passed has no room': [{ spent: 500 }, 'spent'],
  'what is reserved counts': [{ spent: 55, reserved: 36, most: 36, in_flight: 1 }, 'reserved'],
  'money given back makes room': [{ spent: -50, amount_nano_usd: 150, most_nano_usd: 150 }, undefined],
  'the most of what is in flight counts': [{ ...busy, spent: 11 }, 'most'],
  'up to the limit': [{ ...busy, spent: 10 }, undefined],
  'a typical request may pass by its share': [{ ...busy, ...typical }, undefined],
  'and by no more': [{ ...busy, ...typical, spent: 1 }, 'most'],
  'alone by whatever it can cost': [{ ...typical, spent: 90, most_nano_usd: 9000 }, undefined],
  'and what it reserves must fit all the same': [{ ...typical, spent: 91, most_nano_usd: 9000 }, 'spent'],
  'a share of nothing': [{ ...busy, ...typical, overshoot_percent: 0 }, 'most'],
  'a share of a millionth is rounded down': [
    { ...busy, ...typical, most_nano_usd: 21, overshoot_percent: 0.9999 },
    'most',
  ],
  'nothing limits what has no limit': [{ configured: null, spent: 2 ** 50 }, undefined],
  'a limit that was set takes the place of the configured one': [{ set: 9 }, 'limit'],
  'also of a smaller one': [{ configured: 5, set: 10 }, undefined],
  'also where nothing is configured': [{ configured: null, set: 9 }, 'limit'],
  'a grant comes on top': [{ spent: 95, granted: 5 }, undefined],
  'a grant comes on top of what was set': [{ set: 50, spent: 46, granted: 5 }, 'spent'],
  'a grant on no limit limits nothing': [{ configured: null, granted: 5 }, undefined],
  'a request counts as one': [{ unit: 'requests', configured: 3, reserved: 2, most: 2, in_flight: 2 }, undefined],
  'and not as what it costs': [{ unit: 'requests', configured: 3, reserved: 3, most: 3, in_flight: 3 }, 'reserved'],
  'tokens count as they are estimated': [{ unit: 'tokens', tokens: 100 }, undefined],
  'tokens beyond the limit': [{ unit: 'tokens', tokens: 101 }, 'limit'],
  'tokens used': [{ unit: 'tokens', tokens: 50, spent: 51 }, 'spent'],
};

/** By the rule in TypeScript. */
function lacking({ configured, set, granted, ...question }: Question): Lack | undefined {
  const limit = limitInForce(configured, { set, granted });
  return limit === null ? undefined : lackOf({ ...question, limit }, question);
}

/** Whether something is lacking, by the rule in SQL. */
async function lackingInDatabase(questions: readonly Question[]): Promise<boolean[]> {
  const rows = questions.map(({ overshoot_percent, configured, ...rest }) => ({
    ...rest,
    configured,
    ppm: overshoot_percent === undefined ? null : percentToPpm(overshoot_percent),
  }));
  const [row] = await database.query<{ lacking: boolean[] }>(
    'test_has_room',
    `select array_agg(not coalesce(has_room_for(
       jsonb_populate_record(null::spend_counters, to_jsonb(q)), limit_in_force(q.configured, q.set, q.granted),
       q.amount_nano_usd, q.most_nano_usd, q.tokens, q.ppm), true) order by position) as lacking
     from rows from (jsonb_to_recordset($1::jsonb) as (
       unit text, configured bigint, set bigint, granted bigint, spent bigint, reserved bigint, most bigint,
       in_flight integer, amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, ppm bigint)) with ordinality as q (
       unit, configured, set, granted, spent, reserved, most, in_flight, amount_nano_usd, most_nano_usd, tokens, ppm, position)`,
    [JSON.stringify(rows)],
  );
  return row!.lacking;
}

/** Small numbers often come close to each other; large ones find inexact calculations. */
const amount = fc.oneof(
  { arbitrary: fc.nat(40), weight: 3 },
  { arbitrary: fc.integer({ min: 0, max: 2 ** 50 }), weight: 1 },
);
const percent = fc.oneof(
  fc.constant(undefined),
  fc.integer({ min: 0, max: 100 }),
  fc.integer({ min: 0, max: 1_000_000 }).map((ppm) => ppm / 10_000),
);
const question = fc
  .record({
    unit: fc.constantFrom<LimitUnit>('nano_usd', 'requests', 'tokens'),
    configured: fc.option(amount),
    set: fc.option(amount, { freq: 2 }),
    granted: amount,
    spent: amount,
    reserved: amount,
    more: amount,
    in_flight: fc.nat(2),
    amount_nano_usd: amount,
    more_expensive: amount,
    tokens: amount,
    overshoot_percent: percent,
  })
  .map(
    ({ reserved, more, amount_nano_usd, more_expensive, overshoot_percent, ...rest }): Question => ({
      ...rest,
      reserved,
      most: reserved + more,
      amount_nano_usd,
      most_nano_usd: amount_nano_usd + more_expensive,
      ...(overshoot_percent !== undefined && { overshoot_percent }),
    }),
  );

describe('the headroom of a limit', () => {
  const questions = Object.entries(CASES).map(([name, [more, lack]]) => ({ name, lack, asked: { ...PLAIN, ...more } }));

  it('is decided in the gateway as in the table, with the missing amount', () => {
    for (const { name, asked, lack } of questions) assert.equal(lacking(asked), lack, name);
  });

  it('is decided in the database as in the table', async () => {
    const found = await lackingInDatabase(questions.map(({ asked }) => asked));
    for (const [i, { name, lack }] of questions.entries()) assert.equal(found[i], lack !== undefined, name);
  });

  it('is the same to the gateway and to its database, whatever the numbers are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(question, { minLength: 1, maxLength: 100 }), async (asked) => {
        const found = await lackingInDatabase(asked);
        assert.deepEqual(
          found,
          asked.map((each) => lacking(each) !== undefined),
        );
      }),
      { numRuns: 60 },
    );
  });
});

describe('how far a limit may be passed', () => {
  it('is never more than the share of it, exact to the nano-USD', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 0, max: 1_000_000 }), (limit, ppm) => {
        const exact = (BigInt(limit) * BigInt(ppm)) / 1_000_000n;
        assert.equal(BigInt(overshootOf(limit, ppm / 10_000)), exact);
      }),
    );
  });
});

it('the remainder of a limit is never negative', () => {
  assert.equal(remainingOf({ limit: 10, spent: 3, reserved: 4 }), 3);
  assert.equal(remainingOf({ limit: 10, spent: 30, reserved: 4 }), 0);
});
