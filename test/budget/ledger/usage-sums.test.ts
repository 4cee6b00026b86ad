import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { startUsageSums, type UsageSums } from '../../../engine/domain/budget/ledger/upkeep.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { sumAgain, verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { collectingLog } from '../../cli/support.ts';
import { quietLog, reservation, settlement, spoiltStore, type TestStore, useTestStore } from '../../support/store.ts';

let store: TestStore;
let database: Database;
let ledger: DatabaseLedger;
let sums: UsageSums;
let lines: Record<string, unknown>[];
let tick: () => unknown;
const clock = frozenClock('2026-03-10T12:30:00Z');
const ledgers = useTestStore((opened) => {
  store = opened;
  database = opened.database;
});

const run = (text: string, ...values: readonly unknown[]) => database.knex.raw(text, values as never);
const count = async (table: string) => Number((await database.knex(table).count())[0]!.count);

async function used(user: string, cost_nano_usd: number): Promise<void> {
  const request = reservation({ user });
  await ledger.reserve(request);
  await ledger.settle(settlement(request, { cost_nano_usd }));
}

const spent = async () =>
  (await reportUsage(database, {}, { by: ['user'] })).map(({ user, cost_nano_usd }) => [user, cost_nano_usd]);
const wrongSums = async () => (await verifyLedger({ database, clock })).sums.first;

function start(through: Pick<Database, 'query'> = database): UsageSums {
  const collected = collectingLog();
  lines = collected.lines;
  return startUsageSums({
    database: through,
    log: collected.log,
    every(_, task) {
      tick = task;
      return () => {};
    },
  });
}

beforeEach(async () => {
  await run('truncate ledger, reservations, spend_counters');
  ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  ledgers.push(ledger);
  sums = start();
});

describe('rows not aggregated yet', () => {
  it('are added to their hour and day, and count the same before and after', async () => {
    await used('ann', 5);
    await used('ann', 7);
    await used('bob', 1);
    const expected = [
      ['ann', 12n],
      ['bob', 1n],
    ];
    assert.deepEqual(await spent(), expected);
    assert.equal(await count('usage_waiting'), 3);
    await sums.sum();
    assert.deepEqual(await spent(), expected);
    assert.deepEqual([await count('usage_waiting'), await count('usage_hours'), await count('usage_days')], [0, 2, 2]);
    await used('ann', 8);
    await sums.sum();
    assert.deepEqual((await spent())[0], ['ann', 20n]);
    assert.deepEqual(await wrongSums(), []);
  });

  it('are left to the process that is aggregating them', async () => {
    await used('ann', 5);
    const other = await store.another();
    await other.knex.transaction(async (transaction) => {
      await transaction.raw('select lock_usage()');
      await sums.sum();
      assert.equal(await count('usage_waiting'), 1);
    });
    await sums.sum();
    assert.equal(await count('usage_waiting'), 0);
  });

  it('still count after the aggregating process is killed', async () => {
    await used('ann', 5);
    const other = await store.another();
    await assert.rejects(
      other.knex.transaction(async (transaction) => {
        await transaction.raw('select sum_usage(1)');
        await transaction.raw('select pg_terminate_backend(pg_backend_pid())');
      }),
    );
    assert.deepEqual(await spent(), [['ann', 5n]]);
    await sums.sum();
    assert.deepEqual(await spent(), [['ann', 5n]]);
    assert.deepEqual(await wrongSums(), []);
  });

  it('count once while two processes aggregate and another one settles', async () => {
    const others = await Promise.all([store.another(), store.another()]);
    const users = Array.from({ length: 40 }, (_, n) => `user-${n % 7}`);
    const settled = Promise.all(users.map((user) => used(user, 3)));
    const summed = others.map((other) => start(other));
    for (let round = 0; round < 10; round++) await Promise.all(summed.map((each) => each.sum()));
    await settled;
    await sums.sum();
    assert.equal(
      (await spent()).reduce((sum, [, cost]) => sum + (cost as bigint), 0n),
      120n,
    );
    assert.deepEqual(await wrongSums(), []);
  });

  it('are aggregated later after an error, which is logged', async () => {
    sums = start(spoiltStore(database, 'sum_usage', 1, 'before'));
    await used('ann', 5);
    await tick();
    assert.equal(lines[0]!.message, 'could not aggregate usage');
    await tick();
    assert.equal(await count('usage_waiting'), 0);
  });
});

describe('sums of some days', () => {
  it('can be rebuilt at any time', async () => {
    await used('ann', 2);
    // A row in each of the 29 days before.
    await run(
      `insert into ledger select r.* from ledger l cross join generate_series(1, 29) as n
       cross join jsonb_populate_record(l, jsonb_build_object(
         'request_id', n, 'settled_at', l.settled_at - make_interval(days => n),
         'forwarded_at', l.forwarded_at - make_interval(days => n))) as r`,
    );
    await run('select sum_usage(15)');
    await database.knex('usage_hours').increment('requests', 1);
    assert.notDeepEqual(await wrongSums(), []);
    assert.equal(await sumAgain(database, { since: '2026-03-01' }), 10);
    assert.equal(await sumAgain(database, {}), 30);
    assert.deepEqual(await wrongSums(), []);
    await sums.sum();
    assert.deepEqual(await spent(), [['ann', 60n]]);
    assert.equal(await count('usage_days'), 30);
    assert.deepEqual(await wrongSums(), []);
  });
});

describe('the verification of sums', () => {
  it('finds each different number, by hour and by day, and a changed name', async () => {
    await used('ann', 5);
    await sums.sum();
    assert.deepEqual(await wrongSums(), []);
    await database.knex('usage_hours').update({ cost_nano_usd: 6 });
    await database.knex('usage_days').update({ output_tokens: 0 });
    const same = { user: 'ann', model: 'coder-1', upstream: 'main' };
    const day = { span: 'day', start: new Date('2026-03-10'), ...same };
    assert.deepEqual(
      new Set(await wrongSums()),
      new Set([
        { span: 'hour', start: new Date('2026-03-10T12:00:00Z'), ...same, amount: 'cost_nano_usd', off_by: 1n },
        { ...day, amount: 'cost_nano_usd', off_by: -1n },
        { ...day, amount: 'output_tokens', off_by: -20n },
      ]),
    );
    await sumAgain(database, {});
    assert.deepEqual(await wrongSums(), []);
    await database.knex('usage_names').where({ name: 'ann' }).update({ name: 'eve' });
    assert.deepEqual(new Set((await wrongSums()).map(({ user }) => user)), new Set(['ann', null]));
    await sumAgain(database, {});
    assert.deepEqual([await wrongSums(), await spent()], [[], [['ann', 5n]]]);
  });

  it('finds an unused name whose sums would be reported twice', async () => {
    await used('ann', 5);
    await sums.sum();
    await database.knex('usage_names').where({ name: 'ann' }).update({ digest: 'x' });
    await used('ann', 7);
    await sums.sum();
    assert.deepEqual(new Set((await wrongSums()).map(({ user }) => user)), new Set(['ann', null]));
    await sumAgain(database, {});
    assert.deepEqual([await wrongSums(), await spent()], [[], [['ann', 12n]]]);
  });

  it('finds an hour that reports would read from incomplete sums', async () => {
    await used('ann', 5);
    await sums.sum();
    await run("update usage_hours set settled_until = settled_until - interval '90.5 seconds'");
    const hour = {
      span: 'hour',
      start: new Date('2026-03-10T12:00:00Z'),
      user: 'ann',
      model: 'coder-1',
      upstream: 'main',
    };
    assert.deepEqual(await wrongSums(), [{ ...hour, amount: 'seconds_to_last_settlement', off_by: -91n }]);
    await sumAgain(database, {});
    assert.deepEqual(await wrongSums(), []);
  });
});
