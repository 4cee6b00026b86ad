import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { parse } from 'csv-parse/sync';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const LINES = '/admin/api/requests.jsonl';
const CSV = '/admin/api/requests.csv';
const MANY = 1203;

before(async () => {
  await bench.database.query(
    'test_many_records',
    `select audit_append((
       select jsonb_agg(jsonb_build_object('at_ms', 1773144000000 - n * 60000, 'request_id', 'r' || n, 'record',
         jsonb_build_object('request_id', 'r' || n, 'user', case n % 3 when 0 then 'bob@example.com' else 'alice@example.com' end,
           'model', case n when 7 then '=HYPERLINK("x")' else 'coder-1' end, 'status', 200, 'cost_usd', 0.25,
           'cost_from', 'upstream', 'client', 'coder-cli')))
       from generate_series(1, ${MANY}) n), false)`,
    [],
  );
});

const linesOf = (body: string): Record<string, unknown>[] =>
  body
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('requests as a file', () => {
  test('are all that fit, each once and whole, the newest first', async () => {
    const { status, body, headers } = await bench.ask('root', 'GET', LINES);
    assert.equal(status, 200);
    assert.equal(headers.get('content-disposition'), 'attachment; filename="requests.jsonl"');
    const lines = linesOf(body);
    assert.deepEqual(
      lines.map(({ request_id }) => request_id),
      Array.from({ length: MANY }, (_, i) => `r${i + 1}`),
    );
    assert.equal(lines[6]!.model, '=HYPERLINK("x")');
    assert.equal(lines[6]!.at, '2026-03-10T11:53:00.000Z');
    const bobs = linesOf(
      (await bench.ask('root', 'GET', `${LINES}?user=bob@example.com&until=2026-03-10T09:00:00Z`)).body,
    );
    assert.ok(bobs.length > 300);
    assert.ok(bobs.every(({ user, at }) => user === 'bob@example.com' && String(at) < '2026-03-10T09:00:00Z'));
  });

  test('are those of the list as CSV, in which no name is a formula', async () => {
    const { body } = await bench.ask('root', 'GET', `${CSV}?since=2026-03-10T11:50:00Z`);
    const rows: Record<string, string>[] = parse(body, { columns: true });
    const listed = (await bench.ask('root', 'GET', '/admin/api/requests?since=2026-03-10T11:50:00Z')).body.requests;
    assert.deepEqual(
      rows.map(({ id, user, cost_usd }) => [id, user, Number(cost_usd)]),
      listed.map(({ id, user, cost_usd }: Record<string, unknown>) => [id, user, cost_usd]),
    );
    assert.deepEqual(Object.keys(rows[0]!), Object.keys(listed[0]));
    assert.equal(rows.find(({ id }) => id === 'r7')!.model, `'=HYPERLINK("x")`);
  });

  test('are for everybody their own alone', async () => {
    const own = linesOf((await bench.ask('bob', 'GET', LINES)).body);
    assert.equal(own.length, Math.floor(MANY / 3));
    assert.ok(own.every(({ user }) => user === 'bob@example.com'));
    for (const path of [LINES, CSV]) {
      assert.equal((await bench.ask('bob', 'GET', `${path}?user=alice@example.com`)).status, 403);
    }
    assert.equal((await bench.ask('nina', 'GET', LINES)).body, '');
  });

  test('are refused where the database is away, before the file begins', async () => {
    await bench.withoutStore(async () => {
      const { status, body } = await bench.ask('root', 'GET', CSV);
      assert.deepEqual([status, body.error.code], [503, 'store_unavailable']);
    });
  });
});
