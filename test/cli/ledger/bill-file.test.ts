import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StartError } from '../../../engine/base/contract/start-error.ts';
import { formatUsd } from '../../../engine/base/kit/money.ts';
import { type BillColumns, parseAmount, readBill } from '../../../engine/edge/cli/bill-file.ts';
import { ownDirectory } from '../../support/own-directory.ts';

const directory = ownDirectory();
const file = join(directory, 'invoice.csv');

function costsOf(text: string | Buffer, columns?: BillColumns) {
  writeFileSync(file, text);
  return readBill(file, columns);
}

function complaint(text: string | Buffer, columns?: BillColumns): string {
  try {
    costsOf(text, columns);
  } catch (error) {
    assert.ok(error instanceof StartError, String((error as Error).stack));
    assert.equal(error.exit_code, 64);
    return error.message.replace(file, 'F');
  }
  return assert.fail('it was read');
}

const line = (day: string, model: string, cost_nano_usd: bigint) => ({ day, model, cost_nano_usd });

describe('a bill', () => {
  it('is added up by day and model, exactly, credits too', () => {
    const text =
      'day,model,cost\n2027-01-05,coder-1,0.1\n2027-01-05,coder-1,0.2\n2027-01-05,coder-2,-1\n2027-01-06,coder-1,5\n';
    assert.deepEqual(costsOf(text), [
      line('2027-01-05', 'coder-1', 300_000_000n),
      line('2027-01-05', 'coder-2', -1_000_000_000n),
      line('2027-01-06', 'coder-1', 5_000_000_000n),
    ]);
  });

  it('is rounded once, and not line by line', () => {
    const many = Array.from({ length: 10 }, () => '2027-01-05,m,0.00000000025').join('\n');
    assert.deepEqual(costsOf(`day,model,cost\n${many}\n`), [line('2027-01-05', 'm', 3n)]);
  });

  it('may come from a spreadsheet: a mark at the beginning, CR LF, quotes, empty lines, any order and case of columns', () => {
    const text =
      '\ufeff"Cost USD",Currency, DATE ,Tokens,"Model"\r\n"1.50",usd,2027-01-05T13:00:00Z,"1,234","a ""b"", c"\r\n\r\n1E-3,USD,2027-01-05 23:59:59 UTC,,two\r\n';
    assert.deepEqual(costsOf(text, { cost: 'cost usd' }), [
      line('2027-01-05', 'a "b", c', 1_500_000_000n),
      line('2027-01-05', 'two', 1_000_000n),
    ]);
  });

  it('accepts model names that are names of other things', () => {
    const names = ['__proto__', 'constructor', '=cmd|x', "'; drop table ledger; --"];
    const text = `day,model,cost\n${names.map((name) => `2027-01-05,${name},1`).join('\n')}`;
    const models = costsOf(text).map(({ model }) => model);
    assert.deepEqual(models, names);
  });
});

describe('a file that is no bill', () => {
  it('is rejected with line, column and remedy', () => {
    const below = (cells: string) => complaint(`day,model,cost,currency\n2027-01-05,m,1,USD\n${cells}\n`);
    for (const [cells, expected] of [
      ...['"1,234.50"', '"1,5"', '$1.5', '(1.5)', '', 'NaN', '0x10'].map((cost) => [
        `2027-01-05,m,${cost},USD`,
        `F:3:3: "cost" is ${JSON.stringify(cost.replaceAll('"', ''))}, expected a number such as 1234.56 or -0.5, without separators, currency signs and parentheses`,
      ]),
      ['2027-01-05,m,1e99,USD', 'F:3:3: "cost" is "1e99", which is implausibly large'],
      ['2027-01-05,m,1e-30,USD', 'F:3:3: "cost" is "1e-30", which has more than 18 decimals'],
      ['2027-01-05,m,1,EUR', 'F:3:4: "currency" is "EUR", but the ledger is in USD'],
      ...['01/05/2027', '2027-02-30', '9999-12-31'].map((day) => [
        `${day},m,1,USD`,
        `F:3:1: "day" is "${day}", expected a day such as 2027-01-31; remove lines without a day`,
      ]),
      ['2027-01-05, ,1,USD', 'F:3:2: "model" is empty; remove lines without a model, such as sums and taxes'],
    ] as [string, string][]) {
      assert.equal(below(cells), expected);
    }
    for (const cells of ['2027-01-05,m,1', '2027-01-05,"m,1,USD', '2027-01-05,m"x,1,USD', '2027-01-05,"m"x,1,USD']) {
      assert.match(below(cells), /^F:[34]: invalid CSV: /);
    }
  });

  it('is rejected with a missing or ambiguous column', () => {
    const no_model = 'no column for the model (model, model_id) among "date", "model_name", "cost"';
    assert.equal(complaint('date,model_name,cost\n'), `F:1: ${no_model}; choose with --columns model=NAME`);
    const no_total = 'no column for "Total" among "date", "model", "cost"; choose with --columns cost=NAME';
    assert.equal(complaint('date,model,cost\n', { cost: 'Total' }), `F:1: ${no_total}`);
    const two_costs = '"cost" and "Amount" may both be the cost; choose with --columns cost=NAME';
    assert.equal(complaint('date,model,cost,Amount\n'), `F:1:4: ${two_costs}`);
    for (const text of ['day;model;cost\n2027-01-05;m;1\n', 'day\tmodel\tcost\n']) {
      assert.equal(complaint(text), 'F:1: the columns are not separated by commas; save the file with commas');
    }
  });

  it('is rejected if empty, no text, a directory, missing, or far too large', () => {
    assert.equal(complaint(''), 'F:1: the file is empty; a bill begins with a line of column names');
    assert.equal(complaint('day,model,cost\n'), 'F:2: no lines below the column names');
    const utf16 = Buffer.from('day,model,cost\n', 'utf16le').fill(0xff, 0, 2);
    assert.equal(complaint(utf16), 'F is not UTF-8; save it as CSV in UTF-8');
    assert.throws(() => readBill(directory), /cannot read .*: EISDIR/);
    assert.throws(() => readBill(join(directory, 'none.csv')), /there is no file .*none\.csv/);
    truncateSync(file, 200 * 1024 * 1024 + 1);
    assert.throws(() => readBill(file), /is larger than 200 MiB, too large for a bill/);
  });

  it('is never read wrongly: whatever the text, it is a bill or a complaint', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'day,model,cost\n\r"\'2027-01-05 1.e,\ufeff\0=') }), (text) => {
        try {
          costsOf(`day,model,cost\n${text}`);
        } catch (error) {
          assert.ok(error instanceof StartError, String((error as Error).stack));
        }
      }),
    );
  });
});

describe('an amount', () => {
  it('is exact whatever its size, and may have an exponent', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 23n), max: 10n ** 23n }), (nano_usd) => {
        assert.equal(parseAmount(formatUsd(nano_usd)), nano_usd * 10n ** 9n);
      }),
    );
    assert.equal(parseAmount('1.25E-05'), parseAmount('0.0000125'));
    assert.equal(parseAmount('12e+2'), parseAmount('1200'));
    assert.equal(parseAmount('-0'), 0n);
    assert.equal(parseAmount('0.1000000000000000000000000'), 10n ** 17n);
  });
});
