import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import type { ChargedAttempt } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { OpenAuditLog } from '../../../engine/domain/audit/audit-log.ts';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { SpoolingLedger } from '../../../engine/domain/budget/spool/spooling-ledger.ts';
import { away, byRequest, deadProcess } from '../../support/spool.ts';
import {
  balanceOf,
  countersOf,
  ledgerRowsOf,
  openTestStore,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  type TestStore,
  userDemand,
  useTestStore,
} from '../../support/store.ts';

const never = () => () => {};
const root = mkdtempSync(join(tmpdir(), 'appscli-spooling-store-'));
after(() => rmSync(root, { recursive: true }));

let database: Database;
const ledgers = useTestStore((opened) => {
  database = opened.database;
});

const others: TestStore[] = [];
let theirs: TestStore;
before(async () => {
  theirs = await openTestStore();
  others.push(theirs);
  // Databases of tests are copies of one; a database that is made anew has an id of its own.
  await theirs.database.knex.raw('update database_identity set id = gen_random_uuid()').catch(() => {});
});
after(() => Promise.all(others.map((store) => store.close())));

/** A gateway whose database is what `is_at.now` says; `failure` is its error while it is set. It has been there once. */
async function openGateway(more: {
  directory: string;
  clock?: FrozenClock;
  at?: Pick<Database, 'query'>;
  failure?: { now: Error | undefined };
  is_dead?: boolean;
}) {
  const { directory, clock = frozenClock('2026-03-10T12:00:00Z'), at = database, failure, is_dead } = more;
  const is_at: { now: Pick<Database, 'query'> | undefined } = { now: at };
  let opened = false;
  const through: Pick<Database, 'query'> = {
    async query(...statement) {
      if (opened && failure?.now !== undefined) throw failure.now;
      if (is_at.now === undefined) throw away();
      return is_at.now.query(...statement);
    },
  };
  const logged: Record<string, unknown>[] = [];
  const log = { ...quietLog, warn: (fields: object, text: string) => void logged.push({ text, ...fields }) };
  const behind = new DatabaseLedger({ database: through, clock, log: quietLog, every: never });
  const audit = new OpenAuditLog({ database: through, clock, log: quietLog, every: never });
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
  ledgers.push(behind, ledger);
  await ledger.adoptOrphans();
  opened = true;
  return {
    ledger,
    behind,
    is_at,
    logged,
    /** Lets a caller's request out while the database is away. */
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

const scene = () => ({
  directory: mkdtempSync(join(root, 'spool-')),
  clock: frozenClock('2026-03-31T23:30:00Z'),
  failure: { now: away() as Error | undefined },
});

it('an unconfirmed reservation stays with its request and is settled with it', async () => {
  const { directory, clock } = scene();
  const { ledger, behind } = await openGateway({
    directory,
    clock,
    at: spoiltStore(database, 'reserve', 1, 'after'),
  });
  const request = reservation({ user: 'unheard', on_store_error: 'allow' });
  assert.ok((await ledger.reserve(request)).unreserved);
  await behind.beat();
  assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 0, reserved: 100 });
  await ledger.settle(settlement(request));
  await ledger.drain();
  assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 60, reserved: 0 });
  assert.equal((await ledgerRowsOf(database, 'unheard')).length, 1);
});

it('an unconfirmed reservation is released when its request never left', async () => {
  const { directory, clock } = scene();
  const { ledger, behind } = await openGateway({
    directory,
    clock,
    at: spoiltStore(database, 'reserve', 1, 'after'),
  });
  const request = reservation({ user: 'stayed', on_store_error: 'allow' });
  assert.ok((await ledger.reserve(request)).unreserved);
  await ledger.release(request.request_id);
  await behind.beat();
  assert.deepEqual(await balanceOf(database, 'stayed'), { spent: 0, reserved: 0 });
  assert.deepEqual(readdirSync(directory), []);
});

it('a row committed despite a lost response exists once', async () => {
  const { directory, clock, failure } = scene();
  const lossy = spoiltStore(database, 'settle', 1, 'after');
  const { ledger } = await openGateway({ directory, clock, failure, at: lossy });
  const request = reservation({ user: 'again', on_store_error: 'allow' });
  await ledger.reserve(request);
  await ledger.settle(settlement(request));
  failure.now = undefined;
  await ledger.drain();
  assert.equal(readdirSync(directory).length, 1, 'the outage is unknown yet');
  await ledger.drain();
  assert.deepEqual(readdirSync(directory), []);
  assert.deepEqual(await balanceOf(database, 'again'), { spent: 60, reserved: 0 });
  assert.equal((await ledgerRowsOf(database, 'again')).length, 1);
});

it("a process's leftovers are in the ledger once, even if the reservation is an orphan", async () => {
  const { directory, clock } = scene();
  const lossy = spoiltStore(database, 'reserve', 1, 'after');
  const dead = await openGateway({ directory, clock, at: lossy, is_dead: true });
  const request = reservation({ user: 'orphan', most_nano_usd: 100, on_store_error: 'allow' });
  await dead.ledger.reserve(request);
  await dead.ledger.settle(settlement(request));
  const [orphans, spools] = [await openGateway({ directory, clock }), await openGateway({ directory, clock })];
  clock.advance(31_000);
  await orphans.behind.beat();
  await Promise.all([
    orphans.behind.recover(),
    spools.ledger.adoptOrphans().then(() => spools.ledger.drain()),
    orphans.ledger.adoptOrphans().then(() => orphans.ledger.drain()),
  ]);
  // Where the estimate was first, a second row corrects it.
  const kinds = (await database.knex('ledger').where({ request_id: request.request_id })).map(({ kind }) => kind);
  assert.match(kinds.sort().join(), /^(adjustment,)?request$/);
  assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 60, reserved: 0 });
});

it('writes waiting rows in batches, each with the time it was forwarded', async () => {
  const directory = join(root, 'many');
  const clock = frozenClock('2027-03-14T23:58:00Z');
  const failure = { now: away() as Error | undefined };
  let statements = 0;
  const counted: Pick<Database, 'query'> = {
    query(name, text, values) {
      statements++;
      return database.query(name, text, values);
    },
  };
  const { ledger, behind } = await openGateway({ directory, clock, failure, at: counted });
  const forwarded: string[] = [];
  for (let i = 0; i < 600; i++) {
    const request = reservation({ user: 'many', demands: [userDemand('many', null)], on_store_error: 'allow' });
    await ledger.reserve(request);
    await ledger.settle(settlement(request));
    forwarded.push(new Date(clock.now()).toISOString());
    clock.advance(1000);
  }
  failure.now = undefined;
  await ledger.drain();
  assert.ok(statements < 15, `${statements} statements`);
  const rows = await ledgerRowsOf(database, 'many');
  const times = rows.map((row) => new Date((row as unknown as { forwarded_at: Date }).forwarded_at).toISOString());
  assert.deepEqual(times.sort(), forwarded);
  const days = await countersOf(database, 'many');
  assert.equal(days.length, 2, 'one for the day before midnight, one for the day after');
  const { differences } = await verifyLedger({ database, clock });
  assert.deepEqual(differences, { total: 0, first: [] });
  await ledger.close();
  await behind.close();
});

/** A request that went out while the store was away, first to main, where it may be billed, then to spare. */
async function movedWhileAway(ledger: Awaited<ReturnType<typeof openGateway>>['ledger'], user: string) {
  const request = (upstream: string) => {
    const demands = [userDemand(user, 500), { ...userDemand(`${user}-${upstream}`, 500), scope: 'upstream' }];
    return reservation({ request_id: user, user, upstream, demands, on_store_error: 'allow' });
  };
  const { reservation: reserved } = await ledger.reserve(request('main'));
  await reserved!.move(request('spare'), [MAIN]);
  return { reserved: reserved!, request: request('spare') };
}
const MAIN: ChargedAttempt = {
  ...{ n: 1, upstream: 'main', upstream_model: 'coder-1', certainty: 'possibly_accepted', status: null },
  ...{ outcome: 'unanswered', reason: 'next_unconfirmed', sends: 1, ms: 3, cost_nano_usd: 30, provenance: 'possible' },
};

it("money of a moved request counts at each upstream's share", async () => {
  const { directory, clock, failure } = scene();
  const { ledger } = await openGateway({ directory, clock, failure });
  const { reserved, request } = await movedWhileAway(ledger, 'mover');
  const spare = { ...MAIN, n: 2, upstream: 'spare', outcome: 'answered', cost_nano_usd: 60 };
  await reserved.settle(settlement(request, { cost_nano_usd: 90, attempts: [MAIN, spare] }));
  failure.now = undefined;
  await ledger.drain();
  const spent = async (key: string) => (await balanceOf(database, key)).spent;
  assert.deepEqual([await spent('mover'), await spent('mover-main'), await spent('mover-spare')], [90, 30, 60]);
  const { differences, attempts } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.total, attempts.total], [0, 0]);
});

it('a request that moved is estimated with its earlier attempts when its process dies', async () => {
  const { directory, clock, failure } = scene();
  const { ledger } = await openGateway({ directory, clock, failure, is_dead: true });
  await movedWhileAway(ledger, 'lost');
  failure.now = undefined;
  const { ledger: heir } = await openGateway({ directory, clock });
  await heir.adoptOrphans();
  await heir.drain();
  const spent = async (key: string) => (await balanceOf(database, key)).spent;
  assert.deepEqual([await spent('lost'), await spent('lost-main'), await spent('lost-spare')], [130, 30, 100]);
  const { differences, attempts } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.total, attempts.total], [0, 0]);
});

/** How many ledger rows and audit records a caller has in a database. */
async function foundOf(at: Database, user: string): Promise<readonly [number, number]> {
  const rows = await ledgerRowsOf(at, user);
  const records = await at.query('test_records', 'select from audit_log where request_id = $1', [`of ${user}`]);
  return [rows.length, records.length];
}

const directoryOf = () => mkdtempSync(join(root, 'spool-'));

it('leftovers are never written to the database of another gateway on the directory, which reports it once', async () => {
  const directory = directoryOf();
  const left = await openGateway({ directory, is_dead: true });
  await left.letOut('left');
  const [name] = readdirSync(directory);
  const other = await openGateway({ directory, at: theirs.database });
  await other.drain();
  await other.drain();
  assert.deepEqual(await foundOf(theirs.database, 'left'), [0, 0]);
  assert.deepEqual(readdirSync(directory), [name], 'it is where it was');
  const reports = other.logged.filter((entry) => entry.name === name);
  assert.deepEqual(
    reports.map(({ text }) => text),
    ['a spool file belongs to another database; it is not read'],
  );
  const successor = await openGateway({ directory });
  await successor.drain();
  assert.deepEqual(await foundOf(database, 'left'), [1, 1]);
  assert.deepEqual(readdirSync(directory), []);
});

it('a gateway that stops in order leaves files that only gateways of its database take over', async () => {
  const directory = directoryOf();
  const left = await openGateway({ directory });
  await left.letOut('orderly');
  left.is_at.now = undefined;
  await left.ledger.close();
  const other = await openGateway({ directory, at: theirs.database });
  await other.drain();
  const successor = await openGateway({ directory });
  await successor.drain();
  assert.deepEqual(await foundOf(theirs.database, 'orderly'), [0, 0]);
  assert.deepEqual(await foundOf(database, 'orderly'), [1, 1]);
});

it('records from before a database replacement wait for the first database', async () => {
  const directory = directoryOf();
  const gateway = await openGateway({ directory });
  await gateway.letOut('replaced');
  gateway.is_at.now = theirs.database;
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs.database, 'replaced'), [0, 0]);
  assert.equal(gateway.ledger.has_records, false, 'later records do not wait for those of another database');
  await gateway.letOut('of the new one');
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs.database, 'of the new one'), [1, 1]);
  gateway.is_at.now = database;
  await gateway.drain();
  assert.deepEqual(await foundOf(database, 'replaced'), [1, 1]);
  assert.deepEqual(await foundOf(database, 'of the new one'), [0, 0]);
  assert.deepEqual(readdirSync(directory), []);
});

it('a database that is exchanged between the question which it is and the row is not written to', async () => {
  const directory = directoryOf();
  const gateway = await openGateway({ directory });
  await gateway.letOut('between');
  gateway.is_at.now = {
    async query(name, ...more) {
      return (name === 'database_identity' ? database : theirs.database).query(name, ...more);
    },
  };
  await gateway.drain();
  assert.deepEqual(await foundOf(theirs.database, 'between'), [0, 0]);
  gateway.is_at.now = database;
  await gateway.drain();
  assert.deepEqual(await foundOf(database, 'between'), [1, 1]);
});

it('an emptied database is a different one, and spooled records for the old one wait', async () => {
  const store = await openTestStore();
  others.push(store);
  const directory = directoryOf();
  const gateway = await openGateway({ directory, at: store.database });
  await gateway.letOut('emptied');
  await store.database.knex.raw('truncate database_identity');
  await gateway.drain();
  assert.deepEqual(await foundOf(store.database, 'emptied'), [0, 0]);
  await gateway.letOut('anew');
  await gateway.drain();
  assert.deepEqual(await foundOf(store.database, 'anew'), [1, 1]);
});

it('a gateway that never reached its database forwards nothing, as their owner would be unknown', async () => {
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
  ledgers.push(behind, ledger);
  await ledger.adoptOrphans();
  await assert.rejects(ledger.reserve(reservation({ on_store_error: 'allow' })), {
    code: 'store_unavailable',
    message: /the database has not been reached since the start/,
  });
  assert.equal(await ledger.probe(), false);
});
