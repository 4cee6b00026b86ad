import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Database } from '../../../engine/store/database.ts';
import { LedgerScene, MOST_EXPENSIVE, type SceneStep } from '../../support/ledger-scene.ts';
import { openTestStore, type TestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

let store: TestStore;
let databases: [Database, Database];

before(async () => {
  store = await openTestStore();
  databases = [store.database, await store.another()];
});
after(() => store.close());

const gateway = fc.constantFrom(0 as const, 1 as const);
const reserve = fc.record({
  do: fc.constant('reserve' as const),
  gateway,
  user: fc.constantFrom('ann', 'bob', 'cy'),
  model: fc.constantFrom('coder-1', 'coder-2'),
  project: fc.constantFrom('apollo', null),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  /** Percent of the most that a typical reservation holds. */
  share: fc.integer({ min: 0, max: 100 }),
  tokens: fc.integer({ min: 0, max: 300 }),
  typical: fc.boolean(),
});
const end = fc.record({
  do: fc.constantFrom('settle' as const, 'settle' as const, 'release' as const, 'topUp' as const),
  gateway,
  which: fc.nat(),
  share: fc.integer({ min: 0, max: 100 }),
});
const move = fc.record({
  do: fc.constant('move' as const),
  gateway,
  which: fc.nat(),
  upstream: fc.constantFrom('main', 'spare', 'third'),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  share: fc.integer({ min: 0, max: 100 }),
  billed: fc.integer({ min: 0, max: 100 }),
});
const crash = fc.record({ do: fc.constant('crash' as const), gateway });
const wait = fc.record({ do: fc.constant('wait' as const), minutes: fc.constantFrom(0.4, 1, 60, 300, 2400, 12_000) });
const change = fc.record({
  do: fc.constantFrom('set' as const, 'unset' as const, 'grant' as const, 'revoke' as const),
  counter: fc.nat(),
  amount: fc.integer({ min: 1, max: 500 }),
  hours: fc.integer({ min: 1, max: 48 }),
});

const stepsOf = (...more: fc.WeightedArbitrary<SceneStep>[]) =>
  fc.oneof(
    { arbitrary: reserve, weight: 8 },
    { arbitrary: end, weight: 8 },
    { arbitrary: move, weight: 4 },
    { arbitrary: crash, weight: 1 },
    { arbitrary: wait, weight: 1 },
    ...more,
  );
/** Steps within a burst run at the same time. */
const burstsOf = (step: fc.Arbitrary<SceneStep>) =>
  fc.array(fc.array(step, { minLength: 1, maxLength: 16 }), { minLength: 1, maxLength: 6 });

/** What fails is made smaller for a while, not until the test is cut off. */
const RUNS = { numRuns: times(10), interruptAfterTimeLimit: 60_000 };

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
      fc.asyncProperty(burstsOf(stepsOf()), (bursts) => play(bursts, 'worst_case')),
      RUNS,
    );
  });

  it('pass a limit by no more than its share or the most expensive request when reservations are typical', async () => {
    await fc.assert(
      fc.asyncProperty(burstsOf(stepsOf()), (bursts) => play(bursts, 'mixed')),
      RUNS,
    );
  });

  it('let nothing in beyond limits that are set, granted and taken back meanwhile', async () => {
    await fc.assert(
      fc.asyncProperty(burstsOf(stepsOf({ arbitrary: change, weight: 3 })), (bursts) => play(bursts, 'changing')),
      RUNS,
    );
  });
});
