import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { LimitUnit } from '../../../engine/api.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import {
  type Lack,
  lackOf,
  limitInForce,
  type Needs,
  overshootOf,
  percentToPpm,
  remainingOf,
} from '../../../engine/domain/budget/limits/headroom.ts';
import { useTestStore } from '../../support/store.ts';

let database: Database;
useTestStore((opened) => {
  database = opened.database;
});

/** A limit as it is configured, set and granted, its counter, and a request that needs headroom. */
interface Question extends Needs {
  readonly unit: LimitUnit;
  readonly configured: number | null;
  readonly set: number | null;
  readonly granted: number;
  readonly spent: number;
  readonly reserved: number;
  readonly most: number;
  readonly in_flight: number;
}

const PLAIN: Question = {
  ...{ unit: 'nano_usd', configured: 100, set: null, granted: 0 },
  ...{ spent: 0, reserved: 0, most: 0, in_flight: 0 },
  ...{ amount_nano_usd: 10, most_nano_usd: 10, tokens: 0 },
};
const busy = { reserved: 40, most: 80, in_flight: 2 };
const typical = { amount_nano_usd: 10, most_nano_usd: 40, overshoot_percent: 20 };

/** The one table of both. The missing amount; nothing: there is headroom. */
const CASES: Readonly<Record<string, readonly [Partial<Question>, Lack | undefined]>> = {
  'all of an unused limit may be needed': [{ amount_nano_usd: 100, most_nano_usd: 100 }, undefined],
  'one more than the limit is too much': [{ amount_nano_usd: 101, most_nano_usd: 101 }, 'limit'],
  'a limit of nothing allows nothing': [{ configured: 0 }, 'limit'],
  'a limit of nothing allows what costs nothing': [{ configured: 0, amount_nano_usd: 0, most_nano_usd: 0 }, undefined],
  'what is left may be needed': [{ spent: 90 }, undefined],
  'what is spent counts': [{ spent: 91 }, 'spent'],
  'a limit that was passed has no room': [{ spent: 500 }, 'spent'],
  'what is reserved counts': [{ spent: 55, reserved: 36, most: 36, in_flight: 1 }, 'reserved'],
  'money given back makes room': [{ spent: -50, amount_nano_usd: 150, most_nano_usd: 150 }, undefined],
  'the most of what is in flight counts': [{ ...busy, spent: 11 }, 'most'],
  'up to the limit': [{ ...busy, spent: 10 }, undefined],
  'a typical request may pass by its share': [{ ...busy, ...typical }, undefined],
  'and by no more': [{ ...busy, ...typical, spent: 1 }, 'most'],
  'alone by whatever it can cost': [{ ...typical, spent: 90, most_nano_usd: 9000 }, undefined],
  'and what it reserves must fit all the same': [{ ...typical, spent: 91, most_nano_usd: 9000 }, 'spent'],
  'a share of nothing': [{ ...busy, ...typical, overshoot_percent: 0 }, 'most'],
  'a share of a millionth is rounded down': [
    { ...busy, ...typical, most_nano_usd: 21, overshoot_percent: 0.9999 },
    'most',
  ],
  'nothing limits what has no limit': [{ configured: null, spent: 2 ** 50 }, undefined],
  'a limit that was set takes the place of the configured one': [{ set: 9 }, 'limit'],
  'also of a smaller one': [{ configured: 5, set: 10 }, undefined],
  'also where nothing is configured': [{ configured: null, set: 9 }, 'limit'],
  'a grant comes on top': [{ spent: 95, granted: 5 }, undefined],
  'a grant comes on top of what was set': [{ set: 50, spent: 46, granted: 5 }, 'spent'],
  'a grant on no limit limits nothing': [{ configured: null, granted: 5 }, undefined],
  'a request counts as one': [{ unit: 'requests', configured: 3, reserved: 2, most: 2, in_flight: 2 }, undefined],
  'and not as what it costs': [{ unit: 'requests', configured: 3, reserved: 3, most: 3, in_flight: 3 }, 'reserved'],
  'tokens count as they are estimated': [{ unit: 'tokens', tokens: 100 }, undefined],
  'tokens beyond the limit': [{ unit: 'tokens', tokens: 101 }, 'limit'],
  'tokens used': [{ unit: 'tokens', tokens: 50, spent: 51 }, 'spent'],
};

/** By the rule in TypeScript. */
function lacking({ configured, set, granted, ...question }: Question): Lack | undefined {
  const limit = limitInForce(configured, { set, granted });
  return limit === null ? undefined : lackOf({ ...question, limit }, question);
}

/** Whether something is lacking, by the rule in SQL. */
async function lackingInDatabase(questions: readonly Question[]): Promise<boolean[]> {
  const rows = questions.map(({ overshoot_percent, configured, ...rest }) => ({
    ...rest,
    configured,
    ppm: overshoot_percent === undefined ? null : percentToPpm(overshoot_percent),
  }));
  const [row] = await database.query<{ lacking: boolean[] }>(
    'test_has_room',
    `select array_agg(not coalesce(has_room_for(
       jsonb_populate_record(null::spend_counters, to_jsonb(q)), limit_in_force(q.configured, q.set, q.granted),
       q.amount_nano_usd, q.most_nano_usd, q.tokens, q.ppm), true) order by position) as lacking
     from rows from (jsonb_to_recordset($1::jsonb) as (
       unit text, configured bigint, set bigint, granted bigint, spent bigint, reserved bigint, most bigint,
       in_flight integer, amount_nano_usd bigint, most_nano_usd bigint, tokens bigint, ppm bigint)) with ordinality as q (
       unit, configured, set, granted, spent, reserved, most, in_flight, amount_nano_usd, most_nano_usd, tokens, ppm, position)`,
    [JSON.stringify(rows)],
  );
  return row!.lacking;
}

/** Small numbers often come close to each other; large ones find inexact calculations. */
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
    configured: fc.option(amount),
    set: fc.option(amount, { freq: 2 }),
    granted: amount,
    spent: amount,
    reserved: amount,
    more: amount,
    in_flight: fc.nat(2),
    amount_nano_usd: amount,
    more_expensive: amount,
    tokens: amount,
    overshoot_percent: percent,
  })
  .map(
    ({ reserved, more, amount_nano_usd, more_expensive, overshoot_percent, ...rest }): Question => ({
      ...rest,
      reserved,
      most: reserved + more,
      amount_nano_usd,
      most_nano_usd: amount_nano_usd + more_expensive,
      ...(overshoot_percent !== undefined && { overshoot_percent }),
    }),
  );

describe('the headroom of a limit', () => {
  const questions = Object.entries(CASES).map(([name, [more, lack]]) => ({ name, lack, asked: { ...PLAIN, ...more } }));

  it('is decided in the gateway as in the table, with the missing amount', () => {
    const found = questions.map(({ name, asked }) => [name, lacking(asked)]);
    assert.deepEqual(
      found,
      questions.map(({ name, lack }) => [name, lack]),
    );
  });

  it('is decided in the database as in the table', async () => {
    const found = await lackingInDatabase(questions.map(({ asked }) => asked));
    assert.deepEqual(
      found.map((is_lacking, i) => [questions[i]!.name, is_lacking]),
      questions.map(({ name, lack }) => [name, lack !== undefined]),
    );
  });

  it('is the same to the gateway and to its database, whatever the numbers are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(question, { minLength: 1, maxLength: 100 }), async (asked) => {
        const found = await lackingInDatabase(asked);
        assert.deepEqual(
          found,
          asked.map((each) => lacking(each) !== undefined),
        );
      }),
      { numRuns: 60 },
    );
  });
});

describe('how far a limit may be passed', () => {
  it('is never more than the share of it, exact to the nano-USD', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 0, max: 1_000_000 }), (limit, ppm) => {
        const exact = (BigInt(limit) * BigInt(ppm)) / 1_000_000n;
        assert.equal(BigInt(overshootOf(limit, ppm / 10_000)), exact);
      }),
    );
  });
});

it('the remainder of a limit is never negative', () => {
  assert.equal(remainingOf({ limit: 10, spent: 3, reserved: 4 }), 3);
  assert.equal(remainingOf({ limit: 10, spent: 30, reserved: 4 }), 0);
});
