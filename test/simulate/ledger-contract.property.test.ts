/** For any calls in any order, the ledger in memory behaves like the one in the database. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { CounterName, LimitDemand, ReservationRequest } from '../../engine/api.ts';
import { reservation, settlement } from '../support/store.ts';
import { times } from '../support/times.ts';
import { type Bench, columns, useLedgerKinds } from './ledger-benches.ts';

const kinds = useLedgerKinds();

const counter = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      window: fc.constantFrom('day' as const, 'week' as const, 'month' as const),
      unit: fc.constant('nano_usd' as const),
    }),
  },
  fc.constantFrom(
    { window: 'open' as const, unit: 'requests' as const },
    { window: 'minute' as const, unit: 'requests' as const },
    { window: 'minute' as const, unit: 'tokens' as const },
  ),
);

const name = fc
  .tuple(fc.constantFrom('user', 'team', 'user+model'), fc.constantFrom('a', 'b'), counter)
  .map(([scope, key, of]): CounterName => ({ scope, key, ...of }));

/** Few requests at once, more money. */
const amountOn = ({ unit }: CounterName) => fc.integer({ min: 0, max: unit === 'requests' ? 4 : 300 });

const demand = name.chain((of) =>
  fc
    .tuple(fc.option(amountOn(of)), fc.constantFrom('one', 'two'), fc.boolean())
    // Counts by the minute or at once exist because a limit needs them.
    .map(
      ([limit, rule, shadow]): LimitDemand => ({
        ...of,
        limit: of.unit === 'nano_usd' ? limit : (limit ?? 2),
        rule,
        shadow,
      }),
    ),
);

const act = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      amount: fc.integer({ min: 0, max: 150 }),
      more: fc.integer({ min: 0, max: 200 }),
      percent: fc.constantFrom(undefined, undefined, 0, 10, 33.3),
      tokens: fc.integer({ min: 0, max: 200 }),
      demands: fc.array(demand, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), which: fc.nat(9), cost: fc.integer({ max: 200 }) }),
  },
  fc.record({ kind: fc.constant('release' as const), which: fc.nat(9) }),
  fc.record({ kind: fc.constant('top up' as const), which: fc.nat(9), amount: fc.integer({ min: 0, max: 400 }) }),
  name.chain((of) =>
    fc.record({
      kind: fc.constantFrom('set' as const, 'grant' as const),
      name: fc.constant(of),
      amount: amountOn(of).map((amount) => amount + 1),
    }),
  ),
  fc.record({ kind: fc.constant('wait' as const), hours: fc.integer({ min: 1, max: 400 }) }),
);

type Act = typeof act extends fc.Arbitrary<infer Each> ? Each : never;

const START = '2026-03-10T12:00:00Z';
const HOUR_MS = 3_600_000;

let runs = 0;

const GRANTED_HOURS = 100;

/** A ledger's results of some acts; requests and keys have names of their own in every run. */
async function answers(bench: Bench, acts: readonly Act[], prefix: string): Promise<unknown[]> {
  const { ledger } = bench;
  const requests: ReservationRequest[] = [];
  const results: unknown[] = [];
  const own = <T extends CounterName>(one: T): T => ({ ...one, key: `${prefix}${one.key}` });
  for (const each of acts) {
    if (each.kind === 'wait') {
      bench.clock.advance(each.hours * HOUR_MS);
    } else if (each.kind === 'reserve') {
      const { amount, more, percent, tokens } = each;
      const demands = each.demands.map(own);
      const request = reservation({
        request_id: `${prefix}${requests.length}`,
        amount_nano_usd: amount,
        most_nano_usd: percent === undefined ? amount : amount + more,
        ...(percent !== undefined && { overshoot_percent: percent }),
        tokens,
        demands,
      });
      requests.push(request);
      const { statuses, ...decision } = await ledger.reserve(request);
      // The limits of a request have no order.
      const sorted = statuses.map((status) => JSON.stringify(status)).toSorted();
      results.push(decision, sorted, await ledger.statuses(demands));
    } else if ('name' in each) {
      const name = own(each.name);
      if (each.kind === 'set') await bench.set(name, each.amount);
      else await bench.grant(name, each.amount, GRANTED_HOURS);
    } else {
      const request = requests[each.which];
      if (request === undefined) continue;
      if (each.kind === 'release') await ledger.release(request.request_id);
      else if (each.kind === 'top up') {
        await bench.topUp(request.request_id, each.amount);
      } else await ledger.settle({ ...settlement(request), cost_nano_usd: each.cost });
    }
  }
  for (const { request_id } of requests) results.push((await bench.rows(request_id)).map(columns));
  return JSON.parse(JSON.stringify(results).replaceAll(prefix, ''));
}

it('behaves like the ledger in the database', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 2, maxLength: 15 }), async (acts) => {
      const prefix = `run-${++runs}-`;
      const [in_database, in_memory] = kinds;
      const expected = await answers(in_database!.open(START), acts, prefix);
      assert.deepEqual(await answers(in_memory!.open(START), acts, prefix), expected);
    }),
    { numRuns: times(50) },
  );
});
