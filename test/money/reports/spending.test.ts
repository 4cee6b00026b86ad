import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSpending } from '../../../engine/money/reports/spending.ts';
import type { Database } from '../../../engine/store/database.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((store) => {
  database = store.database;
});

test('spending of a month is summed up however long that takes', async () => {
  // Says how long it may take, in place of taking long.
  await database.knex.raw(`
    create or replace function window_start(p_kind text, p_at timestamptz, p_time_zone text) returns timestamptz
    language plpgsql stable as $$ begin raise exception 'may take %', current_setting('statement_timeout'); end $$`);
  await assert.rejects(readSpending(database, 'month', 'UTC'), /may take 6h/);
});
