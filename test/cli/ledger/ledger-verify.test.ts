import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LedgerVerification } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { describeVerification } from '../../../engine/edge/cli/ledger.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { commandBench } from '../command-bench.ts';

const bench = commandBench();
const NOTHING = { total: 0, first: [] };

test('ledger verify finds nothing while a gateway runs, then names manual changes, and exits 1', async () => {
  const { knex } = bench.gateway.database;
  const token = await bench.newToken({ user: 'ivan@example.com', team: 'search' });
  await bench.request(token);
  const clean = await bench.succeed('ledger', 'verify');
  assert.match(clean.stdout, /^The ledger adds up: compared \d+ counters with \d ledger rows? of 0\.\d+ USD and /);
  assertNarrow(clean.stdout);
  assert.equal(clean.stderr, '');
  const { ok, differences } = JSON.parse((await bench.succeed('ledger', 'verify', '--json')).stdout);
  assert.deepEqual({ ok, differences }, { ok: true, differences: NOTHING });

  const counter = () => knex('spend_counters').where({ scope: 'user', key: 'ivan@example.com' });
  await counter().increment('spent', 1);
  const [{ id, window_start }] = await counter();
  const result = await bench.run('ledger', 'verify');
  assert.equal(result.exit_code, 1, result.stderr);
  assertNarrow(result.stdout);
  assert.match(
    result.stdout,
    /^1 amount of the counters differs from the ledger:\n {2}user ivan@example\.com, day from /,
  );
  assert.match(
    result.stdout.replace(/\s+/g, ' '),
    /spent 0\.001657501 USD, should be 0\.0016575 USD \(0\.000000001 USD too much\) .* The ledger does not add up: /,
  );
  const listed = await bench.run('ledger', 'verify', '--json');
  assert.equal(listed.exit_code, 1);
  assert.deepEqual(JSON.parse(listed.stdout).differences, {
    total: 1,
    first: [
      {
        counter_id: String(id),
        scope: 'user',
        key: 'ivan@example.com',
        window: 'day',
        unit: 'nano_usd',
        window_start: window_start.toISOString(),
        amount: 'spent',
        kept_usd: '0.001657501',
        recomputed_usd: '0.0016575',
      },
    ],
  });
  await counter().decrement('spent', 1);
  await bench.succeed('ledger', 'verify');
});

test('ledger sum recomputes manually changed sums, as ledger verify suggests', async () => {
  const { knex } = bench.gateway.database;
  await bench.request(await bench.newToken({ user: 'judy@example.com' }));
  await bench.succeed('ledger', 'sum');
  const usage = async () => (await bench.succeed('usage', '--json')).stdout;
  const before = await usage();
  await knex('usage_days').increment('cost_nano_usd', 5);
  await knex('usage_hours').increment('cost_nano_usd', 5);
  const result = await bench.run('ledger', 'verify');
  assert.equal(result.exit_code, 1, result.stderr);
  assertNarrow(result.stdout);
  assert.match(
    result.stdout.replace(/\s+/g, ' '),
    /\d sums? of usage .* cost 0\.000000005 USD too much .* `appscli ledger sum --since/,
  );
  assert.notEqual(await usage(), before);
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  const { stdout } = await bench.succeed('ledger', 'sum', '--since', '2026-01-01', '--until', tomorrow);
  assert.match(stdout, /^Recomputed the sums of \d ledger lines?\.\n$/);
  await bench.succeed('ledger', 'verify');
  assert.equal(await usage(), before);
  assert.ok(JSON.parse((await bench.succeed('ledger', 'sum', '--json')).stdout).lines >= 1);
  const period = 'ledger sum --since 2026-01-02 --until 2026-01-02';
  await assertRefused(bench.run, [[period, /--since must be before --until/]]);
});

const SUMMED = { user: 'b@example.com', model: 'coder-1', upstream: 'main' };

test('reports every kind of finding with its amount and remedy, in 80 columns', () => {
  const at = new Date('2026-03-10T12:00:00Z');
  const found: LedgerVerification = {
    counters: 3,
    ledger_rows: 5,
    cost_nano_usd: 2n ** 60n,
    reservations: 2,
    reserved_nano_usd: 1n,
    differences: {
      total: 30,
      first: Array.from({ length: 30 }, (_, n) => ({
        counter_id: null,
        scope: null,
        key: null,
        window: null,
        unit: null,
        window_start: null,
        amount: 'reserved',
        kept: 0n,
        recomputed: BigInt(1000 - n),
      })),
    },
    repeated: { total: 1, first: [{ request_id: 'req_1', ledger_rows: 2, reservations: 1, cost_nano_usd: 5n }] },
    uncounted: { total: 1, first: [{ request_id: 'req_2', user: 'a\x1b[2J@example.com', cost_nano_usd: 6n }] },
    attempts: {
      total: 1,
      first: [
        {
          ...{ request_id: 'req_5', user: 'b@example.com', cost_nano_usd: 5n, attempts_nano_usd: 4n },
          ...{ possibly_billed_nano_usd: 3n, attempts_possibly_billed_nano_usd: 0n },
        },
      ],
    },
    left: {
      total: 2,
      first: [
        { request_id: 'req_3', user: 'b@example.com', reserved_at: at, amount_nano_usd: 7n, heartbeat_at: at },
        { request_id: 'req_4', user: 'b@example.com', reserved_at: at, amount_nano_usd: 7n, heartbeat_at: null },
      ],
    },
    sums: {
      total: 2,
      first: [
        { span: 'hour', start: at, ...SUMMED, amount: 'cost_nano_usd', off_by: -8n },
        { span: 'day', start: at, ...SUMMED, amount: 'input_tokens', off_by: 9n },
      ],
    },
  };
  const text = describeVerification(found).join('\n');
  assertNarrow(text);
  assert.ok(!text.includes('\x1b'));
  const words = text.replace(/\s+/g, ' ');
  for (const expected of [
    '30 amounts of the counters differ from the ledger:',
    'counter without an id, which does not exist: reserved 0 USD, should be 0.000001 USD (0.000001 USD too little)',
    'and 10 more with smaller amounts',
    '1 request recorded more than once: req_1: 2 ledger rows of 0.000000005 USD, and still reserved',
    '1 ledger row whose cost is in no counter: req_2 of ',
    '1 ledger row with attempts that do not add up: req_5 of b@example.com: 0.000000005 USD, its attempts 0.000000004 USD; possibly billed 0.000000003 USD, its attempts 0 USD',
    '2 reservations of gateways that no longer run: req_3 of b@example.com: 0.000000007 USD since 2026-03-10 12:00 UTC; its gateway was last alive at 2026-03-10 12:00 UTC',
    'its gateway is unknown',
    '2 sums of usage by hour or day differ from the ledger: hour from 2026-03-10 12:00 UTC, b@example.com, coder-1 at main: cost 0.000000008 USD too little day from 2026-03-10 12:00 UTC, b@example.com, coder-1 at main: input tokens 9 too much Only',
    'Recompute them with `appscli ledger sum --since DAY --until DAY`.',
    'The ledger does not add up: compared 3 counters with 5 ledger rows of 1152921504.606846976 USD and 2 reservations of 0.000000001 USD.',
  ]) {
    assert.ok(words.includes(expected), `${expected}\n${text}`);
  }
});
