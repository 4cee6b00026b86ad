import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { openAt, startMortalPostgres } from '../../e2e/support/fleet.ts';
import { IS_DEEP } from '../../support/times.ts';
import { until } from '../../support/until.ts';

const CHILD = join(import.meta.dirname, 'leasing-child.ts');
const LIMIT = 5000;
const AMOUNT = 100;
const TEAMS = IS_DEEP ? ['a', 'b', 'c', 'd'] : ['a'];

/** What a process says to have placed before it is killed. */
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

test('when a gateway and PostgreSQL die in the same moment, nothing was spent that was not leased, and all leases are returned', async () => {
  const postgres = await startMortalPostgres();
  try {
    const url = await postgres.createDatabase();
    for (const team of TEAMS) {
      const before = await openAt(url);
      const placed = await placeAndDie(url, team);
      await postgres.stop('crash');
      await before.close();
      await postgres.start();
      const database = await openAt(url);
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
      // What was lost of the rows was leased all the same: with it no limit is passed.
      const rows = await recorded(database, team);
      const lost = Math.max(0, placed.length - rows);
      assert.ok(Number(counter.spent) + lost * AMOUNT <= LIMIT, `${counter.spent} spent, ${lost} rows lost`);
      const { differences, repeated, uncounted, left } = await verifyLedger({ database, clock: systemClock });
      for (const found of [differences, repeated, uncounted, left]) assert.deepEqual(found, { total: 0, first: [] });
      await database.close();
    }
  } finally {
    await postgres.close();
  }
});
