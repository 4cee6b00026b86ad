/** A full batch of reservations, granted as a whole and decided one by one. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { frozenClock } from '../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../engine/money/ledger/ledger.ts';
import type { Database } from '../../engine/store/database.ts';
import { quietLog, reservation, userDemand, useTestStore } from '../support/store.ts';

let database: Database;
const open = useTestStore((opened) => {
  database = opened.database;
});

it('takes not much longer to be decided one by one than to be granted as a whole', async () => {
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  open.push(ledger);
  const windows = ['day', 'week', 'month'] as const;
  const demands = (key: string, limit: number) =>
    windows.flatMap((window) => [
      { ...userDemand(key, limit), window },
      { ...userDemand('everybody', null), scope: 'team', window },
    ]);
  const takes = async (first_limit: number): Promise<number> => {
    const begin = performance.now();
    const batch = Array.from({ length: 500 }, (_, i) =>
      ledger.reserve(reservation({ user: `u${i}`, demands: demands(`crowd-${i}`, i === 0 ? first_limit : 1e15) })),
    );
    const refused = (await Promise.all(batch)).filter(({ exceeded }) => exceeded.length > 0);
    assert.equal(refused.length, first_limit === 0 ? 1 : 0);
    return performance.now() - begin;
  };
  await takes(1e15);
  let [granted, decided] = [Infinity, Infinity];
  for (let round = 0; round < 5; round++) {
    granted = Math.min(granted, await takes(1e15));
    decided = Math.min(decided, await takes(0));
  }
  assert.ok(decided < 4 * granted, `${decided} ms instead of ${granted} ms`);
});
