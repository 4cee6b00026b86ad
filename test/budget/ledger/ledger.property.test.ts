import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Database } from '../../../engine/base/store/database.ts';
import { LedgerScene, type SceneStep } from '../../support/ledger-scene.ts';
import { openTestStore, type TestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';
import { anyBursts, change, crash, end, move, reserve, wait } from './ledger-steps.ts';

let store: TestStore;
let databases: [Database, Database];

before(async () => {
  store = await openTestStore();
  databases = [store.database, await store.another()];
});
after(() => store.close());

const burstsOf = (...more: fc.WeightedArbitrary<SceneStep>[]) =>
  anyBursts([
    { arbitrary: reserve, weight: 8 },
    { arbitrary: end, weight: 8 },
    { arbitrary: move, weight: 4 },
    { arbitrary: crash, weight: 1 },
    { arbitrary: wait, weight: 1 },
    ...more,
  ]);

/** What fails is made smaller for a while, not until the test is cut off. */
const RUNS = { numRuns: times(3), interruptAfterTimeLimit: 60_000 };

async function play(bursts: readonly (readonly SceneStep[])[], mode: LedgerScene['mode']): Promise<void> {
  const scene = new LedgerScene(databases, mode);
  for (const burst of bursts) {
    await Promise.all([...burst.map((step) => scene.take(step)), scene.assertLedgerAddsUp()]);
    await scene.assertLimitsHold();
    await scene.assertLedgerAddsUp();
  }
  await scene.recover();
  await scene.assertLimitsHold();
  await scene.settleAll();
  await scene.comeBack();
  await scene.assertBooksBalance();
}

describe('two gateways that share a ledger', () => {
  it('never exceed a limit and lose or invent no nano-USD, whatever happens in whatever order', async () => {
    await fc.assert(
      fc.asyncProperty(burstsOf(), (bursts) => play(bursts, 'worst_case')),
      RUNS,
    );
  });

  it('pass a limit by no more than its share or the most expensive request when reservations are typical', async () => {
    await fc.assert(
      fc.asyncProperty(burstsOf(), (bursts) => play(bursts, 'mixed')),
      RUNS,
    );
  });

  it('let nothing in beyond limits that are set, granted and taken back meanwhile', async () => {
    await fc.assert(
      fc.asyncProperty(burstsOf({ arbitrary: change, weight: 3 }), (bursts) => play(bursts, 'changing')),
      RUNS,
    );
  });
});
