import assert from 'node:assert/strict';
import { it } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { UndecidedReservations } from '../../../engine/domain/budget/ledger/batches.ts';
import { LedgerStatements } from '../../../engine/domain/budget/ledger/ledger-statements.ts';
import { reservation, settlement, type TestStore, useTestStore } from '../../support/store.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

it('a batch that arrives after its time settles what is over and places no reservation', async () => {
  const { database } = store;
  const statements = new LedgerStatements({
    database,
    clock: systemClock,
    time_zone: () => 'UTC',
    process_id: crypto.randomUUID(),
  });
  const reserved = async () => {
    const rows = await database.query<{ request_id: string }>('test_held', 'select request_id from reservations', []);
    return rows.map(({ request_id }) => request_id);
  };
  const [first, second] = [reservation(), reservation()];
  const in_time = await statements.batch([], [first], new Date(Date.now() + 60_000));
  assert.equal(in_time.decisions?.[0]?.exceeded.length, 0);
  assert.deepEqual(await reserved(), [first.request_id]);
  const late = await statements.batch([settlement(first)], [second], new Date(Date.now() - 1000));
  assert.deepEqual([late.written, late.decisions], [[true], undefined]);
  assert.deepEqual(await reserved(), []);
});

it('what nobody has heard of is undecided until its time is over, and what was answered is not', async () => {
  let now = 0;
  // Each look takes a while.
  const clock = { frozen: false, monotonic: () => ++now };
  const undecided = new UndecidedReservations(clock);
  assert.equal(await undecided.await(60_000, async () => 'placed'), 'placed');
  await undecided.over();
  assert.ok(now < 10);
  await assert.rejects(undecided.await(10, () => Promise.reject(new Error('away'))));
  await undecided.over();
  assert.equal(now, 10);
});
