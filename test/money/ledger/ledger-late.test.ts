import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  balanceOf,
  countersOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';
import { until } from '../../support/until.ts';

const START = '2026-03-10T12:00:00Z';
const AT = Date.parse('2026-03-09T23:00:00Z');

let database: Database;
let database_id: string | undefined;
const open = useTestStore((opened) => {
  database = opened.database;
});
beforeEach(async () => {
  database_id ??= await newLedger().databaseId();
});

/** A store whose exchanges wait until they are let through. */
function gatedStore(): Pick<Database, 'query'> & { readonly waiting: number; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting = 0;
  return {
    async query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]> {
      if (name === 'ledger_batch') {
        waiting++;
        await promise;
      }
      return database.query<Row>(name, text, values);
    },
    get waiting() {
      return waiting;
    },
    open: resolve,
  };
}

function newLedger(clock: FrozenClock = frozenClock(START), store: Pick<Database, 'query'> = database): DatabaseLedger {
  const ledger = new DatabaseLedger({
    database: store,
    clock,
    log: quietLog,
    every: () => () => {},
    reserve_timeout_ms: () => 2000,
  });
  open.push(ledger);
  return ledger;
}

describe('a reservation that the store does not answer in time', () => {
  async function giveUp(user: string) {
    const clock = frozenClock(START);
    const store = gatedStore();
    const ledger = newLedger(clock, store);
    const request = reservation({ user });
    const queued = reservation({ user });
    const failed = assert.rejects(ledger.reserve(request), { code: 'store_unavailable' });
    await until('the statement is on its way', async () => store.waiting === 1);
    const failed_too = assert.rejects(ledger.reserve(queued), { code: 'store_unavailable' });
    clock.advance(2000);
    return { clock, store, ledger, request, queued, over: () => Promise.all([failed, failed_too]) };
  }

  it('fails then, is given back when it was placed after all, and what still queued is never placed', async () => {
    const { store, ledger, over } = await giveUp('impatient');
    await over();
    store.open();
    assertGranted(await ledger.reserve(reservation({ user: 'other' })));
    await until('it is given back', async () => (await balanceOf(database, 'impatient')).reserved === 0);
    const left = await database.knex('reservations').where({ user_email: 'impatient' });
    assert.deepEqual(left, []);
    assert.equal(store.waiting, 2);
  });

  it('is kept when the request went out all the same, and is then settled like any other', async () => {
    const { clock, store, ledger, request, over } = await giveUp('kept');
    await over();
    ledger.keep(request.request_id);
    store.open();
    assertGranted(await ledger.reserve(reservation({ user: 'other' })));
    await ledger.beat();
    assert.equal((await balanceOf(database, 'kept')).reserved, 100);
    assert.equal(await ledger.settleAt(settlement(request), request.demands, clock.now(), database_id!), true);
    ledger.forget(request.request_id);
    await ledger.beat();
    assert.deepEqual(await balanceOf(database, 'kept'), { spent: 60, reserved: 0 });
    assert.equal((await ledgerRowsOf(database, 'kept')).length, 1);
  });

  it('that was settled before it was placed is given back, and is never counted twice', async () => {
    for (const how of ['a beat', 'a successor'] as const) {
      const user = `overtaken by ${how}`;
      const { clock, store, ledger, request, over } = await giveUp(user);
      await over();
      ledger.keep(request.request_id);
      assert.equal(
        await newLedger(clock).settleAt(settlement(request), request.demands, clock.now(), database_id!),
        true,
      );
      store.open();
      assertGranted(await ledger.reserve(reservation({ user: 'other' })));
      assert.deepEqual(await balanceOf(database, user), { spent: 60, reserved: 100 });
      if (how === 'a beat') {
        ledger.forget(request.request_id);
        await ledger.beat();
      } else {
        clock.advance(31_000);
        await newLedger(clock).recover();
      }
      assert.deepEqual(await balanceOf(database, user), { spent: 60, reserved: 0 });
      assert.equal((await ledgerRowsOf(database, user)).length, 1);
    }
  });
});

describe('a settlement of an earlier time', () => {
  it('counts in the windows of that time, on the counters of money it names', async () => {
    const ledger = newLedger();
    const request = reservation({ user: 'late', team: 'lates' });
    const demands = [
      teamDemand('lates', 5),
      userDemand('late', 5),
      { ...userDemand('late', 5), window: 'minute' as const, unit: 'requests' as const },
    ];
    assert.equal(await ledger.settleAt(settlement(request), demands, AT, database_id!), true);
    assert.deepEqual(await countersOf(database, 'late'), [
      { window_kind: 'day', window_start: '2026-03-09T00:00:00.000Z', spent: 60, reserved: 0 },
    ]);
    assert.deepEqual(await countersOf(database, 'lates'), [
      { window_kind: 'month', window_start: '2026-03-01T00:00:00.000Z', spent: 60, reserved: 0 },
    ]);
    const [row] = await ledgerRowsOf(database, 'late');
    const { forwarded_at, settled_at } = row as typeof row & { forwarded_at: Date; settled_at: Date };
    assert.deepEqual([forwarded_at, settled_at], [new Date(AT), new Date(START)]);
  });

  it('counts now when the clock of the gateway that tells of it is fast', async () => {
    const request = reservation({ user: 'early' });
    const two_days_ahead = Date.parse(START) + 48 * 3_600_000;
    assert.equal(await newLedger().settleAt(settlement(request), request.demands, two_days_ahead, database_id!), true);
    assert.equal((await countersOf(database, 'early'))[0]?.window_start, '2026-03-10T00:00:00.000Z');
    const [row] = await database.knex('ledger').where({ request_id: request.request_id });
    assert.equal(row.forwarded_at.toISOString(), new Date(START).toISOString());
  });

  it('is written once, however often and wherever it is tried', async () => {
    const clock = frozenClock(START);
    const request = reservation({ user: 'again' });
    const tries = Array.from({ length: 8 }, (_, i) =>
      newLedger(clock).settleAt(settlement(request, { cost_nano_usd: 60 + i }), request.demands, AT, database_id!),
    );
    const written = await Promise.all(tries);
    assert.equal(written.filter((each) => each).length, 1);
    clock.advance(28 * 24 * 3_600_000);
    assert.equal(await newLedger(clock).settleAt(settlement(request), request.demands, AT, database_id!), false);
    const rows = await ledgerRowsOf(database, 'again');
    assert.equal(rows.length, 1);
    assert.equal((await balanceOf(database, 'again')).spent, rows[0]!.cost_nano_usd);
    const { differences } = await verifyLedger({ database, clock });
    assert.deepEqual(differences, { total: 0, first: [] });
  });

  it('fails at once while the store is away, and was written only if it says so or is tried again', async () => {
    const request = reservation({ user: 'away' });
    for (const moment of ['before', 'after'] as const) {
      const ledger = newLedger(undefined, spoiltStore(database, 'settle', 1, moment));
      await assert.rejects(ledger.settleAt(settlement(request), request.demands, AT, database_id!), {
        code: 'store_unavailable',
      });
    }
    assert.equal(await newLedger().settleAt(settlement(request), request.demands, AT, database_id!), false);
    assert.equal((await ledgerRowsOf(database, 'away')).length, 1);
  });
});
