import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { startMortalPostgres } from '../../e2e/support/fleet.ts';
import { open, poolOf } from '../../support/open-database.ts';
import { assertGranted, settlement } from '../../support/store.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { closing } from '../../support/use.ts';
import { ask, assertAddsUp, GREEDY, LeasingLedger, teamLimit, warmUp } from './leasing.ts';

const CHILD = join(import.meta.dirname, 'leasing-child.ts');
const LIMIT = 5000;
const AMOUNT = 100;
const TEAMS = IS_DEEP ? ['a', 'b', 'c', 'd'] : ['a'];

/** A process's report of its reservations before it is killed. */
async function placeAndDie(url: string, team: string): Promise<readonly string[]> {
  const child = spawn(process.execPath, [CHILD, url, team, String(LIMIT)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return said.split('\n').filter((line) => line !== '');
}

async function recorded({ knex }: Database, team: string): Promise<number> {
  const [row] = await knex('ledger')
    .where({ status: null })
    .whereIn('counter_ids', function () {
      this.select(knex.raw('array[id]')).from('spend_counters').where({ key: team });
    })
    .count({ count: '*' });
  return Number(row!.count);
}

test('after a gateway and PostgreSQL die together, the ledger has at least the placed amounts, and no limit is exceeded', async () => {
  await using postgres = closing(await startMortalPostgres());
  const url = await postgres.createDatabase();
  for (const team of TEAMS) {
    const before = await open(url);
    const placed = await placeAndDie(url, team);
    await postgres.stop('crash');
    await before.close();
    await postgres.start();
    const database = await open(url);
    await until('all that was left is recorded', async () => {
      await database.knex.raw(
        `select recover_orphans(null, array(select id from processes), interval '30 seconds', '-infinity')`,
      );
      const [row] = await database.knex('processes').count({ count: '*' });
      return Number(row!.count) === 0;
    });
    const [counter] = await database.knex('spend_counters').where({ key: team });
    assert.equal(Number(counter.reserved) + counter.in_flight, 0);
    assert.equal((await database.knex('reservation_leases')).length, 0);
    // Lost rows had been leased: the rest of a lease is an estimate of them.
    const spent = Number(counter.spent);
    assert.ok(spent >= placed.length * AMOUNT && spent <= LIMIT, `${spent} spent, ${placed.length} placed`);
    const [estimated] = await database.knex('ledger').where({ kind: 'adjustment' }).sum({ cost: 'cost_nano_usd' });
    assert.ok((await recorded(database, team)) * AMOUNT + Number(estimated!.cost) >= placed.length * AMOUNT);
    const { differences, repeated, uncounted, left } = await verifyLedger({ database, clock: systemClock });
    for (const found of [differences, repeated, uncounted, left]) assert.deepEqual(found, { total: 0, first: [] });
    await database.close();
  }
});

/** Ways in which the life of a server ends. */
const ENDS = ['cleanly', 'crash', 'one of its processes is killed'] as const;

test('a live gateway is not charged for leases of an earlier server life', async () => {
  await using postgres = closing(await startMortalPostgres());
  const url = await postgres.createDatabase();
  for (const how of ENDS) {
    const database = await open(url, { config: poolOf(6) });
    const life = async () => (await database.knex.raw('select server_life() as life')).rows[0].life;
    const ledger = new LeasingLedger(database, { policy: GREEDY });
    const demands = [teamLimit(how, 1_000_000)];
    let spent = await warmUp(ledger, demands);
    const before = await life();
    const flying = await ask(ledger, demands);
    assertGranted(flying.decision);
    if (how === 'one of its processes is killed') {
      const { rows } = await database.knex.raw('select pg_backend_pid() as pid');
      process.kill(rows[0].pid, 'SIGKILL');
    } else {
      await postgres.stop(how);
      await postgres.start();
    }
    await until('the server lives another life', async () => {
      await ledger.sayAlive().catch(() => {});
      return (await life().catch(() => before)) !== before;
    });
    await ledger.settle(settlement(flying.request));
    spent += settlement(flying.request).cost_nano_usd;
    await until('leases of the previous life are returned', async () => {
      const left = await database.knex('reservation_leases').whereRaw('life is distinct from server_life()');
      return left.length === 0;
    });
    // It is killed afterwards: its leases from now on belong to this life.
    spent += await warmUp(ledger, demands);
    await database.knex.raw(
      `select recover_orphans(null, array(select id from processes), interval '30 seconds', '-infinity')`,
    );
    const [counter] = await database.knex('spend_counters').where({ key: how });
    assert.deepEqual([Number(counter.spent), Number(counter.reserved)], [spent, 0]);
    assert.equal((await database.knex('ledger').where({ user_email: 'unknown' })).length, 0);
    await assertAddsUp(database);
    await ledger.close();
    await database.close();
  }
});
