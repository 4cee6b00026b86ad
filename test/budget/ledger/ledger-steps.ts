/** What may happen in a `LedgerScene`, as properties choose it. */
import fc from 'fast-check';
import { MOST_EXPENSIVE, type SceneStep } from '../../support/ledger-scene.ts';

/** One of two gateways. */
export const gateway = fc.constantFrom(0 as const, 1 as const);
/** Somebody asks for something. */
export const reserve = fc.record({
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
/** What becomes of a request. */
export const end = fc.record({
  do: fc.constantFrom('settle' as const, 'settle' as const, 'release' as const, 'topUp' as const),
  gateway,
  which: fc.nat(),
  share: fc.integer({ min: 0, max: 100 }),
});
/** A request goes to another upstream. */
export const move = fc.record({
  do: fc.constant('move' as const),
  gateway,
  which: fc.nat(),
  upstream: fc.constantFrom('main', 'spare', 'third'),
  most: fc.integer({ min: 0, max: MOST_EXPENSIVE }),
  share: fc.integer({ min: 0, max: 100 }),
  billed: fc.integer({ min: 0, max: 100 }),
});
/** A gateway dies, and another one takes its place. */
export const crash = fc.record({ do: fc.constant('crash' as const), gateway });
/** Time passes. */
export const wait = fc.record({
  do: fc.constant('wait' as const),
  minutes: fc.constantFrom(0.4, 1, 60, 300, 2400, 12_000),
});
/** A limit is changed. */
export const change = fc.record({
  do: fc.constantFrom('set' as const, 'unset' as const, 'grant' as const, 'revoke' as const),
  counter: fc.nat(),
  amount: fc.integer({ min: 1, max: 500 }),
  hours: fc.integer({ min: 1, max: 48 }),
});

/** Bursts of some steps, so many of them; those within a burst happen at the same time. */
export function anyBursts(
  steps: readonly fc.WeightedArbitrary<SceneStep>[],
  least = 1,
  most = 6,
): fc.Arbitrary<SceneStep[][]> {
  const burst = fc.array(fc.oneof(...steps), { minLength: 1, maxLength: 16 });
  return fc.array(burst, { minLength: least, maxLength: most });
}
