import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LimitDemand } from '../../../engine/contract/services.ts';
import { type Moment, partsOf } from '../../../engine/money/leases/lease-parts.ts';
import { LeasedRoom } from '../../../engine/money/leases/leased-room.ts';
import type { CounterNumbers } from '../../../engine/money/limits/room.ts';
import { reservation } from '../../support/store.ts';
import { GREEDY, teamLimit } from './leasing.ts';

const AT: Moment = { monotonic: 10_000, database: 10_000 };
const NUMBERS: CounterNumbers = {
  spent: 0,
  reserved: 1000,
  most: 1000,
  in_flight: 10,
  set: null,
  granted: 0,
  resets_at: null,
};

/** Room that was leased for requests of a demand. */
function leasedFor(demand: LimitDemand, numbers: CounterNumbers = NUMBERS) {
  const room = new LeasedRoom(GREEDY);
  const request = reservation({ demands: [demand] });
  const parts = partsOf(request);
  room.note(parts, AT.monotonic);
  const wishes = room.takeWishes(AT.monotonic);
  for (const wish of wishes) room.granted(wish, { taken: true, id: 7, ends_at: null, numbers }, AT.monotonic);
  return { room, request, parts };
}

test('a lease that was used to its end is given back, so that nothing is left of it', () => {
  const { room, request, parts } = leasedFor(teamLimit('all', 1_000_000));
  let placed = 0;
  while (room.place(request, parts, AT) !== undefined) placed++;
  assert.equal(placed, 10);
  room.giveBackIdle({ ...AT, monotonic: AT.monotonic + 60_000 });
  assert.deepEqual(room.takeReturns(), [{ id: 7, amount: 0, most: 0, requests: 0 }]);
});

test('a limit in shadow mode is asked where another one was set or granted: leases are within that one', () => {
  const shadow: LimitDemand = { ...teamLimit('shadow', 500), shadow: true };
  for (const [changed, is_placed] of [
    [{}, true],
    [{ set: 1_000_000 }, false],
    [{ granted: 5 }, false],
  ] as const) {
    const { room, request, parts } = leasedFor(shadow, { ...NUMBERS, ...changed });
    assert.equal(room.place(request, parts, AT) !== undefined, is_placed);
  }
});
