import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { Database } from '../../../engine/base/store/database.ts';
import type { Lane, SentStatement } from '../../../engine/base/store/lanes.ts';
import { assertGranted, ledgerRowsOf, settlement, type TestStore, useTestStore } from '../../support/store.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { ask, assertAddsUp, GREEDY, heldClock, LeasingLedger, leasedRequests, teamLimit, warmUp } from './leasing.ts';

const never = () => () => {};
const CHILD = join(import.meta.dirname, 'leasing-child.ts');

let store: TestStore;
const ledgers = useTestStore((opened) => {
  store = opened;
});

function open(database: Database, more: ConstructorParameters<typeof LeasingLedger>[1] = {}): LeasingLedger {
  const ledger = new LeasingLedger(database, { every: never, ...more });
  ledgers.push(ledger);
  return ledger;
}

/** A database behind a relay that a test cuts. */
async function behindRelay(): Promise<{ readonly relay: TcpRelay; readonly database: Database }> {
  const url = new URL(store.url);
  const relay = await startRelay(Number(url.port));
  url.port = String(relay.port);
  return { relay, database: await store.another(url.href) };
}

/** Whether so many statements wait for the locks of others. */
async function waiting(statements: number): Promise<boolean> {
  const { rows } = await store.database.knex.raw(
    'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0',
  );
  return rows.length >= statements;
}

/** What becomes of the processes that have leases or reservations on the counters of a team when they are taken for dead. */
async function takeForDead(team: string): Promise<void> {
  await store.database.knex.raw(
    `with counters as (select id from spend_counters where key = ?)
     select recover_orphans(null, array(
       select l.process_id from reservation_leases l join counters c on c.id = l.counter_id
       union select r.process_id from reservations r join counters c on c.id = any (r.counter_ids)),
       interval '30 seconds', '-infinity')`,
    [team],
  );
}

describe('trouble with leases', () => {
  test('a row that was sent and lost is written again, and its request is settled once', async () => {
    const { relay, database } = await behindRelay();
    const ledger = open(database);
    const demands = [teamLimit('cut', 1_000_000_000)];
    await warmUp(ledger, demands);
    relay.fallSilent();
    const { leased } = ledger.lease_counts!;
    const more = { user: 'cut off' };
    const { request, decision } = await ask(ledger, demands, more);
    assertGranted(decision);
    assert.equal(ledger.lease_counts!.leased, leased + 1);
    const settled = ledger.settle(settlement(request));
    ledger.topUp(request.request_id, 100);
    await relay.stop();
    await relay.start();
    await settled;
    assert.equal((await ledgerRowsOf(store.database, more.user)).length, 1);
    await until('leases are given back', async () => (await leasedRequests(store.database, 'cut')) === 0);
    await assertAddsUp(store.database);
    await warmUp(ledger, demands);
    await assertAddsUp(store.database);
    await ledger.close();
    await relay.stop();
  });

  test('while rows are not answered the way without leases decides', async () => {
    const { relay, database } = await behindRelay();
    let patience_ms = 30_000;
    const ledger = open(database, { reserve_timeout_ms: () => patience_ms });
    const demands = [teamLimit('silent', 1_000_000_000)];
    await warmUp(ledger, demands);
    relay.fallSilent();
    const { request } = await ask(ledger, demands);
    patience_ms = 200;
    const refused = until('a request is refused', async () => {
      try {
        await ask(ledger, demands);
        return undefined;
      } catch (error) {
        return error as { code: string };
      }
    });
    assert.equal((await refused).code, 'store_unavailable');
    relay.speakAgain();
    await ledger.settle(settlement(request));
    await ledger.close();
    await relay.stop();
  });

  test('a process that was stopped for long uses no lease when it goes on, and no limit is passed', async () => {
    const clock = heldClock();
    const ledger = open(store.database, { policy: GREEDY, clock });
    const limit = 10_000;
    const demands = [teamLimit('stopped', limit)];
    const spent = await warmUp(ledger, demands);
    assert.ok((await leasedRequests(store.database, 'stopped')) > 0);
    clock.passed_ms = 40_000;
    await takeForDead('stopped');
    const rest = limit - spent;
    const other = await ask(open(store.database), demands, { amount_nano_usd: rest, most_nano_usd: rest });
    assertGranted(other.decision);
    const { decision } = await ask(ledger, demands);
    assert.equal(decision.exceeded.length, 1);
    await ledger.beat();
    assert.equal((await ask(ledger, demands)).decision.exceeded.length, 1);
    await assertAddsUp(store.database);
  });

  /** A ledger that sleeps, and is taken for dead, before or after it sends a row. */
  async function sleepsAt(when: 'before' | 'after', team: string) {
    const clock = heldClock();
    const { database } = store;
    const demands = [teamLimit(team, 10_000)];
    let rest = 0;
    const sleep = async () => {
      if (rest === 0) return;
      await takeForDead(team);
      const more = { amount_nano_usd: rest - 100, most_nano_usd: rest - 100 };
      rest = 0;
      assertGranted((await ask(open(database), demands, more)).decision);
    };
    const lanes = () => {
      const free = () => {
        const lane = database.lanes().free();
        return lane && { send: (...statement: Parameters<typeof lane.send>) => sendAsleep(lane, statement) };
      };
      return { free, count: 1, close() {} };
    };
    const sendAsleep = (lane: Lane, statement: Parameters<Lane['send']>): SentStatement => {
      if (rest > 0) clock.passed_ms = 40_000;
      if (when === 'after') {
        const answered = lane.send(...statement).answered.then(sleep);
        return { answered, handed: answered };
      }
      const sent = sleep().then(() => lane.send(...statement));
      return { answered: sent.then(({ answered }) => answered), handed: sent.then(({ handed }) => handed) };
    };
    const ledger = open({ ...database, lanes }, { policy: GREEDY, clock, database });
    rest = 10_000 - (await warmUp(ledger, demands));
    const { leased } = ledger.lease_counts!;
    const { decision, request } = await ask(ledger, demands);
    assertGranted(decision);
    assert.equal((await ask(ledger, demands)).decision.exceeded.length, 1);
    await ledger.settle(settlement(request));
    await assertAddsUp(database);
    return ledger.lease_counts!.leased - leased;
  }

  test('a process that was stopped before it sent a row takes it back, and asks', async () => {
    assert.equal(await sleepsAt('before', 'sending'), 0);
  });

  test('a process that was stopped when it had sent a row goes on as one whose reservation was recorded', async () => {
    assert.equal(await sleepsAt('after', 'sent'), 1);
  });

  test('a row whose lease is gone counts on its counters', async () => {
    const ledger = open(store.database);
    const demands = [teamLimit('gone', 1_000_000_000)];
    await warmUp(ledger, demands);
    await store.database.knex.raw(
      `select return_all_leases(array(
         select l.process_id from reservation_leases l join spend_counters s on s.id = l.counter_id where s.key = 'gone'), null)`,
    );
    const { request, decision } = await ask(ledger, demands);
    assertGranted(decision);
    await until('the row is written', async () => {
      const [row] = await store.database.knex('reservations').where({ request_id: request.request_id });
      return row !== undefined;
    });
    await assertAddsUp(store.database);
    await ledger.settle(settlement(request));
    await assertAddsUp(store.database);
  });

  test('a process that is heard of while its leases are given away has what it takes after that', async () => {
    const { knex } = store.database;
    const process_id = crypto.randomUUID();
    const counters = await knex('spend_counters')
      .insert(
        ['given-away', 'taken'].map((key) => ({
          ...{ scope: 'team', key, window_kind: 'month', window_start: '2026-01-01', unit: 'nano_usd' },
          ...{ spent: 0, reserved: 100, most: 100, in_flight: 1 },
        })),
      )
      .returning<{ id: number }[]>('id');
    const lease = (counter: number) =>
      knex('reservation_leases').insert({
        ...{ lease_id: crypto.randomUUID(), counter_id: counters[counter]!.id, process_id },
        ...{ amount: 100, most: 100, requests: 1 },
      });
    const asleep = { machine: 'm', identity: 'i', heartbeat_at: knex.raw("now() - interval '1 minute'") };
    await knex('processes').insert({ id: process_id, ...asleep });
    await lease(0);
    const holder = await knex.transaction();
    await holder('spend_counters').where({ id: counters[0]!.id }).forUpdate();
    const given_away = store.database.query(
      'test_lapse',
      "select recover_orphans(null, '{}', '30 s', '-infinity')",
      [],
    );
    await until('the counter is waited for', () => waiting(1));
    let taken = false;
    const back = store.database
      .query('test_back', 'update processes set heartbeat_at = now() where id = $1', [process_id])
      .then(() => lease(1))
      .then(() => {
        taken = true;
      });
    await until('the process takes a lease, or waits to be heard of', async () => taken || waiting(2));
    await holder.commit();
    await Promise.all([given_away, back]);
    assert.equal(await leasedRequests(store.database, 'given-away'), 0);
    assert.equal(await leasedRequests(store.database, 'taken'), 1);
    await takeForDead('taken');
    await assertAddsUp(store.database);
  });

  test('what was placed is in the database, however soon its process is killed', async () => {
    const kill = async () => {
      const child = spawn(process.execPath, [CHILD, store.url, 'killed'], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [said, [, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
      assert.equal(signal, 'SIGKILL');
      return said
        .trim()
        .split('\n')
        .map((line) => line.split(' ') as [id: string, how: string]);
    };
    const placed = (await Promise.all(Array.from({ length: 4 }, kill))).flat();
    assert.ok(placed.filter(([, how]) => how === 'leased').length >= 4);
    const request_ids = placed.map(([id]) => id);
    // What their connections still had to execute may come after the first time: gateways look again and again, too.
    await until('all that was placed is recorded, and nothing leased', async () => {
      await takeForDead('killed');
      const rows = await store.database.knex('ledger').whereIn('request_id', request_ids);
      return rows.length === placed.length && (await leasedRequests(store.database, 'killed')) === 0;
    });
    await assertAddsUp(store.database);
  });
});
