import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { describeReconciliation, describeRepricing } from '../../../engine/edge/cli/ledger.ts';
import { gatewayConfig } from '../../support/gateway.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { commandBench } from '../command-bench.ts';
import { cli } from '../support.ts';

const bench = commandBench();
const directory = ownDirectory();

const COST = '0.0016575';

async function atTwiceThePrice(...arguments_: readonly string[]) {
  const config_file = join(directory, 'expensive.yaml');
  const config = gatewayConfig('http://127.0.0.1:9', {
    prices: { rows: [{ models: ['*'], multiplier: 2 }] },
  });
  writeFileSync(config_file, JSON.stringify(config));
  return cli([...arguments_, '--config', config_file], { env: bench.env });
}

test('ledger reprice shows the changes, writes them with --yes, and finds nothing afterwards', async () => {
  const before = new Date().toISOString();
  const since = ['--since', before];
  await bench.request(await bench.newToken({ user: 'ivan@example.com', team: 'search' }));
  const same = await bench.succeed('ledger', 'reprice', ...since);
  assert.match(same.stdout, /^No differences in 1 request: the ledger has the prices of gateway\.yaml\.\n$/);

  const shown = await atTwiceThePrice('ledger', 'reprice', ...since);
  assert.equal(shown.exit_code, 0, shown.stderr);
  assertNarrow(shown.stdout);
  assert.match(
    shown.stdout,
    /^DAY +MODEL +REQUESTS +LEDGER USD +NOW USD +DIFFERENCE\n\d{4}-\d\d-\d\d +coder-1 +1 +0\.001658 +0\.003315 +\+0\.001658\nTOTAL /,
  );
  assert.match(shown.stdout, /\nNothing was written\. Add --yes /);

  const { total, written } = JSON.parse(
    (await atTwiceThePrice('ledger', 'reprice', ...since, '--yes', '--json')).stdout,
  );
  assert.deepEqual(total, { requests: 1, ledger_usd: COST, now_usd: '0.003315', difference_usd: COST });
  assert.deepEqual(written, { requests: 1, difference_usd: COST });
  const again = await atTwiceThePrice('ledger', 'reprice', ...since, '--yes');
  assert.match(again.stdout, /No differences in 1 request/);
  assert.doesNotMatch(again.stdout, /Wrote/);

  await bench.succeed('ledger', 'verify');
  const used = await bench.succeed('usage', '--user', 'ivan@example.com');
  assertNarrow(used.stdout);
  assert.match(used.stdout, /COST USD +ADJUSTED\n[\s\S]* 0\.003315 +0\.001658\nTOTAL/);
  const { stdout } = await bench.succeed('audit', 'changes', '--json');
  const change = JSON.parse(stdout.trimEnd().split('\n').at(-1)!);
  assert.deepEqual([change.action, change.after], ['ledger.reprice', { requests: 1, difference_usd: COST }]);
  assert.match(change.actor.name, /@/);
  assert.equal(change.subject, `${before}.. * at *`);

  // The ledger is unchanged for the other test.
  const back = await bench.succeed('ledger', 'reprice', ...since, '--yes');
  assert.match(
    back.stdout,
    /\nWrote 1 adjusting row, -0\.001658 USD in total, and updated the counters of\nlimits\.\n$/,
  );
});

test('rows that repricing skips are reported in 80 columns, with whole names of models', () => {
  const group = {
    day: '2026-03-10',
    model: 'a-model-with-a-rather-long-name-and-a-date-20260310',
    requests: 1_234_567,
  };
  const amounts = { was_nano_usd: 12_345_678_000_000n, cost_nano_usd: 345_678_000_000n };
  const text = describeRepricing(
    {
      compared: 5,
      changes: [
        { ...group, ...amounts, upstream: 'main' },
        { ...group, ...amounts, upstream: 'spare' },
      ],
      skipped: {
        no_tokens: 2,
        estimates: 1,
        no_price: new Map([['evil\x1b[2J', 3]]),
        no_upstream: new Map([['gone', 4]]),
      },
      written: { requests: 2_469_000, difference_nano_usd: -24_000_000_000_000n },
    },
    80,
  ).join('\n');
  assertNarrow(text.slice(text.indexOf('Skipped')));
  assert.match(text, new RegExp(`^2026-03-10 +${group.model} at spare +1234567 `, 'm'));
  assert.ok(!text.includes('\x1b'));
  const words = text.replace(/\s+/g, ' ');
  for (const expected of [
    'TOTAL 2469134 24691.356000 691.356000 -24000.000000',
    'Skipped 2 requests without token counts: rejected by the upstream, or recorded at the reserved amount.',
    'Skipped 1 request without reported usage; include them with --estimates.',
    'which has no price in gateway.yaml.',
    'Skipped 4 requests at gone, which is not in gateway.yaml.',
    'Wrote 2469000 adjusting rows, -24000.000000 USD in total, and updated the counters of limits. Another command has already adjusted 134 requests.',
  ]) {
    assert.ok(words.includes(expected), `${expected}\n${text}`);
  }
});

test('ledger reconcile agrees with an honest bill and disagrees with another, exit code 1', async () => {
  await bench.request(await bench.newToken({ user: 'olga@example.com' }));
  const by_day = await bench.succeed('usage', '--by', 'day,upstream_model', '--json');
  const [{ day, cost_usd }] = JSON.parse(by_day.stdout);
  const bill = join(directory, 'invoice.csv');
  const reconcile = async (text: string, ...more: readonly string[]) => {
    writeFileSync(bill, text);
    return bench.run('ledger', 'reconcile', bill, '--upstream', 'main', ...more);
  };
  const honest = await reconcile(
    `Date,SKU,Total\r\n${day},coder-1,${cost_usd}\r\n`,
    '--columns',
    'day=date,model=sku,cost=total',
  );
  assert.equal(honest.exit_code, 0, honest.stderr);
  assertNarrow(honest.stdout);
  assert.match(
    honest.stdout,
    /^DAY +MODEL +BILL USD +LEDGER USD +BILL - LEDGER +%\nTOTAL [\s\S]*\nAll 1 line agree\.\n/,
  );
  assert.match(honest.stdout, /\nThe bill of main from \S+ to \S+ agrees with the ledger\.\n$/);

  const cents = `day,model,cost\n${day},coder-1,0.01\n`;
  assert.equal((await reconcile(cents)).exit_code, 0);
  assert.equal((await reconcile(cents, '--tolerance-usd', '0')).exit_code, 1);
  const other = `day,model,cost\n${day},coder-1,0\n${day},=cmd|x,123456789.5\n`;
  const off = await reconcile(other, '--tolerance-usd', '0.000000001');
  assert.equal(off.exit_code, 1, off.stderr);
  assertNarrow(off.stdout);
  assert.match(off.stdout, / =cmd\|x +123456789\.5000 +none +123456789\.5000 +100\.00\n/);
  assert.match(off.stdout, /\n2 lines of 2 disagree, 1 only in the bill\.\n[\s\S]* disagrees with the ledger\.\n$/);
  const listed = await reconcile(other, '--csv');
  assert.equal(listed.exit_code, 1);
  assert.match(
    listed.stdout,
    /^day,model,billed_usd,ledger_usd,difference_usd,percent,estimated_usd,requests,status,possibly_billed_usd,possibly_billed_in_cost_usd\r\n/,
  );
  assert.match(listed.stdout, /,"'=cmd\|x",123456789\.5,,123456789\.5,100\.00,0,0,only_in_bill,0,0\r\n/);
  const { ok, rows, total } = JSON.parse((await reconcile(other, '--json')).stdout);
  assert.deepEqual([ok, rows.length, rows[0].status, rows[0].ledger_usd], [false, 2, 'only_in_bill', null]);
  assert.deepEqual([total.billed_usd, total.requests], ['123456789.5', rows[1].requests]);
});

test('ledger reconcile rejects a file that is no bill, an unknown upstream and wrong options, with exit code 64', async () => {
  const bill = join(directory, 'wrong.csv');
  writeFileSync(bill, 'day,model,cost\n2027-01-05,m,"1,234.50"\n');
  const main = `${bill} --upstream main`;
  const reconcile = (...words: readonly string[]) => bench.run('ledger', 'reconcile', ...words);
  await assertRefused(reconcile, [
    [main, /wrong\.csv:2:3: "cost" is "1,234\.50", expected a number such as 1234\.56/],
    [`${join(directory, 'none.csv')} --upstream main`, /there is no file /],
    [bill, /required option '--upstream <name>' not specified/],
  ]);
  writeFileSync(bill, 'day,model,cost\n2027-01-05,m,1\n');
  await assertRefused(reconcile, [
    [`${bill} --upstream other`, /unknown upstream "other"; gateway\.yaml has main/],
    [`${main} --tolerance-percent -1`, /Expected a percentage from 0 to 100/],
    [`${main} --tolerance-usd 1e9`, /Expected an amount in USD/],
    [`${main} --columns day`, /Expected some of day=NAME,model=NAME,cost=NAME/],
    [`${main} --since 2027-02-30`, /Expected a date such as 2027-01-31/],
    [`${main} --since 2027-02-01 --until 2027-02-01`, /--since must be before --until/],
  ]);
});

test('a comparison with a bill has whole names of models, and sentences in 80 columns', () => {
  const amounts = {
    billed_nano_usd: 10n ** 15n,
    ledger_nano_usd: undefined,
    estimated_nano_usd: 0n,
    possibly_billed_nano_usd: 0n,
    possible_nano_usd: 0n,
    requests: 0,
    agrees: false,
  };
  const rows = Array.from({ length: 3 }, (_, n) => ({
    ...amounts,
    day: '2026-03-10',
    model: `model-${n}-${'long'.repeat(20)}\x1b`,
  }));
  const total = { ...amounts, ledger_nano_usd: 5n, estimated_nano_usd: 5n * 10n ** 9n };
  const found = { first_day: '2026-03-10', last_day: '2026-03-10', rows, total, left_out: 2, agrees: false };
  const text = describeReconciliation(found, 'main', 80).join('\n');
  assertNarrow(text.slice(text.indexOf('3 lines of 3')));
  assert.ok(text.includes(`  model-2-${'long'.repeat(20)}`));
  assert.ok(!text.includes('\x1b'));
  const words = text.replace(/\s+/g, ' ');
  for (const expected of [
    '3 lines of 3 disagree, 3 only in the bill.',
    'The ledger includes 5.0000 USD of estimates, for requests without reported usage.',
    'Ignored 2 lines of the bill for other days.',
    'The bill of main from 2026-03-10 to 2026-03-10 disagrees with the ledger.',
  ]) {
    assert.ok(words.includes(expected), `${expected}\n${text}`);
  }
});
