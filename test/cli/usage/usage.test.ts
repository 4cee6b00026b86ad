import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { type UsageRow, usageCsv } from '../../../engine/domain/budget/reports/usage.ts';
import { createServiceToken } from '../../../engine/domain/identity/tokens/service-tokens.ts';
import { describeUsage } from '../../../engine/edge/cli/usage/usage.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { commandBench } from '../command-bench.ts';

const bench = commandBench();

test('usage is a table of at most 80 columns with totals, and its filters narrow it down', async () => {
  const user = 'grace@a.rather.long.domain.with.many.parts.and.more.example.com';
  await bench.request(await bench.newToken({ user, team: 'platform' }));
  await bench.request(await bench.newToken({ user: 'heidi@example.com', team: 'search' }));
  const { stdout } = await bench.succeed('usage', '--since', '1d');
  assert.match(stdout, /^USER[\s\S]*\nTOTAL .*\n$/i);
  assertNarrow(stdout);
  const narrow = JSON.parse((await bench.succeed('usage', '--team', 'platform', '--json')).stdout);
  const teams = narrow.map(({ team }: { team: string }) => team);
  assert.deepEqual(teams, ['platform']);
  assert.deepEqual(JSON.parse((await bench.succeed('usage', '--until', '2020-01-01', '--json')).stdout), []);
  assert.deepEqual(JSON.parse((await bench.succeed('usage', '--model', 'other', '--json')).stdout), []);
});

test('usage --by and --csv sum by the given dimensions, exactly, up to a moment', async () => {
  const token = await bench.newToken({ user: 'judy@example.com', team: 'finance', project: '=cmd|x' });
  await bench.request(token);
  await bench.request(token);
  const only = ['--user', 'judy@example.com'];
  const [titles, row, rest] = (await bench.succeed('usage', '--by', 'project,month', '--csv', ...only)).stdout.split(
    '\r\n',
  );
  assert.equal(
    titles,
    'project,month,requests,input_tokens,output_tokens,cache_read_tokens,cache_write_5m_tokens,cache_write_1h_tokens,cost_usd,adjusted_usd,possibly_billed_usd,possibly_billed_in_cost_usd',
  );
  assert.match(row!, /^"'=cmd\|x",20\d\d-\d\d,2,200,80,4000,20,40,0\.003315,0,0,0$/);
  assert.equal(rest, '');
  const by_day = JSON.parse((await bench.succeed('usage', '--by', 'day', '--json', ...only)).stdout);
  assert.deepEqual(Object.keys(by_day[0]).slice(0, 2), ['day', 'requests']);
  assert.equal(by_day[0].cost_usd, 0.003315);
  const [{ token: id }] = JSON.parse((await bench.succeed('usage', '--by', 'token', '--json', ...only)).stdout);
  assert.match(id, /^tok_/);
  const none = await bench.succeed('usage', '--csv', '--until', '2020-01-01');
  assert.equal(none.stdout.split('\r\n').length, 2);
});

test("usage narrows down to a token, a token group and the upstream's own model", async () => {
  const today = new Date().toISOString().slice(0, 10);
  const token = await bench.newToken({ user: 'kim@example.com', name: 'one' });
  await bench.request(token);
  const only = ['--user', 'KIM@example.com'];
  const counted = async (...filter: readonly string[]) => {
    const { stdout } = await bench.succeed('usage', '--json', ...only, ...filter);
    return JSON.parse(stdout).reduce((sum: number, { requests }: { requests: number }) => sum + requests, 0);
  };
  const [{ token: id }] = JSON.parse((await bench.succeed('usage', '--by', 'token', '--json', ...only)).stdout);
  assert.equal(await counted('--token', id), 1);
  assert.equal(await counted('--token', 'tok_other'), 0);
  assert.equal(await counted('--token-group', 'all', '--protocol', 'messages'), 1);
  assert.equal(await counted('--token-group', 'mapped-only'), 0);
  assert.equal(await counted('--upstream-model', 'coder-1'), 1);
  assert.equal(await counted('--protocol', 'count_tokens'), 0);
  assert.equal(await counted('--until', today), 0);
  assert.equal(await counted('--since', '12h', '--time-zone', 'Asia/Kolkata'), 1);
  const { stdout } = await bench.succeed('usage', '--csv', '--by', 'month,team,model,estimated', ...only);
  assert.match(stdout, /^month,team,model,estimated,requests,[^\n]+\r\n\d{4}-\d\d,,coder-1,no,1,/);
});

test('usage rejects unknown dimensions, duplicates, too many, unknown zones, and two formats at once', async () => {
  await assertRefused(
    (...words) => bench.run('usage', ...words),
    [
      ...['colour', 'user,', '', 'user,user', 'user,team,model,day,week'].map(
        (by) => [['--by', by], /Expected one to four of user, team, /] as const,
      ),
      ['--by user,team,model', /--by user,team,model has more than two dimensions: add --csv or --json, or use fewer/],
      ...['+02:00', 'Mars/Base', "UTC'; drop table ledger; --"].map(
        (zone) => [['--time-zone', zone], /Expected the name of a time zone such as UTC or Europe\/Berlin/] as const,
      ),
      ['--csv --json', /'--csv' cannot be used with option '--json'/],
    ],
  );
});

const row = (more: Partial<UsageRow>) => ({
  requests: 1,
  input_tokens: 2,
  output_tokens: 3,
  cache_read_tokens: 4,
  cache_write_5m_tokens: 5,
  cache_write_1h_tokens: 6,
  cost_nano_usd: 1_500n,
  adjusted_nano_usd: 0n,
  possibly_billed_nano_usd: 0n,
  possible_nano_usd: 0n,
  ...more,
});

test('a table by one or two dimensions has whole names, and its sum is rounded once', () => {
  const long = 'somebody-with-a-very-long-name@department.of.a.long.name.example.com';
  const rows = [row({ team: 'search', user: long }), row({ team: null, user: 'b\x1b@example.com' })];
  const by_user = describeUsage(rows, 80, ['user']);
  assert.ok(by_user[1]!.startsWith(`${long}  `));
  assert.equal(by_user.length, 4);
  assert.match(by_user[0]!, /^USER +REQUESTS/);
  assert.match(by_user[3]!, /^TOTAL +2 .* 0\.000003$/);
  assert.match(by_user[1]!, / 0\.000002$/);
  const by_both = describeUsage(rows, 80, ['team', 'user']);
  assert.match(by_both[0]!, /^TEAM, USER +REQUESTS/);
  assert.equal(by_both[1], 'search');
  assert.match(by_both[2]!, /^ {2}somebody-.*\.example\.com +1 /);
  assert.equal(by_both[3], '(no team)');
  assert.ok(!by_both.join('').includes('\x1b'));
});

test('CSV keeps amounts that a JavaScript number cannot', () => {
  const csv = usageCsv([row({ month: '2026-03', cost_nano_usd: 2n ** 60n + 1n })], ['month']);
  assert.match(csv, /\r\n2026-03,1,2,3,4,5,6,1152921504\.606846977,0,0,0\r\n$/);
});

test('a table marks later corrections', () => {
  const rows = [row({ user: 'ann@example.com', adjusted_nano_usd: -500_000n }), row({ user: 'bob@example.com' })];
  const lines = describeUsage(rows, 80, ['user']);
  assertNarrow(lines.join('\n'));
  assert.match(lines[0]!, /COST USD +ADJUSTED$/);
  assert.match(lines[1]!, / -0\.000500$/);
  assert.match(lines[2]!, / 0\.000002$/);
  assert.match(lines[3]!, /^TOTAL .* -0\.000500$/);
  const possible = describeUsage([row({ user: 'ann@example.com', possibly_billed_nano_usd: 1_500_000n })], 80, [
    'user',
  ]);
  assert.match(possible.join(' '), /Upstreams may bill up to 0\.001500 USD more for failed attempts\.$/);
  assert.match(usageCsv(rows, ['user']), /ann@example\.com,.*,0\.0000015,-0\.0005,0,0\r\n/);
});

test("usage prints the admin API's response, to the nano-dollar and to the byte", async () => {
  await bench.request(await bench.newToken({ user: 'una@example.com', team: '@sum', project: 'a,"b' }));
  const { database, url } = bench.gateway;
  const by = { database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
  const { token } = await createServiceToken(by, {
    name: 'report',
    scopes: ['usage:read'],
    expires_at: new Date(Date.now() + 60_000),
  });
  const read = async (path: string) => {
    const response = await fetch(`${url}/admin/api/${path}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 200);
    return response.text();
  };
  for (const dimensions of ['user,project', 'model,day,estimated', 'team']) {
    const printed = await bench.succeed('usage', '--by', dimensions, '--json');
    const { rows } = JSON.parse(await read(`usage?by=${dimensions}`)) as { rows: { of: object; sums: object }[] };
    const expected = rows.map(({ of, sums }) => {
      const { estimated_usd: _, cache_hit_ratio: __, ...numbers } = sums as Record<string, number>;
      return { ...of, ...numbers };
    });
    assert.deepEqual(expected, JSON.parse(printed.stdout));
    const csv = await bench.succeed('usage', '--by', dimensions, '--csv');
    assert.equal(await read(`usage.csv?by=${dimensions}`), csv.stdout);
  }
});
