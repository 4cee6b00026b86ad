import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitDemand } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  quietLog,
  reservation,
  settlement,
  type TestStore,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

const START = '2026-03-10T12:00:00Z';
const HOUR_MS = 3_600_000;
const clock = frozenClock(START);
const DAY_ENDS = Date.parse('2026-03-11T00:00:00Z');

let store: TestStore;
let database: Database;
const open = useTestStore((opened) => {
  store = opened;
  database = opened.database;
});

function newLedger(on: Database = database): DatabaseLedger {
  const ledger = new DatabaseLedger({ database: on, clock, log: quietLog, every: () => () => {} });
  open.push(ledger);
  return ledger;
}

async function set(key: string, amount: number | null, window = 'day', unit = 'nano_usd'): Promise<void> {
  const limits = database.knex('limit_settings');
  const name = { scope: 'user', key, window_kind: window, unit };
  await database.knex('limit_settings').where(name).delete();
  if (amount !== null) await limits.insert({ ...name, amount, set_at: new Date(START), set_by: 'test' });
}

async function grant(id: string, key: string, amount: number, hours: number, more: object = {}): Promise<void> {
  await database.knex('limit_grants').insert({
    ...{ id, scope: 'user', key, window_kind: 'day', unit: 'nano_usd', amount, granted_by: 'test' },
    granted_at: new Date(clock.now()),
    expires_at: new Date(clock.now() + hours * HOUR_MS),
    ...more,
  });
}

/** How many of some requests of 100 are let in. */
async function room(user: string, demands: readonly LimitDemand[], ledger = newLedger()): Promise<number> {
  const requests = Array.from({ length: 12 }, () => reservation({ user, demands }));
  const answers = await Promise.all(requests.map((request) => ledger.reserve(request)));
  const granted = requests.filter((_, i) => answers[i]!.exceeded.length === 0);
  await Promise.all(granted.map(({ request_id }) => ledger.release(request_id)));
  return granted.length;
}

describe('a limit that was set at run time', () => {
  it('takes the place of every configured one, higher or lower, and gives it back when it is removed', async () => {
    const demands = [userDemand('set', 300), { ...userDemand('set', 900), rule: 'larger' }];
    assert.equal(await room('set', demands), 3);
    await set('set', 700);
    assert.equal(await room('set', demands), 7);
    await set('set', 100);
    assert.equal(await room('set', demands), 1);
    await set('set', null);
    assert.equal(await room('set', demands), 3);
  });

  it('limits what was only counted before', async () => {
    assert.equal(await room('counted', [userDemand('counted', null)]), 12);
    await set('counted', 400);
    assert.equal(await room('counted', [userDemand('counted', null)]), 4);
  });

  it('is one limit in what a refusal and a reservation tell', async () => {
    const ledger = newLedger();
    const demands = [userDemand('one', 300), { ...userDemand('one', 900), rule: 'larger' }];
    await set('one', 150);
    const { statuses } = await ledger.reserve(reservation({ user: 'one', demands }));
    const rule = 'set at run time';
    const told = { scope: 'user', key: 'one', window: 'day', unit: 'nano_usd', rule, limit: 150 };
    const state = { spent: 0, reserved: 100, in_flight: 1, most: 100, resets_at: DAY_ENDS };
    assert.deepEqual(statuses, [{ ...told, ...state }]);
    const { exceeded } = await ledger.reserve(reservation({ user: 'one', demands }));
    assert.deepEqual(exceeded, [{ ...told, ...state }]);
  });

  it('is for its own window, unit and counter only', async () => {
    await set('apart', 0, 'month');
    await set('apart', 0, 'day', 'tokens');
    await set('somebody else', 0);
    assert.equal(await room('apart', [userDemand('apart', 500)]), 5);
  });

  it('leaves a limit in shadow mode as it is', async () => {
    await set('trial', 10_000);
    const demands = [{ ...userDemand('trial', 50), shadow: true }];
    const { shadows } = await newLedger().reserve(reservation({ user: 'trial', demands }));
    assert.deepEqual(
      shadows.map(({ limit }) => limit),
      [50],
    );
  });

  it('below what is spent refuses everything, and nothing that was let in before', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'lowered', demands: [userDemand('lowered', 500)] });
    assertGranted(await ledger.reserve(request));
    await set('lowered', 10);
    assert.equal(await room('lowered', [userDemand('lowered', 500)]), 0);
    await ledger.settle(settlement(request));
    assert.equal(await room('lowered', [userDemand('lowered', 500)]), 0);
  });

  it('holds for requests at once too', async () => {
    const demands: LimitDemand[] = [{ ...userDemand('crowd', 2), window: 'open', unit: 'requests' }];
    await set('crowd', 5, 'open', 'requests');
    assert.equal(await room('crowd', demands), 5);
  });

  it('counts at every gateway from the next request on', async () => {
    const ledgers = [newLedger(), newLedger(await store.another())];
    const demands = [userDemand('everywhere', 300)];
    for (const amount of [200, 600, 0]) {
      await set('everywhere', amount);
      for (const ledger of ledgers) assert.equal(await room('everywhere', demands, ledger), amount / 100);
    }
  });
});

describe('a grant', () => {
  it('adds room until it expires, on top of others', async () => {
    const demands = [userDemand('granted', 300)];
    await grant('g-1', 'granted', 200, 1);
    await grant('g-2', 'granted', 100, 2);
    assert.equal(await room('granted', demands), 6);
    clock.advance(HOUR_MS - 1);
    assert.equal(await room('granted', demands), 6);
    clock.advance(1);
    assert.equal(await room('granted', demands), 4);
    await database
      .knex('limit_grants')
      .where({ id: 'g-2' })
      .update({ revoked_at: new Date(START) });
    assert.equal(await room('granted', demands), 3);
  });

  it('adds to a limit that was set, too, and to none where there is none', async () => {
    await set('both', 100);
    await grant('g-3', 'both', 200, 1);
    assert.equal(await room('both', [userDemand('both', 900)]), 3);
    await grant('g-4', 'unlimited', 200, 1);
    const { statuses } = await newLedger().reserve(
      reservation({ user: 'unlimited', demands: [userDemand('unlimited', null)] }),
    );
    assert.deepEqual(statuses, []);
  });

  it('does not begin before its time', async () => {
    await grant('g-5', 'soon', 200, 10, { granted_at: new Date(clock.now() + 1) });
    assert.equal(await room('soon', [userDemand('soon', 100)]), 1);
    clock.advance(1);
    assert.equal(await room('soon', [userDemand('soon', 100)]), 3);
  });
});

describe('statuses', () => {
  it('tell limits in money as they are, in the order asked, those without a limit too', async () => {
    const ledger = newLedger();
    const demands: LimitDemand[] = [
      teamDemand('shown', 900),
      { ...userDemand('shown', 5), window: 'open', unit: 'requests' },
      userDemand('shown', null),
      { ...userDemand('shown', 5), window: 'week', shadow: true },
      { ...userDemand('shown', 700), window: 'week' },
    ];
    await ledger.reserve(
      reservation({ user: 'shown', amount_nano_usd: 10, most_nano_usd: 80, overshoot_percent: 5, demands }),
    );
    await set('shown', 400, 'week');
    await grant('g-6', 'shown', 50, 1, { window_kind: 'week' });
    const at = { unit: 'nano_usd', key: 'shown', spent: 0, reserved: 10, in_flight: 1, most: 80 };
    const week_ends = Date.parse('2026-03-16T00:00:00Z');
    const month_ends = Date.parse('2026-04-01T00:00:00Z');
    assert.deepEqual(await ledger.statuses(demands), [
      { ...at, scope: 'team', window: 'month', rule: 'monthly', limit: 900, resets_at: month_ends },
      { ...at, scope: 'user', window: 'day', rule: 'daily', limit: null, resets_at: DAY_ENDS },
      {
        ...at,
        ...{ scope: 'user', window: 'week', rule: 'set at run time', limit: 450, granted: 50, resets_at: week_ends },
      },
    ]);
  });

  it('are zero for what nobody spent from, and make no counters', async () => {
    const [limit_status, ...others] = await newLedger().statuses([userDemand('unseen', 10)]);
    assert.deepEqual([limit_status?.spent, limit_status?.reserved, limit_status?.limit, others.length], [0, 0, 10, 0]);
    assert.deepEqual(await database.knex('spend_counters').where({ key: 'unseen' }), []);
    assert.deepEqual(await newLedger().statuses([]), []);
  });

  it('raise store_unavailable while the store is away', async () => {
    const away = { query: () => Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' })) };
    const ledger = new DatabaseLedger({ database: away, clock, log: quietLog, every: () => () => {} });
    open.push(ledger);
    await assert.rejects(ledger.statuses([userDemand('x', 1)]), { code: 'store_unavailable' });
  });
});
