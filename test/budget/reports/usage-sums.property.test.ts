import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { REPORT_TIMES, WINDOWS } from '../../../engine/base/contract/windows.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import {
  AMOUNTS,
  COUNTS,
  isTime,
  reportUsage,
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from '../../../engine/domain/budget/reports/usage.ts';
import { useTestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

const { database } = useTestStore();
before(async () => {
  await database.knex.raw(
    `insert into principals (id, email) values ('user:ann', 'ann');
     insert into access_tokens (id, hash, prefix, principal_id, token_group, name)
     select id, id::bytea, 'gw_', 'user:ann', 'all', id from unnest(array['t1', 't2']) as id`,
  );
});

const FIRST = Date.parse('2026-02-26T00:00:00Z');
const HOUR_MS = 3_600_000;
const ZONES = ['UTC', 'Europe/Berlin', 'America/Los_Angeles', 'Asia/Kolkata', 'Asia/Kathmandu', 'Pacific/Auckland'];

/** Around the change of a month and of the clocks in America; the odd hours more often. */
const moment = fc
  .tuple(fc.integer({ min: 0, max: 13 * 24 }), fc.constantFrom(0, 1, 15 * 60_000, 30 * 60_000, HOUR_MS - 1))
  .map(([hours, ms]) => new Date(FIRST + hours * HOUR_MS + ms));
const name = fc.constantFrom('a', 'b', "'; x\u00e9", null);
const money = fc.integer({ min: 0, max: 1_000_000_000_000 });
const attempt = fc.record({
  upstream: fc.constantFrom('main', 'spare'),
  cost: fc.constantFrom(0, 0, 7),
  possible: fc.constantFrom(0, 0, 9),
});

const row = fc.record({
  forwarded_at: moment,
  seconds: fc.constantFrom(0, 1, 90, 7200, 100_000),
  kind: fc.constantFrom('request', 'request', 'request', 'adjustment'),
  user: fc.constantFrom('ann', 'bob', 'cy'),
  team: name,
  token_id: fc.constantFrom('t1', 't2', 'gone', null),
  model: fc.constantFrom('coder-1', 'x'.repeat(5000)),
  status: fc.constantFrom(200, 201, 429, 500, null),
  billed: fc.constantFrom(null, { model: 'coder-9', speed: 'fast' }),
  cost: money,
  cost_from: fc.constantFrom('upstream', 'upstream', 'clamped', 'estimate', 'possible', null),
  possible: fc.constantFrom(undefined, 5),
  attempts: fc.option(fc.array(attempt, { minLength: 1, maxLength: 3 })),
});
type Row = typeof row extends fc.Arbitrary<infer T> ? T : never;

let written = 0;

async function write(rows: readonly Row[]): Promise<void> {
  const made = rows.map((input) => ({
    request_id: `r${++written}`,
    kind: input.kind,
    protocol: 'messages',
    principal_id: `user:${input.user}`,
    user_email: input.user,
    team: input.team,
    token_id: input.token_id,
    model: input.model,
    upstream: 'main',
    upstream_model: input.model,
    status: input.status,
    aborted: false,
    input_tokens: 1,
    output_tokens: 2,
    cache_read_tokens: 3,
    cache_write_5m_tokens: 4,
    cache_write_1h_tokens: 5,
    billed: input.billed,
    cost_nano_usd: input.kind === 'adjustment' ? -input.cost : input.cost,
    provenance: {
      cost: input.kind === 'adjustment' ? 'repriced' : input.cost_from,
      ...(input.kind === 'adjustment' && { of: input.cost_from }),
      possibly_billed_nano_usd: input.possible,
    },
    attempts:
      input.attempts?.map((each, i) => ({
        n: i + 1,
        upstream: each.upstream,
        upstream_model: input.model,
        provenance: input.cost_from,
        cost_nano_usd: each.cost,
        possibly_billed_nano_usd: each.possible,
      })) ?? null,
    counter_ids: [],
    forwarded_at: input.forwarded_at,
    settled_at: new Date(input.forwarded_at.getTime() + input.seconds * 1000),
  }));
  await database.knex.raw(`insert into ledger select r.* from jsonb_populate_recordset(null::ledger, ?) as r`, [
    JSON.stringify(made),
  ]);
}

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('write' as const), rows: fc.array(row, { minLength: 1, maxLength: 12 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('sum' as const), most: fc.constantFrom(1, 5, 1000) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('change' as const, 'move' as const, 'delete' as const),
      user: fc.constantFrom('ann', 'bob'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('again' as const), day: fc.integer({ min: 0, max: 13 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drop' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function take(input: Step): Promise<void> {
  const run = (text: string, values: unknown[] = []) => database.knex.raw(text, values as never);
  const { knex } = database;
  if (input.do === 'write') await write(input.rows);
  else if (input.do === 'sum') await run('select sum_usage(?)', [input.most]);
  else if (input.do === 'change')
    await knex('ledger').where({ user_email: input.user }).update({ cost_nano_usd: 3, attempts: null });
  else if (input.do === 'move') {
    await run(`update ledger set forwarded_at = forwarded_at - interval '40 minutes' where user_email = ?`, [
      input.user,
    ]);
  } else if (input.do === 'delete') await knex('ledger').where({ user_email: input.user, status: 500 }).delete();
  else if (input.do === 'again') {
    const day = FIRST + input.day * 24 * HOUR_MS;
    await run('select sum_again(?, ?)', [new Date(day), new Date(day + 48 * HOUR_MS)]);
  } else {
    await run(
      `select ensure_partition('ledger', 'settled_at', '2026-02-01'), ensure_partition('usage_hours', 'start', '2026-02-01')`,
    );
    await run(`select drop_oldest_month('ledger', 0, '2026-03-05')`);
  }
}

const bound = fc.option(
  fc.oneof(
    moment,
    moment.map((at) => at.toISOString().slice(0, 10)),
  ),
  { nil: undefined },
);
const question = fc.record({
  by: fc.subarray([...USAGE_DIMENSIONS], { maxLength: 4 }),
  time_zone: fc.constantFrom(...ZONES),
  filter: fc.oneof(
    fc.constant({}),
    fc.record({ user: fc.constantFrom('Ann', 'bob', 'nobody', "' or true --") }),
    fc.record({ token_group: fc.constant('all'), upstream: fc.constantFrom('main', 'spare') }),
    fc.record({ model: fc.constant('coder-1'), team: fc.constant('a'), speed: fc.constantFrom('fast', undefined) }),
  ),
  since: bound,
  until: bound,
});

const sorted = (rows: readonly UsageRow[]) =>
  rows.map((each) => JSON.stringify(each, (_, value) => (typeof value === 'bigint' ? `${value}n` : value))).sort();

describe('the sums of usage', () => {
  it("equal the sum of the ledger's rows, after any write, sum, change or drop, and for any query", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 12 }),
        fc.array(question, { minLength: 1, maxLength: 6 }),
        async (steps, questions) => {
          await database.knex.raw('truncate ledger, ledger_bounds');
          for (const each of steps) await take(each);
          for (const { by, time_zone, since, until, filter } of questions) {
            const asked: UsageFilter = { ...filter, since, until };
            const rows = await reportUsage(database, asked, { by, time_zone });
            assert.deepEqual(sorted(rows), sorted(await usageByRows(database, asked, { by, time_zone })));
            const times = rows.map((each) => by.filter(isTime).map((time) => each[time]));
            assert.deepEqual(times, times.toSorted(), 'the oldest first');
          }
        },
      ),
      { numRuns: times(20) },
    );
  });
});

/** The usage report, by the rows of the ledger alone: as slow as they are many, and right. */

/** Each dimension as the view `usage_lines` has it. */
const DIMENSIONS: Readonly<Partial<Record<UsageDimension, string>>> = {
  ...{ user: 'l.user_email', token: 'l.token_id', token_group: 't.token_group' },
  ...Object.fromEntries(
    REPORT_TIMES.map((time) => [time, `to_char(l.forwarded_at at time zone :zone, '${WINDOWS[time].format}')`]),
  ),
};
const columnOf = (name: UsageDimension) => DIMENSIONS[name] ?? `l.${name}`;

/** Like `reportUsage`, from the lines of the ledger, in any order. */
async function usageByRows(
  database: Pick<Database, 'knex'>,
  { since, until, ...named }: UsageFilter,
  { by = [], time_zone = 'UTC' }: UsageGrouping,
): Promise<UsageRow[]> {
  const names = Object.keys(named) as Exclude<keyof typeof named, undefined>[];
  const conditions = [
    'true',
    ...(since === undefined ? [] : [`l.forwarded_at >= ${momentOf('since', since)}`]),
    ...(until === undefined ? [] : [`l.forwarded_at < ${momentOf('until', until)}`]),
    ...names.filter((name) => named[name] !== undefined).map((name) => `${columnOf(name)} = :${name}`),
  ];
  const { rows } = await database.knex.raw<{ rows: UsageRow[] }>(
    `select ${by.map((name) => `${columnOf(name)} as "${name}",`).join(' ')}
       ${COUNTS.map((name) => `sum(l.${name})::bigint as ${name}`).join(', ')},
       ${AMOUNTS.map((name) => `sum(l.${name})::text as ${name}`).join(', ')}
     from usage_lines l left join access_tokens t on t.id = l.token_id
     where ${conditions.join(' and ')}
     group by ${by.map((_, i) => i + 1).join(', ') || '()'} having count(*) > 0`,
    { zone: time_zone, since, until, ...named, user: named.user?.toLowerCase() } as never,
  );
  const exact = (row: UsageRow) => Object.fromEntries(AMOUNTS.map((name) => [name, BigInt(row[name])]));
  return rows.map((row) => ({ ...row, ...exact(row) }));
}

function momentOf(name: string, moment: Date | string): string {
  return moment instanceof Date
    ? `cast(:${name} as timestamptz)`
    : `first_of(cast(:${name} as timestamp) at time zone :zone, :zone)`;
}
