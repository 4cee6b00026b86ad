import assert from 'node:assert/strict';
import { before, describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { Clock } from '../../engine/base/contract/services.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { storable } from '../../engine/base/kit/storable.ts';
import { OpenAuditLog } from '../../engine/domain/audit/audit-log.ts';
import { rowArray, rowCell } from '../../engine/domain/budget/ledger/ledger-statements.ts';
import { reportUsage } from '../../engine/domain/budget/reports/usage.ts';
import { anyText } from '../support/any-text.ts';
import {
  assertGranted,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  stillLedger,
  userDemand,
  useTestStore,
} from '../support/store.ts';
import { times } from '../support/times.ts';
import { until } from '../support/until.ts';

const { database, store, ledgers } = useTestStore();

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
  const ledger = stillLedger(database, clock, { time_zone: () => time_zone });
  ledgers.push(ledger);
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
});

/** Does something that writes to a table whose partition for this month is made before it gets there. */
async function whilePartitionIsMade(table: 'ledger' | 'audit_log', clock: Clock, write: () => Promise<unknown>) {
  const { knex } = store.database;
  const making = await knex.transaction();
  await making.raw('select make_months(?)', [new Date(clock.now())]);
  const written = write();
  await until('the row waits for the default partition', async () => {
    // Databases that were copied from one template have the same ids for the same tables.
    const { rows } = await knex.raw(
      `select from pg_locks where not granted and relation = ?::regclass
         and database = (select oid from pg_database where datname = current_database())`,
      [`${table}_default`],
    );
    return rows.length > 0;
  });
  await making.commit();
  await written;
}

test('a request is settled while the partition of its month is created', async () => {
  const clock = frozenClock('2051-03-10T12:00:00Z');
  const ledger = stillLedger(database, clock);
  ledgers.push(ledger);
  const request = reservation({ user: 'early@example.com' });
  assertGranted(await ledger.reserve(request));
  await whilePartitionIsMade('ledger', clock, () => ledger.settle(settlement(request)));
  assert.equal((await ledgerRowsOf(store.database, 'early@example.com')).length, 1);
});

test('an audit record is written while the partition of its month is created', async () => {
  const clock = frozenClock('2061-03-10T12:00:00Z');
  const audit = new OpenAuditLog({ database: store.database, clock, log: quietLog, every: () => () => {} });
  audit.write({ request_id: 'early' });
  await whilePartitionIsMade('audit_log', clock, () => audit.flush());
  assert.equal((await database.knex('audit_log').where({ request_id: 'early' })).length, 1);
  assert.equal(audit.lost, 0);
  await audit.close();
});

before(() =>
  database.knex.raw(
    `create type test_row as (name text, number bigint, yes boolean, other text);
     create type test_outer as (name text, inner_row test_row)`,
  ),
);

describe('rows as a parameter', () => {
  it('arrive unchanged, with any texts; unstorable values are replaced', async () => {
    const text = fc.option(fc.oneof(anyText(), fc.constantFrom('', 'NULL', '(', '",', "\\'", '\0', '\ud800', '{}')));
    const row = fc.tuple(text, fc.option(fc.maxSafeInteger()), fc.option(fc.boolean()), text);
    const check = fc.asyncProperty(fc.array(row), async (rows) => {
      const expected = rows.map((each) => each.map((cell) => (typeof cell === 'string' ? storable(cell) : cell)));
      for (const [name, text, param] of [
        ['test_rows', 'select name, number, yes, other from unnest($1::test_row[])', rowArray(rows)],
        [
          'test_inner_rows',
          'select (o.inner_row).* from unnest($1::test_outer[]) as o',
          rowArray(rows.map((each) => [each[0], rowCell(each)])),
        ],
      ] as const) {
        const read = await database.query<Record<string, unknown>>(name, text, [param]);
        assert.deepEqual(
          read.map((each) => Object.values(each)),
          expected,
        );
      }
    });
    await fc.assert(check, { numRuns: times(200) });
  });
});
