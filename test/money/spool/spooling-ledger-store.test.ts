import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import type { ChargedAttempt } from '../../../engine/api.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import type { Books } from '../../../engine/money/ledger/reservation.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import { SpoolingLedger } from '../../../engine/money/spool/spooling-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import { away, byRequest, deadProcess } from '../../support/spool.ts';
import {
  balanceOf,
  countersOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  spoiltStore,
  teamDemand,
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

interface Gateway {
  readonly ledger: SpoolingLedger & Books;
  readonly behind: DatabaseLedger;
}

/** A gateway; `trouble` is what its database answers with while it is set. */
async function openGateway(more: {
  directory: string;
  clock: FrozenClock;
  database?: Pick<Database, 'query'>;
  trouble?: { now: Error | undefined };
  is_dead?: boolean;
}): Promise<Gateway> {
  const { directory, clock, trouble } = more;
  const store = more.database ?? database;
  let opened = false;
  const query: Database['query'] = async (...statement) => {
    if (opened && trouble?.now !== undefined) throw trouble.now;
    return store.query(...statement);
  };
  const behind = new DatabaseLedger({ database: { query }, clock, log: quietLog, every: never });
  const spooling = new SpoolingLedger({
    ledger: behind,
    spool_dir: () => directory,
    clock,
    log: quietLog,
    every: never,
    ...(more.is_dead && { process: deadProcess() }),
  });
  const ledger = byRequest(spooling);
  ledgers.push(behind, ledger);
  await ledger.adoptOrphans();
  opened = true;
  return { ledger, behind };
}

const scene = () => ({
  directory: mkdtempSync(join(root, 'spool-')),
  clock: frozenClock('2026-03-31T23:30:00Z'),
  trouble: { now: away() as Error | undefined },
});

it('money counts in the windows of the time at which the request went out', async () => {
  const { directory, clock, trouble } = scene();
  const { ledger } = await openGateway({ directory, clock, trouble });
  const demands = [userDemand('vic', 500), teamDemand('vics', 900)];
  const request = reservation({ user: 'vic', team: 'vics', demands, on_store_error: 'allow' });
  assert.ok((await ledger.reserve(request)).unreserved);
  await ledger.settle(settlement(request));
  clock.advance(3_600_000);
  trouble.now = undefined;
  await ledger.drain();
  assert.deepEqual(await countersOf(database, 'vic'), [
    { window_kind: 'day', window_start: '2026-03-31T00:00:00.000Z', spent: 60, reserved: 0 },
  ]);
  assert.deepEqual(await countersOf(database, 'vics'), [
    { window_kind: 'month', window_start: '2026-03-01T00:00:00.000Z', spent: 60, reserved: 0 },
  ]);
  const { differences } = await verifyLedger({ database, clock });
  assert.equal(differences.total, 0);
});

it('a reservation that was placed although nobody heard of it stays with its request, and is settled with it', async () => {
  const { directory, clock } = scene();
  const { ledger, behind } = await openGateway({
    directory,
    clock,
    database: spoiltStore(database, 'reserve', 1, 'after'),
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

it('a reservation that was placed although nobody heard of it is given back when its request never left', async () => {
  const { directory, clock } = scene();
  const { ledger, behind } = await openGateway({
    directory,
    clock,
    database: spoiltStore(database, 'reserve', 1, 'after'),
  });
  const request = reservation({ user: 'stayed', on_store_error: 'allow' });
  assert.ok((await ledger.reserve(request)).unreserved);
  await ledger.release(request.request_id);
  await behind.beat();
  assert.deepEqual(await balanceOf(database, 'stayed'), { spent: 0, reserved: 0 });
  assert.deepEqual(readdirSync(directory), []);
});

it('a row that was committed although the answer got lost is there once', async () => {
  const { directory, clock, trouble } = scene();
  const lossy = spoiltStore(database, 'settle', 1, 'after');
  const { ledger } = await openGateway({ directory, clock, trouble, database: lossy });
  const request = reservation({ user: 'again', on_store_error: 'allow' });
  await ledger.reserve(request);
  await ledger.settle(settlement(request));
  trouble.now = undefined;
  await ledger.drain();
  assert.equal(readdirSync(directory).length, 1, 'nobody knows yet');
  await ledger.drain();
  assert.deepEqual(readdirSync(directory), []);
  assert.deepEqual(await balanceOf(database, 'again'), { spent: 60, reserved: 0 });
  assert.equal((await ledgerRowsOf(database, 'again')).length, 1);
});

it('what a process left is in the ledger once, also when its reservation was placed and counts as an orphan', async () => {
  const { directory, clock } = scene();
  const lossy = spoiltStore(database, 'reserve', 1, 'after');
  const dead = await openGateway({ directory, clock, database: lossy, is_dead: true });
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
  // Where the estimate came first, a second row puts it right.
  const kinds = (await database.knex('ledger').where({ request_id: request.request_id })).map(({ kind }) => kind);
  assert.match(kinds.sort().join(), /^(adjustment,)?request$/);
  assert.deepEqual(await balanceOf(database, 'orphan'), { spent: 60, reserved: 0 });
});

it('writes what waits many rows at a time, each with the time it was forwarded', async () => {
  const directory = join(root, 'many');
  const clock = frozenClock('2027-03-14T23:58:00Z');
  const trouble = { now: away() as Error | undefined };
  let statements = 0;
  const counted: Pick<Database, 'query'> = {
    query(name, text, values) {
      statements++;
      return database.query(name, text, values);
    },
  };
  const { ledger, behind } = await openGateway({ directory, clock, trouble, database: counted });
  const forwarded: string[] = [];
  for (let i = 0; i < 600; i++) {
    const request = reservation({ user: 'many', demands: [userDemand('many', null)], on_store_error: 'allow' });
    await ledger.reserve(request);
    await ledger.settle(settlement(request));
    forwarded.push(new Date(clock.now()).toISOString());
    clock.advance(1000);
  }
  trouble.now = undefined;
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
async function movedWhileAway(ledger: Gateway['ledger'], user: string) {
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

it('money of a request that moved counts at each upstream what is due there', async () => {
  const { directory, clock, trouble } = scene();
  const { ledger } = await openGateway({ directory, clock, trouble });
  const { reserved, request } = await movedWhileAway(ledger, 'mover');
  const spare = { ...MAIN, n: 2, upstream: 'spare', outcome: 'answered', cost_nano_usd: 60 };
  await reserved.settle(settlement(request, { cost_nano_usd: 90, attempts: [MAIN, spare] }));
  trouble.now = undefined;
  await ledger.drain();
  const spent = async (key: string) => (await balanceOf(database, key)).spent;
  assert.deepEqual([await spent('mover'), await spent('mover-main'), await spent('mover-spare')], [90, 30, 60]);
  const { differences, attempts } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.total, attempts.total], [0, 0]);
});

it('a request that moved is estimated with its earlier attempts when its process dies', async () => {
  const { directory, clock, trouble } = scene();
  const { ledger } = await openGateway({ directory, clock, trouble, is_dead: true });
  await movedWhileAway(ledger, 'lost');
  trouble.now = undefined;
  const { ledger: heir } = await openGateway({ directory, clock });
  await heir.adoptOrphans();
  await heir.drain();
  const spent = async (key: string) => (await balanceOf(database, key)).spent;
  assert.deepEqual([await spent('lost'), await spent('lost-main'), await spent('lost-spare')], [130, 30, 100]);
  const { differences, attempts } = await verifyLedger({ database, clock });
  assert.deepEqual([differences.total, attempts.total], [0, 0]);
});
