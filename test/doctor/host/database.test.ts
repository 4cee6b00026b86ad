import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { diagnoseDatabase } from '../../../engine/edge/doctor/host/database.ts';
import type { Host } from '../../../engine/edge/doctor/host/host.ts';
import { thisMachine } from '../../../engine/edge/doctor/host/host.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { createTestDatabase } from '../../support/database.ts';
import { use } from '../../support/use.ts';

const database = use(createTestDatabase, ({ drop }) => drop());

/** What is wrong with the database once a setting of it was changed; the setting is put back. */
async function wrongWith(set: string, reset: string): Promise<string> {
  await run(`alter database ${name()} ${set}`);
  try {
    return (await wrong()).join('\n');
  } finally {
    await run(`alter database ${name()} ${reset}`);
  }
}

const name = () => new URL(database.url).pathname.slice(1);

async function run(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(text);
  await client.end();
}

async function wrong(url = database.url): Promise<string[]> {
  const host = {
    config: stageConfig({ database: { postgres: { url_env: 'URL', pool_max: 10 } } }),
    env: { URL: url },
    machine: thisMachine(),
    loaded: { positionOf: () => undefined },
    config_file: 'gateway.yaml',
    timeout_seconds: 10,
    running: undefined,
  } as unknown as Host;
  const { diagnoses } = await diagnoseDatabase(host);
  return diagnoses
    .filter(({ verdict }) => verdict !== 'ok')
    .map(({ id, verdict, found }) => `${verdict} ${id}: ${found}`);
}

test('faults of a real database are found, none in one that the gateway created, and one that is away is one failure', async () => {
  assert.deepEqual(await wrong(), []);
  const few = await wrongWith('connection limit 4', 'connection limit -1');
  assert.match(few, /^failed database\.connections: \d of 4 in use \(the connection limit of the database\)/);
  const nowhere = await wrongWith('set search_path = nowhere', 'reset search_path');
  assert.match(nowhere, /^failed database\.reach: PostgreSQL .* \S+ cannot use any schema/m);
  const url = new URL(database.url);
  url.pathname = '/no_such_database';
  const found = await wrong(url.href);
  assert.deepEqual(found, ['failed database.reach: the database does not exist']);
});
