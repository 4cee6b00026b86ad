import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LimitDemand, Provenance, ReservationRequest } from '../../../engine/api.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { verifyLedger } from '../../../engine/money/reports/verify-ledger.ts';
import type { Database } from '../../../engine/store/database.ts';
import {
  assertGranted,
  counterStatesOf,
  ledgerRowsOf,
  quietLog,
  reservation,
  settlement,
  userDemand,
  useTestStore,
} from '../../support/store.ts';
import { until } from '../../support/until.ts';

const START = '2026-03-10T12:00:00Z';
const clock = frozenClock(START);

let database: Database;
const open = useTestStore((opened) => {
  database = opened.database;
});

function newLedger(at = clock): DatabaseLedger {
  const ledger = new DatabaseLedger({ database, clock: at, log: quietLog, every: () => () => {} });
  open.push(ledger);
  return ledger;
}

/** A request that holds 10 of the 100 it can cost, under a limit that 20 % may pass. */
function typical(user: string, limit: number, more: Partial<ReservationRequest> = {}): ReservationRequest {
  const demands: LimitDemand[] = [userDemand(user, limit)];
  return reservation({ user, amount_nano_usd: 10, most_nano_usd: 100, overshoot_percent: 20, demands, ...more });
}

const stateOf = async (user: string) => {
  const [{ spent, reserved, most, in_flight }] = (await counterStatesOf(database, user)) as [never];
  return { spent, reserved, most, in_flight };
};

describe('a typical reservation', () => {
  it('holds less than it can cost, and lets as many in as may pass the limit by its share at most', async () => {
    const ledger = newLedger();
    const answers = await Promise.all(Array.from({ length: 9 }, () => ledger.reserve(typical('share', 500))));
    // 6 * 100 = 500 + 20 %.
    assert.equal(answers.filter(({ exceeded }) => exceeded.length === 0).length, 6);
    assert.deepEqual(answers.at(-1)?.exceeded, [
      {
        ...{ scope: 'user', key: 'share', window: 'day', unit: 'nano_usd', rule: 'daily', limit: 500 },
        ...{ spent: 0, reserved: 60, in_flight: 6, most: 600, resets_at: Date.parse('2026-03-11T00:00:00Z') },
      },
    ]);
  });

  it('is let in alone when what it holds fits, however much it can cost', async () => {
    const ledger = newLedger();
    const alone = typical('alone', 50, { most_nano_usd: 10 ** 9 });
    assertGranted(await ledger.reserve(alone));
    assert.equal((await ledger.reserve(typical('alone', 50))).exceeded.length, 1);
    await ledger.settle(settlement(alone, { cost_nano_usd: 41 }));
    assert.deepEqual(await stateOf('alone'), { spent: 41, reserved: 0, most: 0, in_flight: 0 });
    // Nothing is in flight, and still its 10 do not fit beside 41.
    assert.equal((await ledger.reserve(typical('alone', 50))).exceeded.length, 1);
  });

  it('beside one that holds everything obeys its share, while the other is let pass nothing', async () => {
    const ledger = newLedger();
    assertGranted(await ledger.reserve(typical('mixed', 200)));
    const whole = () => reservation({ user: 'mixed', demands: [userDemand('mixed', 200)] });
    assertGranted(await ledger.reserve(whole()));
    assert.equal((await ledger.reserve(whole())).exceeded.length, 1);
    assert.equal((await ledger.reserve(typical('mixed', 200))).exceeded.length, 1);
    assertGranted(await ledger.reserve(typical('mixed', 200, { most_nano_usd: 40 })));
  });

  it('of a share with decimals rounds it down', async () => {
    const ledger = newLedger();
    const ask = (most_nano_usd: number) => typical('exact', 1000, { most_nano_usd, overshoot_percent: 0.25 });
    assertGranted(await ledger.reserve(ask(500)));
    assert.equal((await ledger.reserve(ask(503))).exceeded.length, 1);
    assertGranted(await ledger.reserve(ask(502)));
  });
});

describe('a top-up', () => {
  const heldBy = async (user: string) => (await stateOf(user)).reserved;

  it('raises what is held up to the most the request can cost, and never lowers it', async () => {
    const ledger = newLedger();
    const request = typical('topped', 500);
    await ledger.reserve(request);
    for (const [amount, reserved] of [
      [40, 40],
      [30, 40],
      [1000, 100],
    ] as const) {
      ledger.topUp(request.request_id, amount);
      // Something that comes after it on the same way has to pass.
      const marker = typical('marker', 10 ** 6);
      await ledger.reserve(marker);
      ledger.topUp(marker.request_id, 11);
      await until('the top-up is seen', async () => (await heldBy('marker')) % 10 === 1);
      await ledger.release(marker.request_id);
      assert.equal(await heldBy('topped'), reserved);
    }
    assert.deepEqual((await verifyLedger({ database, clock })).differences, { total: 0, first: [] });
    assert.deepEqual(await stateOf('topped'), { spent: 0, reserved: 100, most: 100, in_flight: 1 });
    await ledger.settle(settlement(request, { cost_nano_usd: 70 }));
    assert.deepEqual(await stateOf('topped'), { spent: 70, reserved: 0, most: 0, in_flight: 0 });
  });

  it('is seen by others, who then find less room', async () => {
    const ledger = newLedger();
    const request = typical('seen', 100, { overshoot_percent: 100 });
    await ledger.reserve(request);
    ledger.topUp(request.request_id, 95);
    await until('the top-up is seen', async () => (await heldBy('seen')) === 95);
    assert.equal((await ledger.reserve(typical('seen', 100, { overshoot_percent: 100 }))).exceeded[0]?.reserved, 95);
  });

  it('of a request that is over, or was never known, changes nothing', async () => {
    const ledger = newLedger();
    const [over, next] = [typical('too-late', 500), typical('too-late', 500)];
    await ledger.reserve(over);
    await ledger.settle(settlement(over, { cost_nano_usd: 5 }));
    await ledger.reserve(next);
    for (const id of [over.request_id, 'nobody knows it']) ledger.topUp(id, 50);
    ledger.topUp(next.request_id, 12);
    await until('the top-up is seen', async () => (await heldBy('too-late')) === 12);
    assert.deepEqual(await stateOf('too-late'), { spent: 5, reserved: 12, most: 100, in_flight: 1 });
  });

  it('is what a request of a gateway that died is taken to have cost', async () => {
    const ledger = newLedger();
    const request = typical('left-behind', 500);
    await ledger.reserve(request);
    ledger.topUp(request.request_id, 55);
    await until('the top-up is seen', async () => (await heldBy('left-behind')) === 55);
    clock.advance(31_000);
    await newLedger().recover();
    assert.equal((await ledgerRowsOf(database, 'left-behind'))[0]?.cost_nano_usd, 55);
    assert.deepEqual(await stateOf('left-behind'), { spent: 55, reserved: 0, most: 0, in_flight: 0 });
  });

  it('of an impossible amount is refused', () => {
    const ledger = newLedger();
    for (const amount of [-1, 0.5, Number.NaN]) assert.throws(() => ledger.topUp('any', amount), RangeError);
  });
});

describe('the typical cost of a request', () => {
  /** Settles some requests of a caller to a model of its own. */
  async function learn(ledger: DatabaseLedger, user: string, many: number, cost_nano_usd: number, cost: Provenance) {
    for (let i = 0; i < many; i++) {
      const request = reservation({ user, model: `for ${user}` });
      await ledger.reserve(request);
      await ledger.settle(settlement(request, { cost_nano_usd, provenance: { cost } }));
    }
  }
  const told = (ledger: DatabaseLedger, user: string) => ledger.typicalCost(user, `for ${user}`);
  const assertAbout1000 = (cost: number | undefined) => assert.ok(cost! >= 1000 && cost! <= 1100, String(cost));

  it('is learned from what the upstream said that requests used, and from nothing else', async () => {
    const ledger = newLedger();
    await learn(ledger, 'learner', 19, 1000, 'upstream');
    await learn(ledger, 'learner', 5, 10 ** 6, 'estimate');
    assert.equal(told(ledger, 'learner'), undefined);
    await learn(ledger, 'learner', 1, 1000, 'upstream');
    assertAbout1000(told(ledger, 'learner'));
  });

  it('is not learned from what costs nothing, such as counted tokens and errors of the upstream', async () => {
    const ledger = newLedger();
    await learn(ledger, 'counter', 20, 1000, 'upstream');
    await Promise.all(Array.from({ length: 50 }, () => learn(ledger, 'counter', 10, 0, 'upstream')));
    assertAbout1000(told(ledger, 'counter'));
    const next = newLedger();
    await next.beat();
    assertAbout1000(told(next, 'counter'));
  });

  it('is known to the next process from the ledger of the last day', async () => {
    await learn(newLedger(), 'heir', 20, 1000, 'upstream');
    await learn(newLedger(), 'heir', 20, 10 ** 6, 'abort');
    const next = newLedger();
    assert.equal(told(next, 'heir'), undefined);
    await next.beat();
    assertAbout1000(told(next, 'heir'));
    const later = newLedger(frozenClock(Date.parse(START) + 25 * 3_600_000));
    await later.beat();
    assert.equal(told(later, 'heir'), undefined);
  });
});
