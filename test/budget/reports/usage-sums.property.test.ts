import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { REPORT_TIMES, type ReportTime, WINDOWS } from '../../../engine/base/contract/windows.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import {
  isTime,
  reportUsage,
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageFilter,
  type UsageGrouping,
  type UsageRow,
} from '../../../engine/domain/budget/reports/usage.ts';
import { openTestStore, type TestStore } from '../../support/store.ts';
import { times } from '../../support/times.ts';

let store: TestStore;
let database: Database;
before(async () => {
  store = await openTestStore();
  database = store.database;
  await database.knex.raw(
    `insert into principals (id, email) values ('user:ann', 'ann');
     insert into access_tokens (id, hash, prefix, principal_id, token_group, name)
     select id, id::bytea, 'gw_', 'user:ann', 'all', id from unnest(array['t1', 't2']) as id`,
  );
});
after(() => store.close());

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
  const made = rows.map((given) => ({
    request_id: `r${++written}`,
    kind: given.kind,
    protocol: 'messages',
    principal_id: `user:${given.user}`,
    user_email: given.user,
    team: given.team,
    token_id: given.token_id,
    model: given.model,
    upstream: 'main',
    upstream_model: given.model,
    status: given.status,
    aborted: false,
    input_tokens: 1,
    output_tokens: 2,
    cache_read_tokens: 3,
    cache_write_5m_tokens: 4,
    cache_write_1h_tokens: 5,
    billed: given.billed,
    cost_nano_usd: given.kind === 'adjustment' ? -given.cost : given.cost,
    provenance: {
      cost: given.kind === 'adjustment' ? 'repriced' : given.cost_from,
      ...(given.kind === 'adjustment' && { of: given.cost_from }),
      possibly_billed_nano_usd: given.possible,
    },
    attempts:
      given.attempts?.map((each, i) => ({
        n: i + 1,
        upstream: each.upstream,
        upstream_model: given.model,
        provenance: given.cost_from,
        cost_nano_usd: each.cost,
        possibly_billed_nano_usd: each.possible,
      })) ?? null,
    counter_ids: [],
    forwarded_at: given.forwarded_at,
    settled_at: new Date(given.forwarded_at.getTime() + given.seconds * 1000),
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

async function take(given: Step): Promise<void> {
  const run = (text: string, values: unknown[] = []) => database.knex.raw(text, values as never);
  const { knex } = database;
  if (given.do === 'write') await write(given.rows);
  else if (given.do === 'sum') await run('select sum_usage(?)', [given.most]);
  else if (given.do === 'change')
    await knex('ledger').where({ user_email: given.user }).update({ cost_nano_usd: 3, attempts: null });
  else if (given.do === 'move') {
    await run(`update ledger set forwarded_at = forwarded_at - interval '40 minutes' where user_email = ?`, [
      given.user,
    ]);
  } else if (given.do === 'delete') await knex('ledger').where({ user_email: given.user, status: 500 }).delete();
  else if (given.do === 'again') {
    const day = FIRST + given.day * 24 * HOUR_MS;
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
  it('say what the rows of the ledger come to, whatever was written, summed, changed or dropped, and however they are asked', async () => {
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

/** What a report on usage says, by the rows of the ledger alone: as slow as they are many, and right. */

const FORWARDED = 'l.forwarded_at at time zone :zone';

const DIMENSIONS: Readonly<Record<UsageDimension, string>> = {
  user: 'l.user_email',
  team: 'l.team',
  project: 'l.project',
  model: 'l.model',
  upstream: 'l.upstream',
  upstream_model: 'l.upstream_model',
  protocol: 'l.protocol',
  token: 'l.token_id',
  token_group: 't.token_group',
  answered_model: "l.billed ->> 'model'",
  service_tier: "l.billed ->> 'service_tier'",
  speed: "l.billed ->> 'speed'",
  status: "left(l.status::text, 1) || 'xx'",
  estimated: "case l.cost_from when 'upstream' then 'no' when 'clamped' then 'clamped' else 'yes' end",
  ...(Object.fromEntries(
    REPORT_TIMES.map((time) => [time, `to_char(${FORWARDED}, '${WINDOWS[time].format}')`]),
  ) as Record<ReportTime, string>),
};

/** Like `reportUsage`, from the view `ledger_lines`, in any order. */
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
    ...names.filter((name) => named[name] !== undefined).map((name) => `${DIMENSIONS[name]} = :${name}`),
  ];
  const possible = (condition: string) =>
    `coalesce(sum(l.possibly_billed_nano_usd) filter (where l.cost_from ${condition}), 0)::text`;
  const { rows } = await database.knex.raw<{ rows: UsageRow[] }>(
    `select ${by.map((name) => `${DIMENSIONS[name]} as "${name}",`).join(' ')}
       count(*) filter (where l.kind = 'request') as requests,
       sum(l.input_tokens)::bigint as input_tokens, sum(l.output_tokens)::bigint as output_tokens,
       sum(l.cache_read_tokens)::bigint as cache_read_tokens, sum(l.cache_write_5m_tokens)::bigint as cache_write_5m_tokens,
       sum(l.cache_write_1h_tokens)::bigint as cache_write_1h_tokens, sum(l.cost_nano_usd)::text as cost_nano_usd,
       coalesce(sum(l.cost_nano_usd) filter (where l.kind = 'adjustment'), 0)::text as adjusted_nano_usd,
       ${possible("is distinct from 'possible'")} as possibly_billed_nano_usd, ${possible("= 'possible'")} as possible_nano_usd
     from ledger_lines l left join access_tokens t on t.id = l.token_id
     where ${conditions.join(' and ')}
     group by ${by.map((_, i) => i + 1).join(', ') || '()'} having count(*) > 0`,
    { zone: time_zone, since, until, ...named, user: named.user?.toLowerCase() } as never,
  );
  return rows.map((row) => ({
    ...row,
    cost_nano_usd: BigInt(row.cost_nano_usd),
    adjusted_nano_usd: BigInt(row.adjusted_nano_usd),
    possibly_billed_nano_usd: BigInt(row.possibly_billed_nano_usd),
    possible_nano_usd: BigInt(row.possible_nano_usd),
  }));
}

function momentOf(name: string, moment: Date | string): string {
  return moment instanceof Date
    ? `cast(:${name} as timestamptz)`
    : `first_of(cast(:${name} as timestamp) at time zone :zone, :zone)`;
}
