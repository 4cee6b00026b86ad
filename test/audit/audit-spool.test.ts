import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock as clock } from '../../engine/base/kit/clock.ts';
import type { Database } from '../../engine/base/store/database.ts';
import { OpenAuditLog } from '../../engine/domain/audit/audit-log.ts';
import { DatabaseLedger } from '../../engine/domain/budget/ledger/ledger.ts';
import { SpoolingLedger } from '../../engine/domain/budget/spool/spooling-ledger.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { away, deadProcess, fakeLedger } from '../support/spool.ts';
import { quietLog, useTestStore } from '../support/store.ts';

const never = () => () => {};
const root = ownDirectory();

const { database, ledgers } = useTestStore();

/** An audit log with its spool; `fault.now` is the error of its database. */
async function openBoth(directory: string, more: { is_dead?: boolean; max_bytes?: number } = {}) {
  const fault: { now: Error | undefined } = { now: undefined };
  const query: Database['query'] = async (...statement) => {
    if (fault.now !== undefined) throw fault.now;
    return database.query(...statement);
  };
  const behind = new DatabaseLedger({ database, clock, log: quietLog, every: never });
  ledgers.push(behind);
  const spool = new SpoolingLedger({
    ledger: { ...fakeLedger(), databaseId: () => behind.databaseId() },
    spool_dir: () => directory,
    clock,
    log: quietLog,
    every: never,
    writeRecords: (texts, database_id) => audit.writeAgain(texts, database_id),
    ...(more.is_dead && { process: deadProcess() }),
    ...(more.max_bytes !== undefined && { max_bytes: more.max_bytes }),
  });
  const audit = new OpenAuditLog({ database: { query }, clock, log: quietLog, every: never, spool });
  await spool.adoptOrphans();
  return { audit, spool, behind, fault };
}

async function writtenIn(prefix: string): Promise<string[]> {
  const rows = await database.query<{ request_id: string }>(
    'test_audit_of',
    'select request_id from audit_log where request_id like $1 order by id',
    [`${prefix}%`],
  );
  return rows.map(({ request_id }) => request_id);
}

const idsOf = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

test('audit records of a long outage are on the disk, and in the log in their order when the database is back', async () => {
  const directory = join(root, 'long');
  const { audit, spool, fault } = await openBoth(directory);
  const ids = idsOf('long-', 20_000);
  fault.now = away();
  for (const [i, request_id] of ids.entries()) {
    audit.write({ request_id });
    if (i % 1000 === 999) await audit.flush();
  }
  assert.equal(spool.depth.records, ids.length, 'all are on the disk, none in memory alone');
  fault.now = undefined;
  audit.write({ request_id: 'long-last' });
  await audit.flush();
  await spool.drain();
  assert.deepEqual(await writtenIn('long-'), [...ids, 'long-last']);
  assert.deepEqual(readdirSync(directory), []);
  await audit.close();
  await spool.close();
});

test('audit records of a gateway that was killed are written by the next one, each once', async () => {
  const directory = join(root, 'killed');
  const dead = await openBoth(directory, { is_dead: true });
  const ids = idsOf('killed-', 700);
  // One of them had arrived, and nobody heard of it.
  await dead.audit.writeAgain(
    [JSON.stringify({ at_ms: 0, request_id: ids[3], record: { request_id: ids[3] } })],
    await dead.behind.databaseId(),
  );
  dead.fault.now = away();
  for (const request_id of ids) dead.audit.write({ request_id });
  await dead.audit.flush();
  const next = await openBoth(directory);
  await next.spool.adoptOrphans();
  await next.spool.drain();
  assert.deepEqual((await writtenIn('killed-')).sort(), ids.sort());
  assert.deepEqual(readdirSync(directory), []);
  await dead.spool.close();
});

test('a gateway that ends while the database is away leaves its audit records on the disk', async () => {
  const directory = join(root, 'ended');
  const ended = await openBoth(directory);
  ended.fault.now = away();
  for (const request_id of idsOf('ended-', 30)) ended.audit.write({ request_id });
  await ended.audit.close();
  await ended.spool.close();
  const next = await openBoth(directory);
  await next.spool.adoptOrphans();
  await next.spool.drain();
  assert.equal((await writtenIn('ended-')).length, 30);
});

test('a spool that is full keeps audit records in memory instead', async () => {
  const { audit, spool, fault } = await openBoth(join(root, 'full'), { max_bytes: 1 });
  fault.now = away();
  for (const request_id of idsOf('full-', 2)) {
    audit.write({ request_id });
    await audit.flush();
  }
  assert.equal(spool.depth.records, 1, 'the first found room');
  fault.now = undefined;
  await spool.drain();
  await audit.flush();
  assert.deepEqual(await writtenIn('full-'), idsOf('full-', 2));
});
