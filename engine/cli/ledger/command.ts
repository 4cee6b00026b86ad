import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { config, day, dayOrMoment, examples, json, notEmpty, timeZone } from '../options.ts';

/** `appscli ledger verify|sum|reprice|reconcile`. */
export function addLedger(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const ledger = program
    .command('ledger')
    .description('whether the money adds up, what it should have cost, what the bill says')
    .helpCommand(false);
  ledger
    .command('verify')
    .summary('whether counters and sums say what the ledger comes to')
    .description(
      'add the ledger up again and compare with it every counter of a limit, and the sums that reports on usage read; gateways may run; exit code 1 when something does not add up',
    )
    .addOption(config())
    .addOption(json('print what was looked at and found as JSON, amounts as exact decimals'))
    .addHelpText('after', examples('appscli ledger verify', 'appscli ledger verify --json | jq .differences'))
    .action(async (given) => finish(await (await import('./ledger-verify.ts')).verify(context, given)));
  addSum(ledger, context, finish);
  addReprice(ledger, context, finish);
  addReconcile(ledger, context, finish);
}

function addSum(ledger: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  ledger
    .command('sum')
    .summary('compute the sums of usage anew from the ledger')
    .description(
      'compute the sums by hour and day that reports on usage read anew from the ledger, where `ledger verify` found that they differ; the ledger itself is not changed, gateways may run',
    )
    .addOption(config())
    .option('--since <day>', 'first day, of UTC; else from the beginning', day)
    .option('--until <day>', 'up to here, that day not included; else to the end', day)
    .addOption(json('print how many lines of the ledger were summed up as JSON'))
    .addHelpText('after', examples('appscli ledger sum --since 2027-01-31 --until 2027-02-01'))
    .action(async (given) => finish(await (await import('./ledger-sum.ts')).sum(context, given)));
}

function addReprice(ledger: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  ledger
    .command('reprice')
    .summary('put past requests right after a price was wrong')
    .description(
      'compute what requests cost with the prices of gateway.yaml, and show where the ledger says something else; with --yes add a row for each difference, which counts in the day and month of the request; rows are never edited, a second time changes nothing, gateways may run',
    )
    .addOption(config())
    .requiredOption('--since <when>', 'requests from here: 7d, 12h or a date (midnight UTC)', dayOrMoment)
    .option('--until <when>', 'up to here, that day not included', dayOrMoment)
    .option('--model <glob>', 'only these models: coder-*', notEmpty)
    .option('--upstream <name>', 'only this upstream', notEmpty)
    .option('--estimates', 'also requests whose upstream did not say what was used')
    .option('--yes', 'write the adjusting rows')
    .addOption(json('print what differs as JSON, amounts as exact decimals'))
    .addHelpText(
      'after',
      examples(
        'appscli ledger reprice --since 2027-01-01 --model "coder-*"',
        'appscli ledger reprice --since 2027-01-01 --until 2027-02-01 --yes',
      ),
    )
    .action(async (given) => finish(await (await import('./ledger-reprice.ts')).reprice(context, given)));
}

function addReconcile(ledger: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  ledger
    .command('reconcile')
    .summary("compare an upstream's bill with the ledger")
    .description(
      "compare an upstream's bill with the ledger, per day and per model as the upstream calls it; exit code 1 when they disagree",
    )
    .argument('<invoice.csv>', 'the bill: CSV in UTF-8 with columns for day, model and cost in USD')
    .addOption(config())
    .requiredOption('--upstream <name>', 'whose bill it is', notEmpty)
    .addOption(
      new Option('--tolerance-percent <n>', 'how far a line may be off, in percent of what is billed')
        .argParser(millipercent)
        .default(1000, '1'),
    )
    .addOption(
      new Option('--tolerance-usd <n>', 'how far any line may be off, since bills are rounded')
        .argParser(tolerance)
        .default('0.01', '0.01'),
    )
    .option('--columns <names>', 'which columns, as in day=Date,model=SKU,cost=Total', columns)
    .option('--since <day>', 'first day to compare; else the first of the bill', day)
    .option('--until <day>', 'up to here, that day not included; else the whole bill', day)
    .option('--time-zone <name>', "in which the bill's days begin", timeZone, 'UTC')
    .addOption(json('print every line as JSON, amounts as exact decimals'))
    .addOption(new Option('--csv', 'print every line as CSV').conflicts('json'))
    .addHelpText(
      'after',
      examples(
        'appscli ledger reconcile bill.csv --upstream main',
        'appscli ledger reconcile bill.csv --upstream main --columns cost=Total',
        'appscli ledger reconcile bill.csv --upstream main --tolerance-percent 0.5',
      ),
    )
    .action(async (file, given) =>
      finish(await (await import('./ledger-reconcile.ts')).reconcileBill(context, file, given)),
    );
}

/** Thousandths of a percent. */
function millipercent(text: string): number {
  const value = /^\d{1,3}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 101;
  if (value > 100) throw new InvalidArgumentError('Write a percentage from 0 to 100, with up to three decimals: 0.5.');
  return Math.round(value * 1000);
}

function tolerance(text: string): string {
  if (!/^\d{1,9}(?:\.\d{1,9})?$/.test(text)) throw new InvalidArgumentError('Write an amount in USD: 0.01.');
  return text;
}

const COLUMNS = ['day', 'model', 'cost'];

/** Names of columns by what they hold. */
function columns(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(',').map((pair) => pair.split('=').map((part) => part.trim()));
  const right = pairs.every(
    ([what = '', name = '', ...more]) => COLUMNS.includes(what) && name !== '' && more.length === 0,
  );
  if (!right || new Set(pairs.map(([what]) => what)).size < pairs.length) {
    throw new InvalidArgumentError('Write some of day=NAME,model=NAME,cost=NAME.');
  }
  return Object.fromEntries(pairs);
}
