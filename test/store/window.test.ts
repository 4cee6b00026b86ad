import assert from 'node:assert/strict';
import { test } from 'node:test';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import { reportUsage } from '../../engine/domain/budget/reports/usage.ts';
import { quietLog, reservation, settlement, userDemand, useTestStore } from '../support/store.ts';

let database: Database;
useTestStore((opened) => {
  database = opened.database;
});

/** Zones where midnight comes twice, not at all, or the day has another odd length, and the days around it. */
const FOLDS = [
  ['America/Havana', '2026-10-31', '2026-11-02'],
  ['America/Havana', '2026-03-07', '2026-03-09'],
  ['Atlantic/Azores', '2026-10-24', '2026-10-26'],
  ['Asia/Beirut', '2026-03-28', '2026-03-30'],
  ['Asia/Beirut', '2026-10-24', '2026-10-26'],
  ['Africa/Cairo', '2026-10-29', '2026-10-31'],
  ['Australia/Lord_Howe', '2026-04-04', '2026-04-06'],
  ['Asia/Kathmandu', '2026-04-04', '2026-04-06'],
] as const;

for (const [zone, from, to] of FOLDS) {
  test(`a day in ${zone} begins when the one before ends, around ${from}`, async () => {
    const rows = await database.query<{ at: Date; start: Date; until: Date; day: string; start_day: string }>(
      'test_windows',
      `select at, w.start, window_end('day', w.start, $1) as until,
         (at at time zone $1)::date::text as day, (w.start at time zone $1)::date::text as start_day
       from generate_series($2::timestamptz, $3::timestamptz, interval '10 minutes') as at
       cross join lateral (select window_start('day', at, $1) as start) as w order by at`,
      [zone, from, to],
    );
    let before = rows[0]!;
    for (const row of rows) {
      assert.ok(row.start <= row.at && row.at < row.until, JSON.stringify(row));
      assert.equal(row.start_day, row.day);
      if (row.start.getTime() !== before.start.getTime()) assert.deepEqual(row.start, before.until);
      before = row;
    }
  });
}

test('with two midnights a used-up limit opens at the announced time, and no earlier', async () => {
  const time_zone = 'America/Havana';
  const clock = frozenClock('2026-11-01T03:30:00Z');
  const ledger = new DatabaseLedger({
    database,
    clock,
    log: quietLog,
    every: () => () => {},
    time_zone: () => time_zone,
  });
  const user = 'havana@example.com';
  const ask = () => reservation({ user, demands: [userDemand(user, 1_000_000_000)], amount_nano_usd: 1_000_000_000 });
  const first = ask();
  assert.equal((await ledger.reserve(first)).exceeded.length, 0);
  await ledger.settle(settlement(first, { cost_nano_usd: 1_000_000_000 }));
  const [refusal] = (await ledger.reserve(ask())).exceeded;
  const resets_at = Number(refusal!.resets_at);
  clock.advance(resets_at - clock.now() - 1);
  assert.equal((await ledger.reserve(ask())).exceeded.length, 1, 'not a moment before');
  clock.advance(1);
  const late = ask();
  assert.equal((await ledger.reserve(late)).exceeded.length, 0);
  // Over after the next midnight, and counted on the day it began, by limits and reports alike.
  clock.advance(25 * 3_600_000);
  await ledger.settle(settlement(late, { cost_nano_usd: 500_000_000 }));
  const usage = await reportUsage(database, { user, since: '2026-11-01' }, { by: ['day'], time_zone });
  assert.deepEqual(
    usage.map(({ day, cost_nano_usd }) => [day, cost_nano_usd]),
    [['2026-11-01', 500_000_000n]],
  );
  await ledger.close();
});
