/** Whatever is asked of them in whatever order, the ledger in memory answers like the one in the database. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import fc from 'fast-check';
import type { Ledger, LimitClaim, ReservationRequest } from '../../engine/api.ts';
import { frozenClock } from '../../engine/services/clock.ts';
import { type OpenLedger, openLedger } from '../../engine/services/ledger.ts';
import { openMemoryLedger } from '../../engine/testing/memory-ledger.ts';
import { openTestStore, quietLog, reservation, settlement, type TestStore } from '../support/store.ts';

let store: TestStore;
const open: OpenLedger[] = [];
before(async () => {
  store = await openTestStore();
});
after(async () => {
  await Promise.all(open.map((ledger) => ledger.close()));
  await store.close();
});

type Act =
  | { readonly kind: 'reserve'; readonly amount: number; readonly claims: readonly LimitClaim[] }
  | { readonly kind: 'settle'; readonly which: number; readonly cost: number }
  | { readonly kind: 'release'; readonly which: number }
  | { readonly kind: 'wait'; readonly hours: number };

const claim = fc.record({
  scope: fc.constantFrom('user' as const, 'team' as const, 'model' as const),
  key: fc.constantFrom('a', 'b'),
  window: fc.constantFrom('day' as const, 'month' as const),
  limit_nano_usd: fc.option(fc.integer({ min: 0, max: 300 })),
  rule: fc.constantFrom('one', 'two'),
  shadow: fc.boolean(),
});

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('reserve' as const),
      amount: fc.integer({ min: 0, max: 150 }),
      claims: fc.array(claim, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), which: fc.nat(9), cost: fc.integer({ max: 200 }) }),
  },
  fc.record({ kind: fc.constant('release' as const), which: fc.nat(9) }),
  fc.record({ kind: fc.constant('wait' as const), hours: fc.integer({ min: 1, max: 400 }) }),
);

let runs = 0;

/** What a ledger answers to some acts; requests and keys have names of their own in every run. */
async function answers(
  ledger: Ledger,
  advance: (hours: number) => void,
  acts: readonly Act[],
  prefix: string,
): Promise<unknown[]> {
  const requests: ReservationRequest[] = [];
  const told: unknown[] = [];
  for (const each of acts) {
    if (each.kind === 'wait') {
      advance(each.hours);
    } else if (each.kind === 'reserve') {
      const claims = each.claims.map((one) => ({ ...one, key: `${prefix}${one.key}` }));
      const request = reservation({
        request_id: `${prefix}${requests.length}`,
        amount_nano_usd: each.amount,
        claims,
      });
      requests.push(request);
      const shadows: unknown[] = [];
      told.push([await ledger.reserve(request, (standing) => shadows.push(standing)), shadows]);
    } else {
      const request = requests[each.which];
      if (request === undefined) continue;
      if (each.kind === 'release') await ledger.release(request.request_id);
      else await ledger.settle({ ...settlement(request), cost_nano_usd: each.cost });
    }
  }
  return JSON.parse(JSON.stringify(told).replaceAll(prefix, ''));
}

it('answers like the ledger in the database', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 2, maxLength: 15 }), async (acts) => {
      const prefix = `run-${++runs}-`;
      const clocks = [frozenClock('2026-03-10T12:00:00Z'), frozenClock('2026-03-10T12:00:00Z')] as const;
      const real = openLedger({ database: store.database, clock: clocks[0], log: quietLog, every: () => () => {} });
      open.push(real);
      const memory = openMemoryLedger({ clock: clocks[1] });
      const advance = (clock: (typeof clocks)[number]) => (hours: number) => clock.advance(hours * 3_600_000);
      const expected = await answers(real, advance(clocks[0]), acts, prefix);
      assert.deepEqual(await answers(memory, advance(clocks[1]), acts, prefix), expected);
    }),
    { numRuns: 60 },
  );
});
