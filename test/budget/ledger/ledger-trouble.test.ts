import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { ownProcess } from '../../../engine/base/kit/process/gateway-process.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { DatabaseLedger, type LedgerOptions } from '../../../engine/domain/budget/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import {
  balanceOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  useTestStore,
} from '../../support/store.ts';
import { until } from '../../support/until.ts';

const never = () => () => {};
const start = '2026-03-10T12:00:00Z';

let database: Database;
const open = useTestStore((opened) => {
  database = opened.database;
});

function newLedger(more: Partial<LedgerOptions> = {}): DatabaseLedger {
  const ledger = new DatabaseLedger({ database, clock: frozenClock(start), log: quietLog, every: never, ...more });
  open.push(ledger);
  return ledger;
}

describe('failures of the store', () => {
  it('reports the number of unwritten settlements, and the lag', async () => {
    const clock = frozenClock(start);
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 2, 'before'), clock });
    const request = reservation({ user: 'late' });
    await ledger.reserve(request);
    assert.deepEqual([ledger.waiting, ledger.lag_ms, ledger.is_alive], [0, 0, true]);
    clock.advance(9000);
    const settled = ledger.settle(settlement(request));
    clock.advance(3000);
    assert.deepEqual([ledger.waiting, ledger.lag_ms], [1, 3000]);
    await settled;
    assert.deepEqual([ledger.waiting, ledger.lag_ms], [0, 0]);
  });

  it('counts a commit once although its reply was lost', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 1, 'after') });
    const request = reservation({ user: 'unheard' });
    await ledger.reserve(request);
    await Promise.all([
      ledger.settle(settlement(request)),
      ledger.settle(settlement(reservation({ user: 'unheard' }), { reserved: false })),
    ]);
    assert.equal((await ledgerRowsOf(database, 'unheard')).length, 2);
    assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 120, reserved: 0 });
  });

  it('releases a reservation unknown to the process at the next heartbeat, and no other', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'reserve', 1, 'after') });
    await assert.rejects(ledger.reserve(reservation({ user: 'unsure' })), { code: 'store_unavailable' });
    const known = reservation({ user: 'unsure' });
    await ledger.reserve(known);
    assert.equal((await balanceOf(database, 'unsure')).reserved, 200);
    await ledger.beat();
    assert.equal((await balanceOf(database, 'unsure')).reserved, 100);
    await ledger.settle(settlement(known));
    assert.equal((await ledgerRowsOf(database, 'unsure')).length, 1);
  });

  it('retries a failed release', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'ledger_release', 1, 'before') });
    const request = reservation({ user: 'stuck' });
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    await ledger.beat();
    assert.equal((await balanceOf(database, 'stuck')).reserved, 0);
  });

  it('fails only the invalid request of a batch', async () => {
    const ledger = newLedger();
    const twin = reservation({ user: 'twins' });
    const responses = await Promise.allSettled(
      [twin, { ...twin }, reservation({ user: 'twins' })].map((request) => ledger.reserve(request)),
    );
    assert.deepEqual(
      responses.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal((await balanceOf(database, 'twins')).reserved, 200);
  });

  it('places no reservation after its deadline, and still settles in the same batch', async () => {
    let reserve_timeout_ms = 60_000;
    const ledger = newLedger({ clock: systemClock, reserve_timeout_ms: () => reserve_timeout_ms });
    const [first, second] = [reservation({ user: 'in time' }), reservation({ user: 'in time' })];
    await ledger.reserve(first);
    reserve_timeout_ms = -60_000;
    const settled = ledger.settle(settlement(first));
    await assert.rejects(ledger.reserve(second), { code: 'store_unavailable' });
    await settled;
    assert.deepEqual(await balanceOf(database, 'in time'), { spent: 60, reserved: 0 });
    assert.equal((await database.knex('reservations').where({ user_email: 'in time' })).length, 0);
  });

  it('writes pending settlements when the ledger closes', async () => {
    const ledger = newLedger({ database: spoiltStore(database, 'settle', 2, 'before') });
    const request = reservation({ user: 'hasty' });
    await ledger.reserve(request);
    const settled = ledger.settle(settlement(request));
    await ledger.close();
    await settled;
    assert.equal((await ledgerRowsOf(database, 'hasty')).length, 1);
  });
});

describe('a ledger that closes', () => {
  it('waits for reservations that the database may still place, and not for answered ones', async () => {
    for (const unheard of [0, 1]) {
      let now = 0;
      // Each check takes a second.
      const clock = { ...systemClock, monotonic: () => (now += 1000) };
      const ledger = newLedger({
        clock,
        database: spoiltStore(database, 'reserve', unheard, 'before'),
        reserve_timeout_ms: () => 60_000,
      });
      await ledger.reserve(reservation({ user: 'closing' })).catch(() => {});
      const began = now;
      await ledger.close();
      assert.equal(now - began > 6000, unheard > 0);
    }
  });
});

describe('the orphans of a dead gateway', () => {
  beforeEach(() => database.query('test_forget', 'delete from reservations', []));

  it('become rows at the reserved amount after 30 s without a heartbeat', async () => {
    const clock = frozenClock(start);
    const [dead, alive] = [newLedger({ clock }), newLedger({ clock })];
    const [lost, kept] = [reservation({ user: 'orphan' }), reservation({ user: 'orphan' })];
    await Promise.all([dead.reserve(lost), alive.reserve(kept)]);
    clock.advance(29_000);
    await alive.beat();
    assert.equal(await alive.recover(), 0);
    clock.advance(2000);
    assert.equal(await alive.recover(), 1);
    const rows = await ledgerRowsOf(database, 'orphan');
    assert.deepEqual(
      rows.map(({ request_id, cost_nano_usd, status }) => ({ request_id, cost_nano_usd, status })),
      [{ request_id: lost.request_id, cost_nano_usd: 100, status: null }],
    );
    assert.deepEqual(new Set(Object.values(rows[0]!.provenance)), new Set(['estimate']));
    assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 100, reserved: 100 });
    // It was only cut off, and returns with its state: once, however often it reports it.
    await Promise.all([dead.settle(settlement(lost)), alive.settle(settlement(lost)), alive.settle(settlement(kept))]);
    await dead.settle(settlement(lost, { cost_nano_usd: 70 }));
    const corrections = await database.knex('ledger').where({ request_id: lost.request_id, kind: 'adjustment' });
    assert.equal(corrections.length, 1);
    const [{ cost_nano_usd, output_tokens, provenance, settled_at }] = corrections;
    assert.deepEqual([Number(cost_nano_usd), Number(output_tokens)], [-40, 20]);
    assert.deepEqual([provenance.cost, provenance.of, provenance.was_nano_usd], ['upstream', 'estimate', 100]);
    assert.equal(settled_at.getTime(), clock.now());
    assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 120, reserved: 0 });
    const { differences, repeated } = await verifyLedger({ database, clock });
    assert.deepEqual([differences.first.filter(({ key }) => key === 'orphan'), repeated.first], [[], []]);
  });

  it('are recovered once by several gateways', async () => {
    const clock = frozenClock('2026-04-10T12:00:00Z');
    const [dead, ...alive] = [newLedger({ clock }), newLedger({ clock }), newLedger({ clock })];
    await Promise.all(Array.from({ length: 40 }, () => dead.reserve(reservation({ user: 'searched' }))));
    clock.advance(31_000);
    await Promise.all(alive.map((ledger) => ledger.beat()));
    const found = await Promise.all(alive.map((ledger) => ledger.recover()));
    assert.equal(
      found.reduce((sum, count) => sum + count, 0),
      40,
    );
    assert.equal((await ledgerRowsOf(database, 'searched')).length, 40);
    assert.equal((await balanceOf(database, 'searched')).reserved, 0);
  });

  it('are recovered by the first heartbeat of its successor on the same machine', async () => {
    const { machine } = ownProcess();
    const past_any_process_id = '99999999-1';
    const killed = newLedger({ process: { machine, identity: past_any_process_id } });
    const elsewhere = newLedger({ process: { machine: 'elsewhere', identity: past_any_process_id } });
    const neighbour = newLedger();
    for (const ledger of [killed, elsewhere, neighbour]) await ledger.reserve(reservation({ user: 'killed' }));
    await newLedger().beat();
    assert.equal((await ledgerRowsOf(database, 'killed')).length, 1);
    assert.equal((await balanceOf(database, 'killed')).reserved, 200);
  });

  it('are recovered by a timer, once the process itself has been alive for the timeout', async () => {
    const clock = frozenClock('2026-05-10T12:00:00Z');
    await newLedger({ clock }).reserve(reservation({ user: 'silent' }));
    clock.advance(31_000);
    const ticks: (() => void)[] = [];
    let beats = 0;
    newLedger({
      clock,
      every: (_, task) => {
        ticks.push(task);
        return () => {};
      },
      database: {
        async query(name, text, values) {
          if (name === 'recover_orphans') assert.equal(beats, 6);
          const rows = await database.query<never>(name, text, values);
          if (name === 'process_alive') beats++;
          return rows;
        },
      },
    });
    const found = await until('the orphan is recorded', async () => {
      ticks.at(-1)!();
      return (await ledgerRowsOf(database, 'silent')).length === 1;
    });
    assert.ok(found);
  });

  it('are left alone right after a start of the database', async () => {
    const lapsed = newLedger({ clock: frozenClock('2026-01-01T00:00:00Z') });
    const request = reservation({ user: 'rebooted' });
    await lapsed.reserve(request);
    const recover = (server_started: string) =>
      database.query('test_recover', "select recover_orphans($1, '{}', '30 s', $2) as orphans", [
        '2026-01-01T00:01:00Z',
        server_started,
      ]);
    assert.deepEqual(await recover('2026-01-01T00:00:31Z'), [{ orphans: 0 }]);
    assert.deepEqual(await recover('2026-01-01T00:00:29Z'), [{ orphans: 1 }]);
  });
});
