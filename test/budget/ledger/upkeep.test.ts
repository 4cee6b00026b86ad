import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import {
  type Retention,
  type RetentionMonths,
  startRetention,
  startUsageSums,
  type UsageSums,
} from '../../../engine/domain/budget/ledger/upkeep.ts';
import { reportUsage } from '../../../engine/domain/budget/reports/usage.ts';
import { sumAgain, verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { collectingLog } from '../../cli/support.ts';
import {
  manualTimer,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  stillLedger,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

describe('retention', () => {
  let ledger: DatabaseLedger;
  let clock: ReturnType<typeof frozenClock>;
  let retention: Retention;
  let kept: RetentionMonths | undefined;
  let lines: Record<string, unknown>[];
  const timer = manualTimer();
  const { database, store, ledgers } = useTestStore();

  /** The same for a caller whose database has this time. */
  async function moveTo(time: string): Promise<void> {
    clock.advance(Date.parse(time) - clock.now());
    await database.query('test_partitions', 'select make_months($1)', [new Date(time)]);
  }

  const ofAnn = () =>
    reservation({ user: 'ann', team: 'search', demands: [userDemand('ann', null), teamDemand('search', null)] });

  async function used(): Promise<void> {
    const request = ofAnn();
    await ledger.reserve(request);
    await ledger.settle(settlement(request));
  }

  async function audited(): Promise<void> {
    const record = { at_ms: clock.now(), request_id: null, record: {} };
    await database.query('test_audit', 'select audit_append($1, false)', [JSON.stringify([record])]);
  }

  async function partitions(table: string): Promise<string[]> {
    const { rows } = await database.knex.raw(
      'select inhrelid::regclass::text as name from pg_inherits where inhparent = cast(? as regclass) order by 1',
      [table],
    );
    return rows.map(({ name }: { name: string }) => name.replace(`${table}_`, ''));
  }

  async function assertAddsUp(): Promise<void> {
    const { differences, repeated, uncounted } = await verifyLedger({ database, clock });
    assert.deepEqual([differences.first, repeated.first, uncounted.first], [[], [], []]);
  }

  const months = async () => {
    const month = `to_char(settled_at at time zone 'UTC', 'YYYY-MM')`;
    const { rows } = await database.knex.raw(`select distinct ${month} as month from ledger order by 1`);
    return rows.map((row: { month: string }) => row.month);
  };
  const droppedBefore = async () =>
    (await database.knex('ledger_bounds')).map((row) => row.dropped_before.toISOString());

  beforeEach(async () => {
    for (const table of ['ledger', 'audit_log']) {
      for (const name of await partitions(table)) {
        if (name !== 'default') await database.knex.raw('drop table ??', [`${table}_${name}`]);
      }
    }
    await database.knex.raw('truncate ledger, audit_log, reservations, spend_counters, processes, ledger_bounds');
    clock = frozenClock('2026-01-15T12:00:00Z');
    ledger = stillLedger(database, clock);
    ledgers.push(ledger);
    const collected = collectingLog();
    lines = collected.lines;
    kept = undefined;
    retention = startRetention({ database, clock, log: collected.log, retention: () => kept, every: timer.every });
  });

  /** A request in each month from January to June, and it is the 10th of June. */
  async function halfAYear(): Promise<void> {
    for (const month of ['01', '02', '03', '04', '05', '06']) {
      await moveTo(`2026-${month}-${month === '01' ? '16' : '10'}T12:00:00Z`);
      await used();
      await audited();
    }
  }

  describe('expired months', () => {
    it('are dropped as a whole, by the retention of the ledger and that of the audit log', async () => {
      await halfAYear();
      kept = { ledger_months: 3, audit_months: 1 };
      const of_audit = [1, 2, 3, 4].map((month) => `audit_log_2026_0${month}`);
      assert.deepEqual(await retention.sweep(), ['ledger_2026_01', 'ledger_2026_02', ...of_audit]);
      const left = [3, 4, 5, 6, 7, 8].map((month) => `2026_0${month}`);
      assert.deepEqual(await partitions('ledger'), [...left, 'default']);
      assert.deepEqual((await partitions('audit_log'))[0], '2026_05');
      assert.deepEqual(await months(), ['2026-03', '2026-04', '2026-05', '2026-06']);
      assert.deepEqual(await droppedBefore(), ['2026-03-01T00:00:00.000Z']);
      assert.deepEqual(await retention.sweep(), []);
      assert.deepEqual([lines[1]!.table, lines[1]!.message], ['ledger_2026_02', 'dropped an expired month']);
    });

    it('are counted in UTC, up to the very end of a month', async () => {
      await halfAYear();
      kept = { ledger_months: 2 };
      await moveTo('2026-06-30T23:59:59Z');
      assert.equal((await retention.sweep()).at(-1), 'ledger_2026_03');
      await moveTo('2026-07-01T00:00:00Z');
      assert.deepEqual(await retention.sweep(), ['ledger_2026_04']);
    });

    it('are kept forever without a setting', async () => {
      await halfAYear();
      assert.deepEqual(await retention.sweep(), []);
      kept = {};
      assert.deepEqual(await retention.sweep(), []);
      kept = { audit_months: 1200 };
      assert.deepEqual(await retention.sweep(), []);
      kept = { audit_months: 3 };
      await retention.sweep();
      assert.equal((await months()).length, 6);
      assert.deepEqual(await droppedBefore(), []);
    });

    it('never include the default partition or unrelated tables', async () => {
      await database.knex.raw('create table ledger_1999_01 (note text)');
      await database.knex.raw(
        "create table ledger_old partition of ledger for values from ('2000-01-01') to ('2000-02-01')",
      );
      await used();
      await database.knex.raw("update ledger set settled_at = '2001-01-01'");
      await halfAYear();
      kept = { ledger_months: 2 };
      await retention.sweep();
      assert.equal((await months())[0], '2001-01');
      assert.deepEqual((await partitions('ledger')).slice(-2), ['default', 'old']);
      assert.equal((await database.knex('ledger_1999_01')).length, 0);
      await database.knex.raw('drop table ledger_1999_01, ledger_old');
    });
  });

  describe('after a month was dropped', () => {
    it('the ledger is still consistent with requests in flight and counters of earlier months', async () => {
      await moveTo('2026-01-31T23:59:50Z');
      const request = ofAnn();
      await used();
      await ledger.reserve(request);
      await moveTo('2026-02-01T00:00:05Z');
      await ledger.settle(settlement(request));
      await moveTo('2026-04-10T12:00:00Z');
      await ledger.reserve(ofAnn());
      kept = { ledger_months: 2 };
      assert.deepEqual(await retention.sweep(), ['ledger_2026_01']);
      assert.deepEqual(await months(), ['2026-02']);
      await assertAddsUp();
    });

    it('counters are deleted once no remaining row can name them', async () => {
      await halfAYear();
      kept = { ledger_months: 2 };
      await retention.sweep();
      // Rows before April are gone; 31 days and the longest window before is 1 February.
      const expected = ['2026-02', '2026-03', '2026-04', '2026-05', '2026-06'].flatMap((month) => [
        `${month}-01`,
        `${month}-10`,
      ]);
      const counters = await database.knex('spend_counters').orderBy('window_start');
      const found = counters.map(({ window_start }) => window_start.toISOString().slice(0, 10));
      assert.deepEqual(found, expected);
      await assertAddsUp();
    });

    it('an old spooled request still counts if its counter exists', async () => {
      await halfAYear();
      kept = { ledger_months: 1 };
      await retention.sweep();
      const request = reservation({ user: 'ann' });
      const at_ms = Date.parse('2026-01-16T12:00:00Z');
      await ledger.settleAt(settlement(request), request.demands, at_ms, await ledger.databaseId());
      await retention.sweep();
      await moveTo('2026-07-20T12:00:00Z');
      await retention.sweep();
      await assertAddsUp();
    });

    it('counters with reservations, and those of requests in flight, stay', async () => {
      await moveTo('2026-01-16T12:00:00Z');
      await used();
      await database.knex.raw(`insert into spend_counters (scope, key, window_kind, window_start, unit, reserved, most, in_flight)
        values ('user', 'ann', 'open', '-infinity', 'requests', 1, 1, 1), ('user', 'bob', 'day', '2020-01-01', 'nano_usd', 1, 1, 1)`);
      await moveTo('2026-06-10T12:00:00Z');
      kept = { ledger_months: 2 };
      await retention.sweep();
      const counters = await database.knex('spend_counters').orderBy('window_kind').select('window_kind');
      assert.deepEqual(counters, [{ window_kind: 'day' }, { window_kind: 'open' }]);
    });
  });

  describe('dropping months beside others', () => {
    it('is done once, however many gateways try', async () => {
      await halfAYear();
      kept = { ledger_months: 2 };
      const more = { log: quietLog, retention: () => kept, every: manualTimer().every };
      const other = startRetention({ database: await store.another(), clock, ...more });
      const dropped = (await Promise.all([retention.sweep(), other.sweep(), retention.sweep(), other.sweep()])).flat();
      const later = await retention.sweep();
      assert.deepEqual([...dropped, ...later].sort(), ['ledger_2026_01', 'ledger_2026_02', 'ledger_2026_03']);
    });

    it('does not wait for a long report and does not block requests: the month is dropped an hour later', async () => {
      await halfAYear();
      kept = { ledger_months: 2 };
      await database.knex.transaction(async (report) => {
        await report('ledger').count();
        assert.deepEqual(await retention.sweep(), []);
        assert.match(String(lines.at(-1)!.message), /retrying in an hour/);
        // No request waits for the table any more.
        await used();
      });
      assert.equal((await retention.sweep()).length, 3);
    });

    it('happens a minute after the start, and then every hour', async () => {
      await halfAYear();
      kept = { ledger_months: 4 };
      await timer.tick();
      assert.equal((await months())[0], '2026-02');
      kept = { ledger_months: 2 };
      for (let minute = 1; minute < 60; minute++) await timer.tick();
      assert.equal((await months())[0], '2026-02');
      await timer.tick();
      assert.equal((await months())[0], '2026-04');
    });

    it('logs errors and continues', async () => {
      await halfAYear();
      const { log, lines: logged } = collectingLog();
      const spoilt = spoiltStore(database, 'drop_oldest_partition', 1, 'before');
      const { every, tick } = manualTimer();
      startRetention({ database: spoilt, clock, log, retention: () => ({ ledger_months: 2 }), every });
      await tick();
      assert.match(String(logged.at(-1)!.message), /could not drop/);
      assert.equal((await months())[0], '2026-01');
      for (let minute = 1; minute <= 60; minute++) await tick();
      assert.equal((await months())[0], '2026-04');
    });
  });
});

describe('sums of usage', () => {
  let ledger: DatabaseLedger;
  let sums: UsageSums;
  let lines: Record<string, unknown>[];
  const timer = manualTimer();
  const clock = frozenClock('2026-03-10T12:30:00Z');
  const { database, store, ledgers } = useTestStore();

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
    return startUsageSums({ database: through, log: collected.log, every: timer.every });
  }

  beforeEach(async () => {
    await run('truncate ledger, reservations, spend_counters');
    ledger = stillLedger(database, clock);
    ledgers.push(ledger);
    sums = start();
  });

  describe('rows not aggregated yet', () => {
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
      const total = (await spent()).reduce((sum, [, cost]) => sum + (cost as bigint), 0n);
      assert.equal(total, 120n);
      assert.deepEqual(await wrongSums(), []);
    });

    it('are aggregated later after an error, which is logged', async () => {
      sums = start(spoiltStore(database, 'sum_usage', 1, 'before'));
      await used('ann', 5);
      await timer.tick();
      assert.equal(lines[0]!.message, 'could not aggregate usage');
      await timer.tick();
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
    const of_ann = { user: 'ann', model: 'coder-1', upstream: 'main' };
    const HOUR = { span: 'hour', start: new Date('2026-03-10T12:00:00Z'), ...of_ann };

    it('finds each different number, by hour and by day, and a changed name', async () => {
      await used('ann', 5);
      await sums.sum();
      assert.deepEqual(await wrongSums(), []);
      await database.knex('usage_hours').update({ cost_nano_usd: 6 });
      await database.knex('usage_days').update({ output_tokens: 0 });
      const day = { ...HOUR, span: 'day', start: new Date('2026-03-10') };
      assert.deepEqual(
        new Set(await wrongSums()),
        new Set([
          { ...HOUR, amount: 'cost_nano_usd', off_by: 1n },
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
      assert.deepEqual(await wrongSums(), [{ ...HOUR, amount: 'seconds_to_last_settlement', off_by: -91n }]);
      await sumAgain(database, {});
      assert.deepEqual(await wrongSums(), []);
    });
  });
});
