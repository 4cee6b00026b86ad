import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LimitDemand, LimitStatus, ReservationDecision } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { LeasedRow, LeaseStatements, LookedAt } from '../../../engine/domain/budget/leases/lease-statements.ts';
import { LeasedRoom, type Moment, partsOf } from '../../../engine/domain/budget/leases/leased-room.ts';
import { Leases } from '../../../engine/domain/budget/leases/leases.ts';
import { RowSender } from '../../../engine/domain/budget/leases/row-sender.ts';
import type { CounterNumbers } from '../../../engine/domain/budget/limits/room.ts';
import { quietLog, reservation } from '../../support/store.ts';
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

const FULL: LimitStatus = {
  ...{ scope: 'user', key: 'alice', window: 'open', unit: 'requests', rule: 'at-once' },
  ...{ limit: 4, spent: 0, reserved: 4, most: 4, in_flight: 4, resets_at: null },
};

/** Refuses again and again while what is told of the limit changes. @returns how often it was decided. */
async function decisions(leased: (turn: number) => boolean): Promise<number> {
  let turn = 0;
  const recall = async (): Promise<LookedAt[]> => {
    const numbers = { spent: 0, reserved: 3, most: 3, in_flight: 3, set: null, granted: 0, resets_at: null };
    return [{ leased: leased(turn++), numbers }];
  };
  const leases = new Leases({
    database: { lanes: () => ({ free: () => undefined, count: 1, close() {} }), listen: async () => {} },
    statements: { recall } as unknown as LeaseStatements,
    heartbeat: { isFresh: () => true, databaseNow: () => 0, doubt() {}, sayAlive: async () => {} },
    ...{ clock: systemClock, log: quietLog, every: () => () => {}, is_on: () => true, time_zone: () => 'UTC' },
    between: (task) => task(),
    inTime: (sent) => sent,
  });
  const refused = { exceeded: [FULL], shadows: [], statuses: [], unreserved: false } as ReservationDecision;
  let decided = 0;
  const decide = async () => {
    decided++;
    return refused;
  };
  await leases.withoutLeases(refused, decide, false);
  return decided;
}

test('a limit that others fill again and again is asked once more where nobody has leases on it', async () => {
  assert.equal(await decisions(() => false), 1);
});

test('a limit is asked again while there are leases on it, and once when they are back', async () => {
  assert.equal(await decisions((turn) => turn < 3), 4);
});

test('a row whose connection broke before all of it was handed over is not told to be sent', async () => {
  const written = Promise.withResolvers<void>();
  const broken = new Error('the connection broke');
  const sender = new RowSender({
    lanes: () => ({ free: () => ({ send: () => ({ handed: undefined, answered: Promise.resolve() }) }) }),
    statements: {
      place: () => ({ handed: Promise.reject(broken), answered: Promise.reject(broken) }),
      placeAgain: () => written.promise,
    },
    log: quietLog,
    mayBeSent: () => true,
    onFailure() {},
  });
  const row: LeasedRow = { lease_id: 'lease', placement: { request: reservation(), parts: [], leases: [] } };
  const sent = await sender.send(row);
  assert.equal(sent?.is_handed, false);
  written.resolve();
  assert.equal(await sent?.written, true);
});
