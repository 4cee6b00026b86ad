import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LimitDemand, LimitStatus, ReservationDecision } from '../../../engine/base/contract/services.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { LeasedRoom, type Moment } from '../../../engine/domain/budget/leases/leased-room.ts';
import { Leases } from '../../../engine/domain/budget/leases/leases.ts';
import { RowSender } from '../../../engine/domain/budget/leases/row-sender.ts';
import { sharesOf } from '../../../engine/domain/budget/ledger/batch-rows.ts';
import type { LeasedRow, LedgerStatements, LookedAt } from '../../../engine/domain/budget/ledger/ledger-statements.ts';
import type { CounterNumbers } from '../../../engine/domain/budget/limits/headroom.ts';
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
  const shares = sharesOf(request);
  room.record(shares, AT.monotonic);
  for (const lot of room.takeLots(AT.monotonic))
    room.granted(lot, { is_leased: true, id: 7, ends_at: Number.POSITIVE_INFINITY, numbers }, AT.monotonic);
  return { room, request, shares };
}

test('a used-up lease is returned, so that its row is deleted', () => {
  const { room, request, shares } = leasedFor(teamLimit('all', 1_000_000));
  let placed = 0;
  while (room.place(request, shares, AT) !== undefined) placed++;
  assert.equal(placed, 10);
  room.returnIdle({ ...AT, monotonic: AT.monotonic + 60_000 });
  assert.deepEqual(room.takeReturns(), [{ id: 7, amount: 0, most: 0, requests: 0 }]);
});

test('a limit in shadow mode with run-time changes is checked in the database, because leases follow the limit in force', () => {
  const shadow: LimitDemand = { ...teamLimit('shadow', 500), shadow: true };
  for (const [changed, is_placed] of [
    [{}, true],
    [{ set: 1_000_000 }, false],
    [{ granted: 5 }, false],
  ] as const) {
    const { room, request, shares } = leasedFor(shadow, { ...NUMBERS, ...changed });
    assert.equal(room.place(request, shares, AT) !== undefined, is_placed);
  }
});

const FULL: LimitStatus = {
  ...{ scope: 'user', key: 'alice', window: 'open', unit: 'requests', rule: 'at-once' },
  ...{ limit: 4, spent: 0, reserved: 4, most: 4, in_flight: 4, resets_at: null },
};

/** Rejects repeatedly while the status of the limit changes. @returns how often it decided again. */
async function decisions(leased: (turn: number) => boolean): Promise<number> {
  let turn = 0;
  const recall = async (): Promise<LookedAt[]> => {
    const numbers = { spent: 0, reserved: 3, most: 3, in_flight: 3, set: null, granted: 0, resets_at: null };
    return [{ leased: leased(turn++), numbers }];
  };
  const leases = new Leases({
    database: { lanes: () => ({ free: () => undefined, count: 1, close() {} }), listen: async () => {} },
    statements: { recall } as unknown as LedgerStatements,
    heartbeat: { isFresh: () => true, databaseNow: () => 0, doubt() {}, sayAlive: async () => {} },
    ...{ clock: systemClock, log: quietLog, every: () => () => {}, is_on: () => true, time_zone: () => 'UTC' },
    send: async () => {},
    inTime: (sent) => sent,
  });
  const refused = { exceeded: [FULL], shadows: [], statuses: [], unreserved: false } as ReservationDecision;
  let decided = 0;
  const decide = async () => {
    decided++;
    return refused;
  };
  await leases.recallAndDecide(refused, decide, false);
  return decided;
}

test('a contended limit is decided once more without leases of any process', async () => {
  assert.equal(await decisions(() => false), 1);
});

test('a limit is decided again while there are leases on it, and once after their return', async () => {
  assert.equal(await decisions((turn) => turn < 3), 4);
});

test('a row is not reported as sent if its connection broke before the operating system had all of it', async () => {
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
  const row: LeasedRow = { lease_id: 'lease', placement: { request: reservation(), shares: [], leases: [] } };
  const sent = await sender.send(row);
  assert.equal(sent?.is_handed, false);
  written.resolve();
  assert.equal(await sent?.written, true);
});
