import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LimitDemand } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import { assertGranted, quietLog, reservation, settlement, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';

let store: TestStore;
const ledgers = useTestStore((opened) => {
  store = opened;
});

/** A ledger that places reservations in leases, as a gateway has it. */
function leasing(database: Database): DatabaseLedger {
  const leases = { lanes: database.lanes, listen: database.listen, is_on: () => true };
  const ledger = new DatabaseLedger({ database, clock: systemClock, log: quietLog, leases });
  ledgers.push(ledger);
  return ledger;
}

function teamLimit(team: string, limit: number): LimitDemand {
  return { scope: 'team', key: team, window: 'month', unit: 'nano_usd', limit, rule: 'team' };
}

async function use(ledger: DatabaseLedger, demands: LimitDemand[], more: object = {}) {
  const request = reservation({ demands, ...more });
  const decision = await ledger.reserve(request);
  return { request, decision };
}

async function assertAddsUp(): Promise<void> {
  const { differences, repeated, uncounted } = await verifyLedger({ database: store.database, clock: systemClock });
  for (const found of [differences, repeated, uncounted]) assert.deepEqual(found, { total: 0, first: [] });
}

/** Uses a limit until requests are placed in leases. */
async function warmUp(ledger: DatabaseLedger, demands: LimitDemand[]): Promise<void> {
  await until('requests are placed in leases', async () => {
    const { request, decision } = await use(ledger, demands);
    assertGranted(decision);
    await ledger.settle(settlement(request));
    return ledger.lease_counts!.leased > 0;
  });
}

describe('a ledger with leases', () => {
  test('places requests without asking, and keeps the books', async () => {
    const ledger = leasing(await store.another());
    const demands = [teamLimit('fast', 1_000_000_000)];
    await warmUp(ledger, demands);
    for (let i = 0; i < 100; i++) {
      const { request, decision } = await use(ledger, demands);
      assertGranted(decision);
      if (i % 10 === 0) await assertAddsUp();
      await ledger.settle(settlement(request));
    }
    await assertAddsUp();
    const rows = await store.database.knex('ledger').where({ user_email: 'alice@example.com' }).count({ count: '*' });
    console.log(rows, ledger.lease_counts);
  });
});
