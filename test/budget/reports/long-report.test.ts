import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { Database } from '../../../engine/base/store/database.ts';
import { readForLong } from '../../../engine/domain/budget/reports/long-report.ts';
import { readSpending } from '../../../engine/domain/budget/reports/spending.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((store) => {
  database = store.database;
});

describe('a long report', () => {
  it('is split into hours and delays no other request', async () => {
    const timeout = "select current_setting('statement_timeout') as timeout_now";
    const within = await readForLong(database, (read) => read<{ timeout_now: string }>(timeout, []));
    assert.deepEqual(within, [{ timeout_now: '6h' }]);
    const { rows } = await database.knex.raw(timeout);
    assert.deepEqual(rows, [{ timeout_now: '1min' }]);
  });

  it('sees one moment of the database', async () => {
    await readForLong(database, async (read) => {
      const count = () => read<{ count: number }>('select count(*) from limit_grants', []);
      assert.deepEqual(await count(), [{ count: 0 }]);
      await database.query(
        'test_grant',
        `insert into limit_grants (id, scope, key, window_kind, amount, granted_at, granted_by, expires_at)
         values ('g', 'user', 'ann', 'day', 1, now(), 'test', now())`,
        [],
      );
      assert.deepEqual(await count(), [{ count: 0 }]);
    });
  });

  it('can change nothing', async () => {
    await assert.rejects(
      readForLong(database, (read) => read('delete from ledger', [])),
      /read-only transaction/,
    );
  });
});

test('sums the spending of a month however long that takes', async () => {
  // Returns its time limit, instead of being slow.
  await database.knex.raw(`
    create or replace function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
    language plpgsql stable as $$ begin raise exception 'may take %', current_setting('statement_timeout'); end $$`);
  await assert.rejects(readSpending(database, 'month', 'UTC'), /may take 6h/);
});
