/** A batch in which one request has no room is decided one by one, which takes not much longer than granting all at once. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import { quietLog, reservation, userDemand, useTestStore } from '../support/store.ts';

const ROUNDS = 5;
let ledger: DatabaseLedger;
const { database, ledgers } = useTestStore();
before(() => {
  const clock = frozenClock('2026-03-10T12:00:00Z');
  ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  ledgers.push(ledger);
});

test('a full batch is decided one by one about as fast as it is granted as a whole', async () => {
  const demands = (key: string, limit: number) =>
    (['day', 'week', 'month'] as const).flatMap((window) => [
      { ...userDemand(key, limit), window },
      { ...userDemand('everybody', null), scope: 'team' as const, window },
    ]);
  const takes = async (first_limit: number): Promise<number> => {
    const began = performance.now();
    const batch = Array.from({ length: 500 }, (_, i) =>
      ledger.reserve(reservation({ user: `u${i}`, demands: demands(`crowd-${i}`, i === 0 ? first_limit : 1e15) })),
    );
    const refused = (await Promise.all(batch)).filter(({ exceeded }) => exceeded.length > 0);
    assert.equal(refused.length, first_limit === 0 ? 1 : 0);
    return performance.now() - began;
  };
  await takes(1e15);
  let [granted, decided] = [Infinity, Infinity];
  for (let round = 0; round < ROUNDS; round++) {
    granted = Math.min(granted, await takes(1e15));
    decided = Math.min(decided, await takes(0));
  }
  assert.ok(decided < 4 * granted, `${decided} ms instead of ${granted} ms`);
});
