import assert from 'node:assert/strict';
import { it } from 'node:test';
import { systemClock } from '../../../engine/kit/clock.ts';
import { createLedgerStatements } from '../../../engine/money/ledger/ledger-statements.ts';
import { createUndecidedReservations } from '../../../engine/money/ledger/undecided-holds.ts';
import { reservation, settlement, type TestStore, useTestStore } from '../../support/store.ts';

let store: TestStore;
useTestStore((opened) => {
  store = opened;
});

it('a batch that arrives after its time settles what is over and places no reservation', async () => {
  const { database } = store;
  const statements = createLedgerStatements({
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
  const in_time = await statements.exchange([], [first], new Date(Date.now() + 60_000));
  assert.equal(in_time.reservations?.[0]?.exceeded.length, 0);
  assert.deepEqual(await reserved(), [first.request_id]);
  const late = await statements.exchange([settlement(first)], [second], new Date(Date.now() - 1000));
  assert.deepEqual([late.written, late.reservations], [[true], undefined]);
  assert.deepEqual(await reserved(), []);
});

it('what nobody has heard of is undecided until its time is over, and what was answered is not', async () => {
  const clock = { frozen: false, monotonic: () => performance.now() };
  const holds = createUndecidedReservations(clock);
  assert.equal(await holds.place(performance.now() + 60_000, async () => 'placed'), 'placed');
  await holds.over();
  const until = performance.now() + 200;
  await assert.rejects(holds.place(until, () => Promise.reject(new Error('away'))));
  await holds.over();
  assert.ok(performance.now() >= until);
});
