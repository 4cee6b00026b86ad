import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Database } from '../../../engine/base/store/database.ts';
import type { LeasePolicy } from '../../../engine/domain/budget/leases/leased-room.ts';
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

/** The running play. A run that is too long is interrupted and plays on: its gateways would declare those of the next test dead. */
let playing: Promise<unknown> = Promise.resolve();
afterEach(() => playing);

/** One of two gateways. */
const gateway = fc.constantFrom(0 as const, 1 as const);
const reserve = fc.record({
  do: fc.constant('reserve' as const),
  gateway,
  user: fc.constantFrom('ann', 'bob', 'cy'),
  model: fc.constantFrom('coder-1', 'coder-2'),
  project: fc.constantFrom('apollo', null),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  /** Percent of the maximum that a typical reservation reserves. */
  share: fc.integer({ min: 0, max: 100 }),
  tokens: fc.integer({ min: 0, max: 300 }),
  typical: fc.boolean(),
});
/** Small ones, so that lots have room for several. */
const cheap = reserve.map((step) => ({
  ...{ ...step, most: step.most % 10, tokens: step.tokens % 20 },
  user: step.user === 'cy' ? 'bob' : 'ann',
}));
const end = fc.record({
  do: fc.constantFrom('settle' as const, 'settle' as const, 'release' as const, 'topUp' as const),
  gateway,
  which: fc.nat(),
  share: fc.integer({ min: 0, max: 100 }),
});
/** A request moves to another upstream. */
const move = fc.record({
  do: fc.constant('move' as const),
  gateway,
  which: fc.nat(),
  upstream: fc.constantFrom('main', 'spare', 'third'),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  share: fc.integer({ min: 0, max: 100 }),
  billed: fc.integer({ min: 0, max: 100 }),
});
/** A gateway dies, and another one replaces it. */
const crash = fc.record({ do: fc.constant('crash' as const), gateway });
const wait = (...minutes: number[]) =>
  fc.record({ do: fc.constant('wait' as const), minutes: fc.constantFrom(...minutes) });
const beat = fc.constant({ do: 'beat' as const });
const change = fc.record({
  do: fc.constantFrom('set' as const, 'unset' as const, 'grant' as const, 'revoke' as const),
  counter: fc.nat(),
  amount: fc.integer({ min: 1, max: 500 }),
  hours: fc.integer({ min: 1, max: 48 }),
});

type Weighted = readonly [arbitrary: fc.Arbitrary<SceneStep>, weight: number];

/** Bursts of some steps, so many of them; those within a burst happen at the same time. */
function bursts(least: number, most: number, steps: readonly Weighted[]): fc.Arbitrary<SceneStep[][]> {
  const burst = fc.oneof(...steps.map(([arbitrary, weight]) => ({ arbitrary, weight })));
  return fc.array(fc.array(burst, { minLength: 1, maxLength: 16 }), { minLength: least, maxLength: most });
}

const waiting = (mode: LedgerScene['mode']) =>
  bursts(1, 6, [
    ...([
      [reserve, 8],
      [end, 8],
      [move, 4],
      [crash, 1],
    ] as const),
    [wait(0.4, 1, 60, 300, 2400, 12_000), 1],
    ...(mode === 'changing' ? ([[change, 3]] as const) : []),
  ]);
/** A process that is not heard of for 12 seconds uses no lease; a minute ends some windows, a day most. */
const leasing = (mode: LedgerScene['mode']) =>
  bursts(4, 10, [
    ...([
      [cheap, 32],
      [reserve, 2],
      [end, 16],
      [move, 2],
      [beat, 4],
      [crash, 1],
    ] as const),
    [wait(0.005, 0.02, 0.02, 0.04, 0.1, 0.1, 0.5, 1, 1500), 1],
    ...(mode === 'changing' ? ([[change, 2]] as const) : []),
  ]);

/** From lots for one request to lots of all that is left. */
const anyPolicy: fc.Arbitrary<LeasePolicy> = fc.record({
  busy: fc.integer({ min: 1, max: 2 }),
  seconds: fc.integer({ min: 1, max: 3 }),
  requests: fc.integer({ min: 1, max: 3 }),
  share: fc.constantFrom(1, 1, 2, 4),
});

/** A caller who asks again and again, and is placed in leases for sure. */
const ASKING = {
  ...({ do: 'reserve', gateway: 0, user: 'ann', model: 'coder-1', project: null } as const),
  ...{ most: 5, share: 50, tokens: 1, typical: false },
};
const LEASED: [SceneStep[][], LeasePolicy] = [
  Array.from({ length: 6 }, () => [ASKING]),
  { busy: 1, seconds: 3, requests: 3, share: 1 },
];

/** A failure is minimized for a while, not until the test is cut off. */
const RUNS = { numRuns: times(3), interruptAfterTimeLimit: 60_000 };

/** @returns how many requests were placed in leases. */
function play(...scene: Parameters<typeof playOut>): Promise<number> {
  const placed = playOut(...scene);
  playing = placed.catch(() => {});
  return placed;
}

async function playOut(steps: SceneStep[][], mode: LedgerScene['mode'], policy?: LeasePolicy): Promise<number> {
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
  return scene.leased().placed;
}

/** In `mixed` reservations are typical, and a limit is passed by no more than its share or the most expensive request. */
describe('two gateways on one ledger exceed no limit and keep every nano-USD, under any order of operations and failures', () => {
  for (const mode of ['worst_case', 'mixed', 'changing'] as const) {
    it(`without leases: ${mode}`, async () => {
      await fc.assert(
        fc.asyncProperty(waiting(mode), async (steps) => void (await play(steps, mode))),
        RUNS,
      );
    });

    it(`with leases: ${mode}`, async () => {
      let placed = 0;
      const property = fc.asyncProperty(leasing(mode), anyPolicy, async (steps, policy) => {
        placed += await play(steps, mode, policy);
      });
      await fc.assert(property, { ...RUNS, numRuns: times(4), examples: [LEASED] });
      assert.ok(placed > 0, 'some requests were placed in leases');
    });
  }
});
