import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LimitDemand } from '../../../engine/api.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { LEASE_POLICY } from '../../../engine/domain/budget/leases/leased-room.ts';
import { setLimit } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { assertGranted, balanceOf, settlement, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import {
  ask,
  assertAddsUp,
  GREEDY,
  LeasingLedger,
  leasedRequests,
  stoppedClock,
  teamLimit,
  warmUp,
} from './leasing.ts';

const never = () => () => {};
let store: TestStore;
const ledgers = useTestStore((opened) => {
  store = opened;
});

async function open(more: ConstructorParameters<typeof LeasingLedger>[1] = {}): Promise<LeasingLedger> {
  const ledger = new LeasingLedger(await store.another(), more);
  ledgers.push(ledger);
  return ledger;
}

describe('a ledger with leases', () => {
  test('places requests in memory, keeps the ledger consistent at any moment, and returns idle leases', async () => {
    const clock = stoppedClock();
    const ledger = await open({ clock });
    const demands = [teamLimit('fast', 1_000_000_000)];
    let spent = await warmUp(ledger, demands);
    const before = { ...ledger.lease_counts! };
    for (let i = 0; i < 60; i++) {
      const { request, decision } = await ask(ledger, demands);
      assertGranted(decision);
      const [status] = decision.statuses;
      // The only process has all usage: statuses are the same as without leases.
      assert.deepEqual([status!.spent, status!.reserved, status!.in_flight], [spent, 100, 1]);
      if (i % 10 === 0) await assertAddsUp(store.database);
      await ledger.settle(settlement(request));
      spent += 60;
    }
    const { leased, waited } = ledger.lease_counts!;
    assert.ok(leased - before.leased > 50, `${leased - before.leased} of 60 were placed in leases`);
    assert.equal(leased + waited - before.leased - before.waited, 60);
    await assertAddsUp(store.database);
    clock.passed_ms = 60_000;
    await until('leases are returned', async () => (await leasedRequests(store.database, 'fast')) === 0);
    assert.deepEqual(await balanceOf(store.database, 'fast'), { spent, reserved: 0 });
  });

  test('takes no lease if leases are off, with little headroom, or at low demand', async () => {
    const off = await open({ is_on: () => false });
    const near = await open();
    const rare = await open({ policy: LEASE_POLICY });
    for (let i = 0; i < 20; i++) {
      await ask(off, [teamLimit('off', 1_000_000_000)]);
      await ask(near, [teamLimit('near', 100 * 4 * 16)]);
    }
    for (let i = 0; i < 3; i++) await ask(rare, [teamLimit('rare', 1_000_000_000)]);
    for (const ledger of [off, near, rare]) assert.equal(ledger.lease_counts!.leased + ledger.lease_counts!.taken, 0);
  });

  test("does not use a lease taken under a larger limit than the request's", async () => {
    const ledger = await open({ policy: GREEDY, every: never });
    await warmUp(ledger, [teamLimit('groups', 1_000_000)]);
    const { leased } = ledger.lease_counts!;
    const smaller = await ask(ledger, [teamLimit('groups', 200)]);
    assert.deepEqual(
      smaller.decision.exceeded.map(({ limit }) => limit),
      [200],
    );
    assert.equal(ledger.lease_counts!.leased, leased);
  });

  test('recalls leases of other processes before a rejection, so that all of a limit can be used', async () => {
    const keeper = await open({ policy: GREEDY, every: never });
    const other = await open({ every: never });
    const limit = 10_000;
    const spent = await warmUp(keeper, [teamLimit('shared', limit)]);
    assert.ok((await leasedRequests(store.database, 'shared')) > 0);
    const rest = limit - spent;
    const { decision } = await ask(other, [teamLimit('shared', limit)], { amount_nano_usd: rest, most_nano_usd: rest });
    assertGranted(decision);
    const { decision: more } = await ask(other, [teamLimit('shared', limit)], { amount_nano_usd: 1, most_nano_usd: 1 });
    assert.equal(more.exceeded.length, 1);
    // Its own leases are no reason either.
    const { decision: own } = await ask(keeper, [teamLimit('shared', limit)], { amount_nano_usd: 1, most_nano_usd: 1 });
    assert.equal(own.exceeded.length, 1);
    await assertAddsUp(store.database);
  });

  test('a typical request without competition may cost anything, despite leases', async () => {
    const keeper = await open({ policy: GREEDY, every: never });
    const other = await open({ every: never });
    await warmUp(keeper, [teamLimit('alone', 10_000)]);
    const more = { amount_nano_usd: 10, most_nano_usd: 90_000, overshoot_percent: 0 };
    const { decision } = await ask(other, [teamLimit('alone', 10_000)], more);
    assertGranted(decision);
  });

  test('greedy processes spend all of a limit and never exceed it', async () => {
    const limit = 60_000;
    const demands: LimitDemand[] = [
      teamLimit('crowded', limit),
      { scope: 'user', key: 'crowd', window: 'open', unit: 'requests', limit: 1000, rule: 'at-once' },
    ];
    const crowd = await Promise.all(Array.from({ length: 3 }, () => open({ policy: { ...GREEDY, share: 2 } })));
    let over = false;
    const watch = async () => {
      while (!over) {
        const { spent, reserved } = await balanceOf(store.database, 'crowded');
        assert.ok(spent + reserved <= limit, `${spent} and ${reserved}`);
        await assertAddsUp(store.database);
      }
    };
    const persist = async (ledger: LeasingLedger) => {
      for (;;) {
        const { request, decision } = await ask(ledger, demands);
        if (decision.exceeded.length > 0) return;
        await ledger.settle(settlement(request, { cost_nano_usd: 100 }));
      }
    };
    await Promise.all(crowd.map((ledger) => ledger.laneOpened()));
    await ask(crowd[0]!, demands, { amount_nano_usd: 0, most_nano_usd: 0 });
    const watching = watch();
    await Promise.all(crowd.flatMap((ledger) => Array.from({ length: 8 }, () => persist(ledger))));
    over = true;
    await watching;
    const leased = crowd.reduce((sum, ledger) => sum + ledger.lease_counts!.leased, 0);
    assert.ok(leased > 0, 'some were placed in leases');
    assert.equal((await balanceOf(store.database, 'crowded')).spent, limit);
  });

  test('a limit lowered at run time applies to the next request of every process', async () => {
    const one = await open({ every: never });
    const other = await open({ every: never });
    const demand = teamLimit('lowered', 1_000_000_000);
    for (const ledger of [one, other]) await warmUp(ledger, [demand]);
    const by = { database: store.database, clock: systemClock, actor: { kind: 'command', name: 'test' } as const };
    await setLimit(by, { name: demand, amount: 1, reason: undefined });
    for (const ledger of [one, other]) {
      const { decision } = await ask(ledger, [demand]);
      assert.deepEqual(
        decision.exceeded.map(({ limit }) => limit),
        [1],
      );
    }
    await assertAddsUp(store.database);
  });

  test('leases are returned when the time zone changes', async () => {
    let time_zone = 'UTC';
    const ledger = await open({ every: never, time_zone: () => time_zone });
    const demands = [teamLimit('zoned', 1_000_000_000)];
    await warmUp(ledger, demands);
    time_zone = 'Pacific/Auckland';
    const { leased } = ledger.lease_counts!;
    assertGranted((await ask(ledger, demands)).decision);
    assert.equal(ledger.lease_counts!.leased, leased);
    const windows = await store.database.knex('spend_counters').where({ key: 'zoned' });
    assert.equal(windows.length, 2);
  });
});
