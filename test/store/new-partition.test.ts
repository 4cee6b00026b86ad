import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../engine/base/contract/services.ts';
import { frozenClock } from '../../engine/base/kit/clock.ts';
import { OpenAuditLog } from '../../engine/domain/audit/audit-log.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import {
  assertGranted,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  type TestStore,
  useTestStore,
} from '../support/store.ts';
import { until } from '../support/until.ts';

let store: TestStore;
const ledgers = useTestStore((opened) => {
  store = opened;
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
  const ledger = new DatabaseLedger({ database: store.database, clock, log: quietLog, every: () => () => {} });
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
  assert.equal((await store.database.knex('audit_log').where({ request_id: 'early' })).length, 1);
  assert.equal(audit.lost, 0);
  await audit.close();
});
