/** Moves of reservations that go wrong, in the database; how they go right: test/simulate/ledger-moves.test.ts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChargedAttempt } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  balanceOf,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

const START = '2026-03-10T23:59:30Z';
let database: Database;
const ledgers = useTestStore((opened) => {
  database = opened.database;
});

function newLedger(store: Pick<Database, 'query'> = database, clock = frozenClock(START)): DatabaseLedger {
  const ledger = new DatabaseLedger({ database: store, clock, log: quietLog, every: () => () => {} });
  ledgers.push(ledger);
  return ledger;
}

/** A request of a user to an upstream, with a limit on either. */
function at(user: string, upstream: string, limit = 1000) {
  const demands = [userDemand(user, limit), { ...userDemand(`${user}-${upstream}`, limit), scope: 'upstream' }];
  return reservation({ request_id: user, user, upstream, demands });
}

const HELD: ChargedAttempt = {
  ...{ n: 1, upstream: 'main', upstream_model: 'coder-1', certainty: 'possibly_accepted', status: null, sends: 1 },
  ...{ outcome: 'unanswered', reason: 'next_unconfirmed', ms: 5, cost_nano_usd: 30, provenance: 'possible' },
};

async function assertAddsUp(): Promise<void> {
  const { differences, repeated, attempts } = await verifyLedger({ database, clock: frozenClock(START) });
  assert.deepEqual([differences.total, repeated.total, attempts.total], [0, 0, 0]);
}

describe('a reservation whose move', () => {
  for (const moment of ['before', 'after'] as const) {
    it(`is lost ${moment} the database did it is store_unavailable, and goes on to another upstream all the same`, async () => {
      const user = `lost-${moment}`;
      const ledger = newLedger(spoiltStore(database, 'ledger_move', 1, moment));
      const { reservation: reserved } = await ledger.reserve(at(user, 'main'));
      await assert.rejects(reserved!.move(at(user, 'spare'), [HELD]), { code: 'store_unavailable' });
      await assertAddsUp();
      assert.deepEqual((await reserved!.move(at(user, 'third'), [HELD])).exceeded, []);
      assert.deepEqual(await balanceOf(database, user), { spent: 0, reserved: 130 });
      assert.deepEqual(await balanceOf(database, `${user}-main`), { spent: 0, reserved: 30 });
      const third = { ...HELD, n: 2, upstream: 'third', outcome: 'answered', cost_nano_usd: 60 };
      await reserved!.settle(settlement(at(user, 'third'), { cost_nano_usd: 90, attempts: [HELD, third] }));
      assert.deepEqual(await balanceOf(database, user), { spent: 90, reserved: 0 });
      assert.deepEqual(await balanceOf(database, `${user}-main`), { spent: 30, reserved: 0 });
      assert.deepEqual(await balanceOf(database, `${user}-third`), { spent: 60, reserved: 0 });
      await assertAddsUp();
    });
  }

  it('comes after midnight counts where its request began, and at the new upstream in the new day', async () => {
    const clock = frozenClock(START);
    const ledger = newLedger(database, clock);
    const { reservation: reserved } = await ledger.reserve(at('late', 'main'));
    clock.advance(60_000);
    await reserved!.move(at('late', 'spare'));
    const rows = await database.knex('spend_counters').where('key', 'like', 'late%').orderBy('key');
    const day = (moment: Date) => moment.toISOString().slice(0, 10);
    assert.deepEqual(
      rows.filter(({ reserved }) => Number(reserved) > 0).map(({ key, window_start }) => [key, day(window_start)]),
      [
        ['late', '2026-03-10'],
        ['late-spare', '2026-03-11'],
      ],
    );
    await reserved!.release();
    await assertAddsUp();
  });

  it('was held by a limit that was lowered since needs no more of it, and goes through', async () => {
    const ledger = newLedger();
    const { reservation: reserved } = await ledger.reserve(at('lowered', 'main'));
    const set = { scope: 'user', key: 'lowered', window_kind: 'day', unit: 'nano_usd', amount: 1, set_by: 'test' };
    await database.knex('limit_settings').insert({ ...set, set_at: new Date(START) });
    assert.deepEqual((await reserved!.move(at('lowered', 'spare'))).exceeded, []);
    const more = { ...at('lowered', 'third'), amount_nano_usd: 101, most_nano_usd: 101 };
    const { exceeded } = await reserved!.move(more);
    assert.deepEqual(
      exceeded.map(({ scope, limit }) => [scope, limit]),
      [['user', 1]],
    );
    await reserved!.release();
  });

  it('comes when its request is over moves nothing', async () => {
    const ledger = newLedger();
    const { reservation: reserved } = await ledger.reserve(at('over', 'main'));
    await reserved!.settle(settlement(at('over', 'main')));
    await assert.rejects(reserved!.move(at('over', 'spare')), { code: 'store_unavailable' });
    assert.deepEqual(await balanceOf(database, 'over'), { spent: 60, reserved: 0 });
    await assertAddsUp();
  });
});

describe('a gateway that was taken for dead while it waited for an upstream', () => {
  it('asks no other upstream, where nothing is reserved for the request any more', async () => {
    const clock = frozenClock('2026-03-10T12:00:00Z');
    const paused = newLedger(database, clock);
    const { reservation: reserved } = await paused.reserve(at('paused', 'main'));
    const heir = newLedger(database, clock);
    await heir.beat();
    clock.advance(31_000);
    await heir.beat();
    await heir.recover();
    await assert.rejects(reserved!.move(at('paused', 'spare'), [HELD]), { code: 'store_unavailable' });
    const last = { ...HELD, reason: 'exhausted' } as const;
    const outcome = { cost_nano_usd: 30, attempts: [last], provenance: { cost: 'possible' } } as const;
    await reserved!.settle(settlement(at('paused', 'main'), outcome));
    assert.deepEqual(await balanceOf(database, 'paused'), { spent: 30, reserved: 0 });
    assert.deepEqual(await balanceOf(database, 'paused-main'), { spent: 30, reserved: 0 });
    await assertAddsUp();
  });
});

describe('a gateway that died between two attempts', () => {
  it('leaves a row with the attempts it knew of, at what each upstream may bill', async () => {
    const clock = frozenClock(START);
    const dead = newLedger(database, clock);
    const { reservation: reserved } = await dead.reserve(at('orphan', 'main'));
    await reserved!.move(at('orphan', 'spare'), [HELD]);
    const heir = newLedger(database, clock);
    await heir.beat();
    clock.advance(31_000);
    await heir.beat();
    await heir.recover();
    const rows = await database.knex('ledger_attempts').where({ request_id: 'orphan' }).orderBy('n');
    assert.deepEqual(
      rows.map(({ upstream, certainty, cost_nano_usd, provenance }) => [
        upstream,
        certainty,
        Number(cost_nano_usd),
        provenance,
      ]),
      [
        ['main', 'possibly_accepted', 30, 'possible'],
        ['spare', 'possibly_accepted', 100, 'estimate'],
      ],
    );
    assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 130, reserved: 0 });
    assert.deepEqual(await balanceOf(database, 'orphan-main'), { spent: 30, reserved: 0 });
    await assertAddsUp();
  });

  it('leaves also those that cost nothing, and what they may be billed', async () => {
    const clock = frozenClock(START);
    const dead = newLedger(database, clock);
    const { reservation: reserved } = await dead.reserve(at('free', 'main'));
    const refused = { ...HELD, outcome: 'overloaded', status: 529, cost_nano_usd: 0, provenance: 'refused' } as const;
    await reserved!.move(at('free', 'spare'), [refused]);
    const apart = { cost_nano_usd: 0, provenance: 'estimate', possibly_billed_nano_usd: 30 } as const;
    await reserved!.move(at('free', 'third'), [refused, { ...HELD, ...apart, n: 2, upstream: 'spare' }]);
    const heir = newLedger(database, clock);
    await heir.beat();
    clock.advance(31_000);
    await heir.beat();
    await heir.recover();
    const rows = await database.knex('ledger_attempts').where({ request_id: 'free' }).orderBy('n');
    assert.deepEqual(
      rows.map((row) => [row.n, row.upstream, row.outcome, Number(row.cost_nano_usd), row.counter_ids]),
      [
        [1, 'main', 'overloaded', 0, null],
        [2, 'spare', 'unanswered', 0, null],
        [3, 'third', 'unanswered', 100, null],
      ],
    );
    const row = await database.knex('ledger').where({ request_id: 'free' }).first('provenance');
    assert.equal(row.provenance.possibly_billed_nano_usd, 30);
    assert.deepEqual(await balanceOf(database, 'free'), { spent: 100, reserved: 0 });
    await assertAddsUp();
  });
});
