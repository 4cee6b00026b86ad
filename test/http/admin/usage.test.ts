import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { DatabaseLedger } from '../../../engine/domain/budget/ledger/ledger.ts';
import {
  reportUsage,
  type UsageBounds,
  type UsageDimension,
  type UsageFilter,
  usageJson,
} from '../../../engine/domain/budget/reports/usage.ts';
import { ofStore } from '../../../engine/edge/admin/usage.ts';
import { quietLog, reservation, settlement } from '../../support/store.ts';
import { adminBench, config, pick } from './support.ts';

const bench = adminBench({
  ...config,
  spend_limits: { time_zone: 'Pacific/Auckland', rules: [], defaults: {} },
} as never);

const HOUR_MS = 3_600_000;
const USAGE = '/admin/api/usage';
const MODELS = ['coder-1', 'writer-1', '=HYPERLINK("http://x")'];

/** Two days of requests, ten hours apart: alice and bob, three models, some estimated. */
before(async () => {
  const { database, clock } = bench;
  const ledger = new DatabaseLedger({ database, clock, log: quietLog, every: () => () => {} });
  clock.advance(-48 * HOUR_MS);
  for (let i = 0; i < 6; i++) {
    const user = i % 3 === 0 ? 'bob@example.com' : 'alice@example.com';
    const request = reservation({ user, model: MODELS[i % 3]!, team: i % 2 === 0 ? 'search' : null });
    await ledger.reserve(request);
    const cost = i === 4 ? 'estimate' : 'upstream';
    await ledger.settle(settlement(request, { cost_nano_usd: 10 ** i + 1, provenance: { cost } }));
    clock.advance(10 * HOUR_MS);
  }
  clock.advance(-12 * HOUR_MS);
  await ledger.close();
});

const ask = (status: number, who: string, query: string, path = USAGE) => bench.get(who, `${path}?${query}`, status);

const refused = async (message: RegExp, query: string, status = 400, who = 'root') =>
  assert.match((await ask(status, who, query)).error.message, message);

describe('usage over the admin API', () => {
  test('has the rows of the report, to the nano-dollar, by any dimensions and filters', async () => {
    const time_zone = 'Pacific/Auckland';
    const cases: readonly [readonly UsageDimension[], UsageFilter][] = [
      [['user'], {}],
      [['model', 'team', 'status'], {}],
      [['day', 'user'], { since: '2026-03-09' }],
      [['estimated', 'protocol'], { until: '2026-03-10' }],
      [['hour', 'token', 'upstream', 'model'], { team: 'search' }],
    ];
    for (const [by, filter] of cases) {
      const wanted = await reportUsage(bench.database, filter, { by, time_zone });
      const { rows } = await ask(200, 'root', new URLSearchParams({ by: by.join(','), ...filter } as never).toString());
      const plain = ({ of, sums }: { of: object; sums: Record<string, unknown> }) => {
        const { estimated_usd, cache_hit_ratio, ...counted } = sums;
        return { ...of, ...counted };
      };
      assert.deepEqual(rows.map(plain), JSON.parse(JSON.stringify(wanted.map(usageJson))), by.join());
    }
  });

  test('reports the total, the estimated share and the cached share', async () => {
    const { total, rows, since, time_zone, previous } = await ask(200, 'root', '');
    assert.deepEqual([rows.length, since, previous, time_zone], [1, null, null, 'Pacific/Auckland']);
    assert.equal(total.cost_usd, 0.000111117);
    assert.equal(total.estimated_usd, 0.000010001);
    assert.deepEqual([total.requests, total.cache_hit_ratio], [6, 3 / 16]);
  });

  test('sums up the rows beyond the limit, so that the rows add up to the total', async () => {
    const { rows, total } = await ask(200, 'root', 'by=model,user&limit=1');
    assert.deepEqual(pick(rows, 'of', 'others'), [
      [{ model: MODELS[2], user: 'alice@example.com' }, 0],
      [{ model: null, user: null }, 2],
    ]);
    assert.deepEqual(pick(pick(rows, 'sums'), 'cost_usd'), [0.000100102, 0.000011015]);
    assert.equal(total.cost_usd, 0.000111117);
    const by_day = await ask(200, 'root', 'by=day,model&limit=1');
    assert.deepEqual(pick(by_day.rows, 'of', 'others'), [
      [{ day: '2026-03-09', model: MODELS[2] }, 0],
      [{ day: '2026-03-09', model: null }, 2],
      [{ day: '2026-03-10', model: null }, 2],
      [{ day: '2026-03-11', model: MODELS[2] }, 0],
    ]);
  });

  test('compares with the period before, whole days back, with the same rows', async () => {
    // It is noon UTC of the 10th, an hour after midnight of the 11th in Auckland.
    const today = await ask(200, 'root', 'since=2026-03-11&compare=previous');
    const days = await ask(200, 'root', 'since=2026-03-10&until=2026-03-11&compare=previous&by=user&limit=1');
    assert.deepEqual(pick([today, today.previous, days, days.previous], 'since', 'until'), [
      ['2026-03-10T11:00:00.000Z', '2026-03-10T12:00:00.000Z'],
      ['2026-03-09T11:00:00.000Z', '2026-03-09T12:00:00.000Z'],
      ['2026-03-09T11:00:00.000Z', '2026-03-10T11:00:00.000Z'],
      ['2026-03-08T11:00:00.000Z', '2026-03-09T11:00:00.000Z'],
    ]);
    for (const { rows } of [days, days.previous]) {
      assert.deepEqual(pick(pick(rows, 'of'), 'user'), ['alice@example.com', null]);
    }
    assert.deepEqual([days.total.cost_usd, days.previous.total.cost_usd], [0.000011002, 0.000000114]);
    await refused(/^The parameter "since" is missing/, 'compare=previous');
  });

  test("is limited to one's own except for administrators, with any filter", async () => {
    const { rows } = await ask(200, 'alice', 'by=user,model');
    assert.deepEqual([...new Set(pick(pick(rows, 'of'), 'user'))], ['alice@example.com']);
    assert.equal((await ask(200, 'nina', '')).total.requests, 0);
    await refused(/admin role required to see entries of bob@example\.com/i, 'user=bob@example.com', 403, 'alice');
    await ask(403, 'alice', 'user=bob@example.com', `${USAGE}.csv`);
    assert.doesNotMatch(await ask(200, 'alice', 'by=user', `${USAGE}.csv`), /bob/);
  });

  test('is rejected with an explanation if it is implausible', async () => {
    await refused(/"by" has an unknown dimension "modle": did you mean `model`\?/, 'by=modle');
    await refused(/"by" has an unknown dimension with an invalid name: expected one to four of user, team/, 'by=a%20b');
    await refused(/"by" is wrong: expected one to four different dimensions/, 'by=user,user');
    await refused(/"by" is wrong/, 'by=user,model,team,project,status');
    await refused(/"time_zone" is wrong: expected the name of a time zone/, 'time_zone=Mars/Olympus');
    for (const wrong of ['yesterday', '2026-02-30', '0000-01-01', '1969-12-31', '2026-03-10T00:00']) {
      await refused(/"since" is wrong: expected a date such as 2027-01-31, or a time/, `since=${wrong}`);
    }
    await refused(/"since" must be before "until"/, 'since=2026-03-10&until=2026-03-10');
    await refused(/"limit" is wrong: expected a whole number from 1 to 1000/, 'limit=0');
    await refused(/"compare" is wrong: expected previous/, 'compare=next');
    await refused(/Duplicate parameter/, 'by=user&by=model');
  });

  test('that takes too long, or has too many rows, is aborted with a remedy', async () => {
    const report = (bounds: UsageBounds) => ofStore(reportUsage(bench.database, {}, { by: ['model'] }, bounds));
    assert.equal((await report({ patience_ms: 30_000, most_rows: 3 })).length, 3);
    await assert.rejects(report({ most_rows: 2 }), /adds up more than 2 rows: use a shorter period/);
    await bench.database.knex.transaction(async (other) => {
      await other.raw('lock table usage_waiting in access exclusive mode');
      await assert.rejects(report({ patience_ms: 50 }), /took longer than 30 seconds: use a shorter period/);
    });
  });
});
