import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitUnit } from '../../../engine/api.ts';
import { lacksRoom, overshootOf, percentToPpm } from '../../../engine/money/limits/room.ts';
import type { Database } from '../../../engine/store/database.ts';
import { useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

let database: Database;
useTestStore((opened) => {
  database = opened.database;
});

/** Small numbers come close to each other often; large ones find what is not exact. */
const amount = fc.oneof(
  { arbitrary: fc.nat(40), weight: 3 },
  { arbitrary: fc.integer({ min: 0, max: 2 ** 50 }), weight: 1 },
);
const percent = fc.oneof(
  fc.constant(undefined),
  fc.integer({ min: 0, max: 100 }),
  fc.integer({ min: 0, max: 1_000_000 }).map((ppm) => ppm / 10_000),
);
const question = fc
  .record({
    unit: fc.constantFrom<LimitUnit>('nano_usd', 'requests', 'tokens'),
    limit: amount,
    spent: amount,
    reserved: amount,
    more: amount,
    in_flight: fc.nat(2),
    amount_nano_usd: amount,
    moreExpensive: amount,
    tokens: amount,
    overshoot_percent: percent,
  })
  .map(({ reserved, more, amount_nano_usd, moreExpensive, overshoot_percent, ...rest }) => ({
    ...rest,
    reserved,
    most: reserved + more,
    amount_nano_usd,
    most_nano_usd: amount_nano_usd + moreExpensive,
    ...(overshoot_percent !== undefined && { overshoot_percent }),
  }));

describe('whether a request has room', () => {
  it('is the same to the gateway and to its database', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(question, { minLength: 1, maxLength: 100 }), async (questions) => {
        const rows = questions.map(({ overshoot_percent, ...rest }) => ({
          ...rest,
          ppm: overshoot_percent === undefined ? null : percentToPpm(overshoot_percent),
        }));
        const [row] = await database.query<{ lacking: boolean[] }>(
          'test_lacks_room',
          `select array_agg(lacks_room(q."limit",
             jsonb_populate_record(null::spend_counters, to_jsonb(q)), q.amount_nano_usd, q.most_nano_usd, q.tokens, q.ppm)
             order by position) as lacking
           from rows from (jsonb_to_recordset($1::jsonb) as (
             unit text, "limit" bigint, spent bigint, reserved bigint, most bigint, in_flight integer,
             amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, ppm bigint)) with ordinality as q (
             unit, "limit", spent, reserved, most, in_flight, amount_nano_usd, most_nano_usd, tokens, ppm, position)`,
          [JSON.stringify(rows)],
        );
        assert.deepEqual(
          row!.lacking,
          questions.map((each) => lacksRoom(each, each)),
        );
      }),
      { numRuns: times(60) },
    );
  });

  it('is never more than the share of a limit, exact to the nano-USD', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 0, max: 1_000_000 }), (limit, ppm) => {
        const exact = (BigInt(limit) * BigInt(ppm)) / 1_000_000n;
        assert.equal(BigInt(overshootOf(limit, ppm / 10_000)), exact);
      }),
    );
  });
});
