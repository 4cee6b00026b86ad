import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, describe, it } from 'node:test';
import type { ChargedAttempt } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { StoreTimeout } from '../../../engine/base/store/store-errors.ts';
import { OpenAuditLog } from '../../../engine/domain/audit/audit-log.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { SpoolingLedger, type SpoolingLedgerOptions } from '../../../engine/domain/budget/spool/spooling-ledger.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import {
  away,
  byRequest,
  deadProcess,
  diskError,
  type FakeLedger,
  fakeLedger,
  faultyDisk,
} from '../../support/spool.ts';
import {
  balanceOf,
  countersOf,
  ledgerRowsOf,
  manualTimer,
  openTestStore,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  stillLedger,
  userDemand,
  useTestStore,
} from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';

const root = ownDirectory();
const opened: SpoolingLedger[] = [];
afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
});

const never = () => () => {};

async function openScene(more: Partial<SpoolingLedgerOptions> = {}) {
  const behind: FakeLedger = fakeLedger();
  const clock = frozenClock('2026-03-10T12:00:00Z');
  const directory = mkdtempSync(join(root, 'spool-'));
  const logged: string[] = [];
  const log = { ...quietLog, info: note, warn: note, error: note };
  function note(_: object, text: string) {
    logged.push(text);
  }
  const open = async (other: typeof more = {}) => {
    const spool_dir = () => directory;
    const options = { ledger: behind, spool_dir, clock, log, every: never, ...more, ...other };
    const ledger = byRequest(new SpoolingLedger(options));
    // It was there once, so that it is known whose the files are.
    await ledger.adoptOrphans();
    opened.push(ledger);
    return ledger;
  };
  return { behind, clock, directory, logged, open, ledger: await open(), files: () => readdirSync(directory) };
}

const allowed = () => reservation({ on_store_error: 'allow' });
const unavailable = { name: 'StageError', code: 'store_unavailable' };

/** A promise that settles on demand. */
function gate(): { promise: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { promise, open: resolve };
}

describe('while the store works', () => {
  it('everything goes to the ledger, and nothing to the disk', async () => {
    const { ledger, behind, files } = await openScene();
    const request = allowed();
    assert.equal((await ledger.reserve(request)).unreserved, false);
    ledger.topUp(request.request_id, 5);
    await ledger.settle(settlement(request));
    const other = allowed();
    await ledger.reserve(other);
    await ledger.release(other.request_id);
    assert.equal(ledger.typicalCost('ana', 'coder-1'), 7);
    assert.deepEqual(await ledger.statuses([]), []);
    assert.deepEqual(
      [behind.reserved.length, behind.settled.length, behind.released, behind.topped_up],
      [2, 1, [other.request_id], [request.request_id]],
    );
    assert.deepEqual([files(), behind.kept.size], [[], 0]);
  });

  it('an error that is none of the store is passed on', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new RangeError('no amount');
    await assert.rejects(ledger.reserve(allowed()), RangeError);
  });
});

describe('while the store is away', () => {
  it('it is known how much waits on the disk, and for how long nothing of it could be written', async () => {
    const { ledger, behind, clock } = await openScene();
    const { max_bytes, ...empty } = ledger.depth;
    assert.deepEqual(empty, { requests: 0, lag_ms: 0, records: 0, bytes: 0 });
    assert.equal(max_bytes, 256 * 1024 * 1024);
    behind.failure = away();
    clock.advance(60_000);
    await ledger.drain();
    const requests = [allowed(), allowed()];
    for (const request of requests) await ledger.reserve(request);
    for (const request of requests) await ledger.settle(settlement(request));
    await ledger.keepRecords(['{}']);
    clock.advance(5000);
    await ledger.drain();
    clock.advance(2000);
    const { bytes, ...depth } = ledger.depth;
    assert.deepEqual(depth, { requests: 2, lag_ms: 7000, records: 1, max_bytes });
    assert.ok(bytes > 100);
    behind.failure = undefined;
    await ledger.drain();
    assert.deepEqual([ledger.depth.requests, ledger.depth.lag_ms], [0, 0]);
  });

  it('a permitted request is forwarded, recorded before, and written once the store is back', async () => {
    const { ledger, behind, clock, files, logged } = await openScene();
    behind.failure = away();
    const request = allowed();
    const reserved = await ledger.reserve(request);
    const { reservation: _, ...decision } = reserved;
    assert.deepEqual(decision, { exceeded: [], shadows: [], statuses: [], unreserved: true });
    assert.equal(files().length, 1);
    assert.ok(behind.kept.has(request.request_id), 'its reservation may have been placed');
    ledger.topUp(request.request_id, 5);
    // Whatever the stage thinks it has.
    await ledger.settle(settlement(request, { reserved: true }));
    await ledger.drain();
    assert.equal(behind.rows.size, 0);
    behind.failure = undefined;
    await ledger.drain();
    assert.equal(behind.rows.get(request.request_id)!.settlement.cost_nano_usd, 60);
    assert.equal(behind.rows.get(request.request_id)!.at_ms, clock.now());
    assert.deepEqual([behind.settled, behind.topped_up, behind.kept.size, files()], [[], [], 0, []]);
    assert.deepEqual(logged, [
      'the database is unavailable; requests are forwarded without a reservation where limits allow it',
      'wrote spooled requests to the ledger',
    ]);
  });

  it('a request that never left after all leaves nothing', async () => {
    const { ledger, behind, files } = await openScene();
    behind.failure = away();
    const request = allowed();
    await ledger.reserve(request);
    await ledger.release(request.request_id);
    behind.failure = undefined;
    await ledger.drain();
    assert.deepEqual([behind.rows.size, behind.released, behind.kept.size, files()], [0, [], 0, []]);
  });

  it('and the disk fails too, the request is rejected with both reasons, and without a path', async () => {
    const disk = faultyDisk((operation) => (operation === 'write' ? { error: diskError('ENOSPC') } : undefined));
    const { ledger, behind } = await openScene({ disk });
    behind.failure = away();
    await assert.rejects(ledger.reserve(allowed()), {
      ...unavailable,
      message:
        'The gateway can use neither its database nor its spool (the disk buffer for outages): no space is left on its disk. Try again shortly; if the error persists, tell an administrator.',
    });
    assert.equal(behind.kept.size, 0);
  });

  it('leftovers stay for the next start, and writable ones are written', async () => {
    const { ledger, behind, open, files } = await openScene();
    behind.failure = away();
    const requests = [allowed(), allowed()];
    for (const request of requests) await ledger.reserve(request);
    await ledger.settle(settlement(requests[0]!));
    await ledger.close();
    assert.equal(files().length, 1);
    behind.failure = undefined;
    const next = await open();
    await next.adoptOrphans();
    await next.close();
    assert.deepEqual([behind.rows.size, files()], [2, []]);
  });
});

describe('the wait for a store that is away', () => {
  it('delays one request at a time; other permitted ones go out at once', async () => {
    const { ledger, behind, clock } = await openScene();
    behind.failure = away();
    await ledger.reserve(allowed());
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const probe = ledger.reserve(allowed());
    const others = await Promise.all([ledger.reserve(allowed()), ledger.reserve(allowed())]);
    assert.ok(others.every(({ unreserved }) => unreserved));
    assert.equal(behind.reserved.length, 2);
    open();
    assert.ok((await probe).unreserved);
    assert.ok((await ledger.reserve(allowed())).unreserved);
    assert.equal(behind.reserved.length, 2, 'no retry within a second');
    clock.advance(1000);
    await ledger.reserve(allowed());
    assert.equal(behind.reserved.length, 3);
  });

  it('is skipped for a request that may not leave, once a retry has failed', async () => {
    const { ledger, behind, clock } = await openScene();
    behind.failure = away();
    for (let i = 0; i < 5; i++) await assert.rejects(ledger.reserve(reservation()), unavailable);
    assert.equal(behind.reserved.length, 2);
    clock.advance(1000);
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const probe = ledger.reserve(reservation());
    await assert.rejects(ledger.reserve(reservation()), { ...unavailable, message: away().message });
    behind.failure = undefined;
    open();
    await probe;
    await Promise.all([ledger.reserve(reservation()), ledger.reserve(reservation())]);
    assert.equal(behind.reserved.length, 5);
  });

  it('delays every request while the store is busy and answers other queries', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new StoreTimeout();
    for (let i = 1; i <= 5; i++) {
      await assert.rejects(ledger.reserve(reservation()), unavailable);
      assert.equal(behind.reserved.length, i, 'it got a request');
    }
  });

  it('is skipped once a retry has failed after the first wait, while the store returns nothing at all', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = new StoreTimeout();
    behind.databaseId = () => new Promise(() => {});
    for (let i = 0; i < 5; i++) await assert.rejects(ledger.reserve(reservation()), unavailable);
    assert.equal(behind.reserved.length, 3, 'the first, one that shows it, and a retry');
    behind.failure = undefined;
  });

  it('is not extended by one lost connection: requests wait for the one that retries', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = away();
    await assert.rejects(ledger.reserve(reservation()), unavailable);
    behind.failure = undefined;
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const all = [1, 2, 3].map(() => ledger.reserve(reservation()));
    assert.equal(behind.reserved.length, 2);
    open();
    await Promise.all(all);
  });

  it('is over for all as soon as a row could be written', async () => {
    const { ledger, behind } = await openScene();
    behind.failure = away();
    const request = allowed();
    await ledger.reserve(request);
    await ledger.reserve(allowed());
    await ledger.settle(settlement(request));
    behind.failure = undefined;
    await ledger.drain();
    assert.equal((await ledger.reserve(reservation())).unreserved, false);
  });

  it('does not restart for a request from before the store was back', async () => {
    const { ledger, behind } = await openScene();
    const { promise, open } = gate();
    behind.onReserve = () => promise;
    const old = ledger.reserve(allowed());
    behind.onReserve = async () => {};
    behind.failure = away();
    await ledger.reserve(allowed());
    behind.failure = undefined;
    await ledger.reserve(reservation());
    behind.failure = away();
    open();
    assert.ok((await old).unreserved);
    behind.failure = undefined;
    const { promise: blocked, open: letOn } = gate();
    behind.onReserve = () => blocked;
    const both = [ledger.reserve(reservation()), ledger.reserve(reservation())];
    assert.equal(behind.reserved.length, 5, 'both ask at once');
    letOn();
    await Promise.all(both);
  });
});

it('a disk that cannot be used is in the log from the start on, where it would be needed', async () => {
  for (const needed of [true, false]) {
    const { open, directory, logged, files } = await openScene();
    const { every, tick } = manualTimer();
    const look = async (more: object) => {
      const ledger = await open({ every, needed: () => needed, ...more });
      tick();
      await ledger.close();
    };
    await look({});
    await until('it has been tried out', () => files().length === 0);
    assert.equal(logged.length, 0);
    await look({ spool_dir: () => join(directory, '\0') });
    if (needed) await until('it is in the log', () => logged.includes('the spool cannot be written to'));
    else assert.equal(logged.length, 0);
  }
});

const theirs = use(openTestStore);
const other = use(openTestStore);
const { database, ledgers } = useTestStore();

before(async () => {
  // Databases of tests are copies of one; a database that is made anew has an id of its own.
  await theirs.database.knex.raw('update database_identity set id = gen_random_uuid()').catch(() => {});
});

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
  const behind = stillLedger(through, clock);
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

/** A request that went out after the reply to its reservation was lost. */
async function unconfirmed(user: string, directory: string, clock: FrozenClock) {
  const at = spoiltStore(database, 'reserve', 1, 'after');
  const { ledger, behind } = await openGateway({ directory, clock, at });
  const request = reservation({ user, on_store_error: 'allow' });
  assert.ok((await ledger.reserve(request)).unreserved);
  return { ledger, behind, request };
}

it('an unconfirmed reservation stays with its request and is settled with it', async () => {
  const { directory, clock } = scene();
  const { ledger, behind, request } = await unconfirmed('unheard', directory, clock);
  await behind.beat();
  assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 0, reserved: 100 });
  await ledger.settle(settlement(request));
  await ledger.drain();
  assert.deepEqual(await balanceOf(database, 'unheard'), { spent: 60, reserved: 0 });
  assert.equal((await ledgerRowsOf(database, 'unheard')).length, 1);
});

it('an unconfirmed reservation is released when its request never left', async () => {
  const { directory, clock } = scene();
  const { ledger, behind, request } = await unconfirmed('stayed', directory, clock);
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

/** What a user and their two upstreams have spent, and that it adds up. */
async function assertSpent(clock: FrozenClock, user: string, expected: readonly number[]): Promise<void> {
  const balances = [user, `${user}-main`, `${user}-spare`].map((key) => balanceOf(database, key));
  assert.deepEqual(
    (await Promise.all(balances)).map(({ spent }) => spent),
    expected,
  );
  const { differences, attempts } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.total, attempts.total], [0, 0]);
}

it("money of a moved request counts at each upstream's share", async () => {
  const { directory, clock, failure } = scene();
  const { ledger } = await openGateway({ directory, clock, failure });
  const { reserved, request } = await movedWhileAway(ledger, 'mover');
  const spare = { ...MAIN, n: 2, upstream: 'spare', outcome: 'answered', cost_nano_usd: 60 };
  await reserved.settle(settlement(request, { cost_nano_usd: 90, attempts: [MAIN, spare] }));
  failure.now = undefined;
  await ledger.drain();
  await assertSpent(clock, 'mover', [90, 30, 60]);
});

it('a request that moved is estimated with its earlier attempts when its process dies', async () => {
  const { directory, clock, failure } = scene();
  const { ledger } = await openGateway({ directory, clock, failure, is_dead: true });
  await movedWhileAway(ledger, 'lost');
  failure.now = undefined;
  await (await openGateway({ directory, clock })).drain();
  await assertSpent(clock, 'lost', [130, 30, 100]);
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
  const [report, ...others] = other.logged.filter((entry) => entry.name === name);
  assert.deepEqual([report?.text, others], ['a spool file belongs to another database; it is not read', []]);
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
  const directory = directoryOf();
  const gateway = await openGateway({ directory, at: other.database });
  await gateway.letOut('emptied');
  await other.database.knex.raw('truncate database_identity');
  await gateway.drain();
  assert.deepEqual(await foundOf(other.database, 'emptied'), [0, 0]);
  await gateway.letOut('anew');
  await gateway.drain();
  assert.deepEqual(await foundOf(other.database, 'anew'), [1, 1]);
});

it('a gateway that never reached its database forwards nothing, as their owner would be unknown', async () => {
  const directory = directoryOf();
  const { ledger } = await openGateway({ directory, at: { query: () => Promise.reject(away()) } });
  await assert.rejects(ledger.reserve(reservation({ on_store_error: 'allow' })), {
    code: 'store_unavailable',
    message: /the database has not been reached since the start/,
  });
  assert.equal(await ledger.probe(), false);
});
