/**
 * Fills a database with the traffic of 400 people, to see how reports do on it: `node test/bench/reports/large-ledger.ts
 * --data-dir DIR [--requests 5000000] [--days 90]`. The embedded server keeps it in DIR; a directory that has a ledger is left alone.
 * @module
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { openDatabase } from '../../../engine/store/database.ts';
import { openEmbeddedPostgres } from '../../../engine/store/embedded/embedded-postgres.ts';

const DAY_MS = 86_400_000;
/** Of Sunday to Saturday. */
const WEEK = [0.25, 1, 1.1, 1.1, 1.05, 0.9, 0.25];

const { values } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    requests: { type: 'string', default: '5000000' },
    days: { type: 'string', default: '90' },
  },
});
const data_dir = values['data-dir'];
if (data_dir === undefined) throw new Error('--data-dir says where the database is kept');
const days = Number(values.days);
const log = { debug() {}, info() {}, warn: console.error, error: console.error };

const server = await openEmbeddedPostgres({ data_dir, log, supervise: false });
const config = { database: { embedded: { data_dir } } } as GatewayConfig;
const migrated = await openDatabase({ config, env: {}, log, wait: 'until-ready' });
const client = new pg.Client(server.settings());
try {
  await client.connect();
  const { rows } = await client.query('select request_id from ledger limit 1');
  if (rows.length > 0) throw new Error(`the database in ${data_dir} has a ledger; remove the directory to begin anew`);
  await fill();
} finally {
  await client.end();
  await migrated.close();
  await server.close();
}

async function fill(): Promise<void> {
  await client.query(
    "set synchronous_commit = off; set work_mem = '256MB'; set maintenance_work_mem = '256MB'; set time zone 'UTC'",
  );
  await client.query('drop schema if exists large cascade');
  await client.query(readFileSync(join(import.meta.dirname, 'large-ledger.sql'), 'utf8'));
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const dates = Array.from({ length: days }, (_, i) => new Date(today - (days - 1 - i) * DAY_MS));
  for (const date of dates) {
    await client.query("select ensure_partition('ledger', 'settled_at', $1), ensure_partition('audit_log', 'at', $1)", [
      date,
    ]);
  }
  await client.query('select large.make_people($1, $2)', [dates[0], days]);
  const weight = dates.reduce((sum, date) => sum + WEEK[date.getUTCDay()]!, 0);
  for (const [index, date] of dates.entries()) {
    const requests = Math.round((Number(values.requests) * WEEK[date.getUTCDay()]!) / weight);
    await client.query('select large.make_day($1, $2, $3)', [date.toISOString().slice(0, 10), index, requests]);
    console.log(`${date.toISOString().slice(0, 10)}: ${requests} requests`);
  }
  await client.query('select large.count_spent()');
  await client.query('drop schema large cascade');
  await client.query('vacuum analyze');
}
