import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LimitStatus, ReservationDecision } from '../../../engine/contract/services.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import type { LeaseStatements, LookedAt } from '../../../engine/money/leases/lease-statements.ts';
import { Leases } from '../../../engine/money/leases/leases.ts';
import { quietLog } from '../../support/store.ts';

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
