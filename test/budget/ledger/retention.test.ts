import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { type Retention, type RetentionMonths, startRetention } from '../../../engine/domain/budget/ledger/upkeep.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { collectingLog } from '../../cli/support.ts';
import {
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  type TestStore,
  teamDemand,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

let store: TestStore;
let database: Database;
let ledger: DatabaseLedger;
let clock: ReturnType<typeof frozenClock>;
let retention: Retention;
let kept: RetentionMonths | undefined;
let lines: Record<string, unknown>[];
let minutely: () => unknown;
const ledgers = useTestStore((opened) => {
  store = opened;
  database = opened.database;
});

/** The same for a caller whose database has this time. */
async function moveTo(time: string): Promise<void> {
  clock.advance(Date.parse(time) - clock.now());
  await database.query('test_partitions', 'select make_months($1)', [new Date(time)]);
}

async function used(): Promise<void> {
  const demands = [userDemand('ann', null), teamDemand('search', null)];
  const request = reservation({ user: 'ann', team: 'search', demands });
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
const droppedBefore = async () => (await database.knex('ledger_bounds')).map((row) => row.dropped_before.toISOString());

beforeEach(async () => {
  for (const table of ['ledger', 'audit_log']) {
    for (const name of await partitions(table)) {
      if (name !== 'default') await database.knex.raw('drop table ??', [`${table}_${name}`]);
    }
  }
  await database.knex.raw('truncate ledger, audit_log, reservations, spend_counters, processes, ledger_bounds');
  clock = frozenClock('2026-01-15T12:00:00Z');
  ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  ledgers.push(ledger);
  const collected = collectingLog();
  lines = collected.lines;
  kept = undefined;
  retention = startRetention({
    database,
    clock,
    log: collected.log,
    retention: () => kept,
    every(_, task) {
      minutely = task;
      return () => {};
    },
  });
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
    assert.deepEqual(await retention.sweep(), [
      'ledger_2026_01',
      'ledger_2026_02',
      'audit_log_2026_01',
      'audit_log_2026_02',
      'audit_log_2026_03',
      'audit_log_2026_04',
    ]);
    assert.deepEqual(await partitions('ledger'), [
      '2026_03',
      '2026_04',
      '2026_05',
      '2026_06',
      '2026_07',
      '2026_08',
      'default',
    ]);
    assert.deepEqual((await partitions('audit_log'))[0], '2026_05');
    assert.deepEqual(await months(), ['2026-03', '2026-04', '2026-05', '2026-06']);
    assert.deepEqual(await droppedBefore(), ['2026-03-01T00:00:00.000Z']);
    assert.deepEqual(await retention.sweep(), []);
    assert.deepEqual(
      lines.map(({ table, message }) => [table, message]).slice(0, 2),
      ['ledger_2026_01', 'ledger_2026_02'].map((table) => [table, 'dropped an expired month']),
    );
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
    const request = reservation({
      user: 'ann',
      team: 'search',
      demands: [userDemand('ann', null), teamDemand('search', null)],
    });
    await used();
    await ledger.reserve(request);
    await moveTo('2026-02-01T00:00:05Z');
    await ledger.settle(settlement(request));
    await moveTo('2026-04-10T12:00:00Z');
    await ledger.reserve(reservation({ user: 'ann', team: 'search', demands: request.demands }));
    kept = { ledger_months: 2 };
    assert.deepEqual(await retention.sweep(), ['ledger_2026_01']);
    assert.deepEqual(await months(), ['2026-02']);
    await assertAddsUp();
  });

  it('counters are deleted once no remaining row can name them', async () => {
    await halfAYear();
    const counters = async () =>
      (await database.knex('spend_counters').orderBy('window_start')).map((row) => row.window_start);
    kept = { ledger_months: 2 };
    await retention.sweep();
    // Rows before April are gone; 31 days and the longest window before is 1 February.
    const expected = ['2026-02', '2026-03', '2026-04', '2026-05', '2026-06'].flatMap((month) => [
      `${month}-01`,
      `${month}-10`,
    ]);
    assert.deepEqual(
      (await counters()).map((start) => start.toISOString().slice(0, 10)),
      expected,
    );
    await assertAddsUp();
  });

  it('an old spooled request still counts if its counter exists', async () => {
    await halfAYear();
    kept = { ledger_months: 1 };
    await retention.sweep();
    const request = reservation({ user: 'ann' });
    await ledger.settleAt(
      settlement(request),
      [userDemand('ann', null)],
      Date.parse('2026-01-16T12:00:00Z'),
      await ledger.databaseId(),
    );
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
    assert.deepEqual(
      (await database.knex('spend_counters').orderBy('window_kind')).map((row) => row.window_kind),
      ['day', 'open'],
    );
  });
});

describe('dropping months beside others', () => {
  it('is done once, however many gateways try', async () => {
    await halfAYear();
    kept = { ledger_months: 2 };
    const other = startRetention({
      database: await store.another(),
      clock,
      log: quietLog,
      retention: () => kept,
      every: () => () => {},
    });
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
    await minutely();
    assert.equal((await months())[0], '2026-02');
    kept = { ledger_months: 2 };
    for (let minute = 1; minute < 60; minute++) await minutely();
    assert.equal((await months())[0], '2026-02');
    await minutely();
    assert.equal((await months())[0], '2026-04');
  });

  it('logs errors and continues', async () => {
    await halfAYear();
    const { log, lines: logged } = collectingLog();
    const spoilt = spoiltStore(database, 'drop_oldest_partition', 1, 'before');
    let again: () => unknown = () => assert.fail('it has no timer');
    startRetention({
      database: spoilt,
      clock,
      log,
      retention: () => ({ ledger_months: 2 }),
      every(_, task) {
        again = task;
        return () => {};
      },
    });
    await again();
    assert.match(String(logged.at(-1)!.message), /could not drop/);
    assert.equal((await months())[0], '2026-01');
    for (let minute = 1; minute <= 60; minute++) await again();
    assert.equal((await months())[0], '2026-04');
  });
});
