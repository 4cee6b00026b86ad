import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import pg from 'pg';
import { frozenClock } from '../../engine/kit/clock.ts';
import { openLedger } from '../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../engine/store/database.ts';
import { migrate } from '../../engine/store/migrate.ts';
import { migrations } from '../../engine/store/migrations/index.ts';
import { createConnections } from '../../engine/store/postgres-client.ts';
import { createTestDatabase } from '../support/database.ts';
import { open } from '../support/open-database.ts';
import { counterStatesOf, quietLog, reservation, settlement } from '../support/store.ts';

let url: string;
let drop: () => Promise<void>;
let database: Database | undefined;

before(async () => {
  ({ url, drop } = await createTestDatabase({ migrated: false }));
});
after(async () => {
  await database?.close();
  await drop();
});

/** What a gateway of before had in its books: 60 spent by a request, 100 held for another. */
const BOOKS = `
insert into spend_counters (scope, key, window_kind, window_start, spent_nano_usd, reserved_nano_usd)
values ('user', 'ann', 'day', '2026-03-10', 60, 100), ('user', 'bob', 'day', '2026-03-10', 0, 0);
insert into reservations (request_id, process_id, reserved_at, amount_nano_usd, counter_ids,
  protocol, principal_id, user_email, model, upstream, upstream_model)
select 'held', gen_random_uuid(), '2026-03-10T10:00:00Z', 100, array[id], 'messages', 'user:ann', 'ann', 'm', 'u', 'm'
from spend_counters where key = 'ann';
insert into ledger (request_id, protocol, principal_id, user_email, model, upstream, upstream_model, status, aborted,
  input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd,
  provenance, counter_ids, forwarded_at, settled_at)
select 'spent', 'messages', 'user:ann', 'ann', 'm', 'u', 'm', 200, false, 1, 1, 0, 0, 0, 60, '{}', array[id], now(), now()
from spend_counters where key = 'ann';`;

it('books that were kept before there were weeks, minutes and typical holds add up afterwards', async () => {
  const connections = createConnections({ settings: () => ({ connectionString: url }), label: () => 'a test' });
  const of_before = migrations.filter(({ name }) => name < '0005');
  await migrate(connections, of_before);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(BOOKS).finally(() => client.end());

  database = await open(url);
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const { differences, ledger_rows } = await verifyLedger({ database, clock });
  assert.deepEqual({ differences, ledger_rows }, { differences: { total: 0, first: [] }, ledger_rows: 1 });
  const stateOf = async () => (await counterStatesOf(database!, 'ann')).map(({ window_start: _, ...state }) => state);
  const name = { scope: 'user', window_kind: 'day', unit: 'nano_usd' };
  assert.deepEqual(await stateOf(), [{ ...name, spent: 60, reserved: 100, most: 100, in_flight: 1 }]);

  const ledger = openLedger({ database, clock, log: quietLog, every: () => () => {} });
  await ledger.settle(settlement(reservation({ request_id: 'held', user: 'ann' }), { cost_nano_usd: 40 }));
  await ledger.close();
  assert.deepEqual(await stateOf(), [{ ...name, spent: 100, reserved: 0, most: 0, in_flight: 0 }]);
});
