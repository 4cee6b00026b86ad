import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { OpenAuditLog } from '../../../engine/audit/audit-log.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { SpoolingLedger } from '../../../engine/money/spool/spooling-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import { away, byRequest, deadProcess } from '../../support/spool.ts';
import { ledgerRowsOf, openTestStore, quietLog, reservation, settlement, type TestStore } from '../../support/store.ts';

const never = () => () => {};
const root = mkdtempSync(join(tmpdir(), 'appscli-spool-databases-'));
const closing: { close(): Promise<unknown> }[] = [];
let [ours, theirs]: TestStore[] = [];
before(async () => {
  [ours, theirs] = await Promise.all([openTestStore(), openTestStore()]);
  // Databases of tests are copies of one; a database that is made anew has an id of its own.
  await theirs.database.knex.raw('update database_identity set id = gen_random_uuid()').catch(() => {});
});
after(async () => {
  for (const each of closing.reverse()) await each.close();
  await ours?.close();
  await theirs?.close();
  rmSync(root, { recursive: true });
});

/** A gateway whose database is what `is_at.now` says; it has been there once. */
async function openGateway(directory: string, at: TestStore, { is_dead = false } = {}) {
  const is_at: { now: Pick<Database, 'query'> | undefined } = { now: at.database };
  const database: Pick<Database, 'query'> = {
    async query(...statement) {
      if (is_at.now === undefined) throw away();
      return is_at.now.query(...statement);
    },
  };
  const logged: Record<string, unknown>[] = [];
  const log = { ...quietLog, warn: (fields: object, text: string) => void logged.push({ text, ...fields }) };
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const behind = new DatabaseLedger({ database, clock, log: quietLog, every: never });
  const audit = new OpenAuditLog({ database, clock, log: quietLog, every: never });
  const spooling = new SpoolingLedger({
    ledger: behind,
    spool_dir: () => directory,
    clock,
    log,
    every: never,
    writeRecords: (texts, database_id) => audit.writeAgain(texts, database_id),
    ...(is_dead && { process: deadProcess() }),
  });
  const ledger = byRequest(spooling);
  closing.push(behind, ledger);
  await ledger.adoptOrphans();
  return {
    ledger,
    is_at,
    logged,
    /** Lets a request of somebody out while the database is away. */
    async letOut(user: string) {
      const before = is_at.now;
      is_at.now = undefined;
      const request = reservation({ user, on_store_error: 'allow' });
      assert.ok((await ledger.reserve(request)).unreserved);
      await ledger.settle(settlement(request));
      await ledger.keepRecords([JSON.stringify({ at_ms: 0, request_id: `of ${user}`, record: { user } })]);
      is_at.now = before;
    },
    async drain() {
      await ledger.adoptOrphans();
      await ledger.drain();
    },
  };
}

/** How many ledger rows and audit records somebody has in a database. */
async function foundOf({ database }: TestStore, user: string): Promise<readonly [number, number]> {
  const rows = await ledgerRowsOf(database, user);
  const records = await database.query('test_records', 'select from audit_log where request_id = $1', [`of ${user}`]);
  return [rows.length, records.length];
}

const directoryOf = () => mkdtempSync(join(root, 'spool-'));

test('what a gateway left is never written to the database of another that shares the directory, which names it once', async () => {
  const directory = directoryOf();
  const left = await openGateway(directory, ours!, { is_dead: true });
  await left.letOut('left');
  const [name] = readdirSync(directory);
  const other = await openGateway(directory, theirs!);
  await other.drain();
  await other.drain();
  assert.deepEqual(await foundOf(theirs!, 'left'), [0, 0]);
  assert.deepEqual(readdirSync(directory), [name], 'it is where it was');
  const told = other.logged.filter((entry) => entry.name === name);
  assert.deepEqual(
    told.map(({ text }) => text),
    ['a spool file of another database is left alone'],
  );
  const successor = await openGateway(directory, ours!);
  await successor.drain();
  assert.deepEqual(await foundOf(ours!, 'left'), [1, 1]);
  assert.deepEqual(readdirSync(directory), []);
});

test('a gateway that ends in order leaves files that only gateways of its database take over', async () => {
  const directory = directoryOf();
  const left = await openGateway(directory, ours!);
  await left.letOut('orderly');
  left.is_at.now = undefined;
  await left.ledger.close();
  const other = await openGateway(directory, theirs!);
  await other.drain();
  const successor = await openGateway(directory, ours!);
  await successor.drain();
  assert.deepEqual(await foundOf(theirs!, 'orderly'), [0, 0]);
  assert.deepEqual(await foundOf(ours!, 'orderly'), [1, 1]);
});

test('what went out before another database took the place of the first waits for the first', async () => {
  const directory = directoryOf();
  const gateway = await openGateway(directory, ours!);
  await gateway.letOut('replaced');
  gateway.is_at.now = theirs!.database;
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs!, 'replaced'), [0, 0]);
  assert.equal(gateway.ledger.records, 0, 'later records do not wait for those of another database');
  await gateway.letOut('of the new one');
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs!, 'of the new one'), [1, 1]);
  gateway.is_at.now = ours!.database;
  await gateway.drain();
  assert.deepEqual(await foundOf(ours!, 'replaced'), [1, 1]);
  assert.deepEqual(await foundOf(ours!, 'of the new one'), [0, 0]);
  assert.deepEqual(readdirSync(directory), []);
});

test('a database that is exchanged between the question which it is and the row is not written to', async () => {
  const directory = directoryOf();
  const gateway = await openGateway(directory, ours!);
  await gateway.letOut('between');
  const { database } = ours!;
  gateway.is_at.now = {
    async query(name, ...more) {
      return (name === 'database_identity' ? database : theirs!.database).query(name, ...more);
    },
  };
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs!, 'between'), [0, 0]);
  gateway.is_at.now = database;
  await gateway.drain();
  assert.deepEqual(await foundOf(ours!, 'between'), [1, 1]);
});

test('a database whose tables somebody emptied is another one, and what was kept for it waits', async () => {
  const store = await openTestStore();
  closing.push(store);
  const directory = directoryOf();
  const gateway = await openGateway(directory, store);
  await gateway.letOut('emptied');
  await store.database.knex.raw('truncate database_identity');
  await gateway.drain();
  assert.deepEqual(await foundOf(store, 'emptied'), [0, 0]);
  await gateway.letOut('anew');
  await gateway.drain();
  assert.deepEqual(await foundOf(store, 'anew'), [1, 1]);
});

test('a database that was moved or restored is known again', async () => {
  const directory = directoryOf();
  const left = await openGateway(directory, ours!, { is_dead: true });
  await left.letOut('moved');
  // Other connections, as if it had another address.
  const moved = { ...ours!, database: await ours!.another() };
  const successor = await openGateway(directory, moved);
  await successor.drain();
  assert.deepEqual(await foundOf(ours!, 'moved'), [1, 1]);
});

test('a gateway that never reached its database lets nothing out, for it does not know whose it would be', async () => {
  const directory = directoryOf();
  const behind = new DatabaseLedger({
    database: { query: () => Promise.reject(away()) },
    clock: frozenClock(0),
    log: quietLog,
    every: never,
  });
  const ledger = new SpoolingLedger({
    ledger: behind,
    spool_dir: () => directory,
    clock: frozenClock(0),
    log: quietLog,
    every: never,
  });
  closing.push(behind, ledger);
  await ledger.adoptOrphans();
  await assert.rejects(ledger.reserve(reservation({ on_store_error: 'allow' })), {
    code: 'store_unavailable',
    message: /the database was not reached since the start/,
  });
  assert.equal(await ledger.probe(), false);
});
