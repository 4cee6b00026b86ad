import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Database } from '../../../engine/base/store/database.ts';
import type { LeasePolicy } from '../../../engine/domain/budget/leases/leased-room.ts';
import { LedgerScene, type SceneStep } from '../../support/ledger-scene.ts';
import { openTestStore, type TestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { anyBursts, change, end, move, reserve } from '../ledger/ledger-steps.ts';

let store: TestStore;
let databases: [Database, Database];

before(async () => {
  store = await openTestStore();
  databases = [store.database, await store.another()];
});
after(() => store.close());

/** From leases for one request to leases of all that is left. */
const anyPolicy: fc.Arbitrary<LeasePolicy> = fc.record({
  busy: fc.integer({ min: 1, max: 2 }),
  seconds: fc.integer({ min: 1, max: 3 }),
  requests: fc.integer({ min: 1, max: 3 }),
  share: fc.constantFrom(1, 1, 2, 4),
});
/** Small ones, so that leases have room for several. */
const cheap = reserve.map((step) => ({
  ...{ ...step, most: step.most % 10, tokens: step.tokens % 20 },
  user: step.user === 'cy' ? 'bob' : 'ann',
}));
const beat = fc.constant({ do: 'beat' as const });
const crash = fc.record({ do: fc.constant('crash' as const), gateway: fc.constantFrom(0 as const, 1 as const) });
/** A process that is not heard of for 12 seconds uses no leases; a minute ends some windows, a day most. */
const wait = fc.record({
  do: fc.constant('wait' as const),
  minutes: fc.constantFrom(0.005, 0.02, 0.02, 0.04, 0.1, 0.1, 0.5, 1, 1500),
});

const bursts = (mode: LedgerScene['mode']) =>
  anyBursts(
    [
      { arbitrary: cheap, weight: 32 },
      { arbitrary: reserve, weight: 2 },
      { arbitrary: end, weight: 16 },
      { arbitrary: move, weight: 2 },
      { arbitrary: beat, weight: 4 },
      { arbitrary: crash, weight: 1 },
      { arbitrary: wait, weight: 1 },
      ...(mode === 'changing' ? [{ arbitrary: change, weight: 2 }] : []),
    ],
    4,
    10,
  );

/** Somebody asks again and again, and is placed in leases for sure. */
const ASKING = {
  ...({ do: 'reserve', gateway: 0, user: 'ann', model: 'coder-1', project: null } as const),
  ...{ most: 5, share: 50, tokens: 1, typical: false },
};
const LEASED: [SceneStep[][], LeasePolicy] = [
  Array.from({ length: 6 }, () => [ASKING]),
  { busy: 1, seconds: 3, requests: 3, share: 1 },
];

const RUNS = { numRuns: times(4), interruptAfterTimeLimit: 60_000, examples: [LEASED] };

/** How many requests were placed in leases, over all runs. */
let placed = 0;

async function play(steps: SceneStep[][], mode: LedgerScene['mode'], policy: LeasePolicy) {
  const scene = new LedgerScene(databases, mode, policy);

  for (const burst of steps) {
    await Promise.all([...burst.map((step) => scene.take(step)), scene.assertLedgerAddsUp()]);
    await scene.assertLimitsHold();
    await scene.assertLedgerAddsUp();
  }
  await scene.recover();
  await scene.assertLimitsHold();
  await scene.settleAll();
  await scene.comeBack();
  await scene.close();
  await scene.assertBooksBalance();
  placed += scene.leased().placed;
}

describe('two gateways that place reservations in leases', () => {
  for (const mode of ['worst_case', 'mixed', 'changing'] as const) {
    it(`pass no limit and lose or invent no nano-USD, whatever happens in whatever order: ${mode}`, async () => {
      placed = 0;
      const property = fc.asyncProperty(bursts(mode), anyPolicy, (steps, policy) => play(steps, mode, policy));
      await fc.assert(property, RUNS);
      assert.ok(placed > 0, 'some requests were placed in leases');
    });
  }
});
