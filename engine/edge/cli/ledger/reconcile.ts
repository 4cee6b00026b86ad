import { InvalidArgumentError } from 'commander';
import { formatUsd } from '../../../base/kit/money.ts';
import { type CsvCell, formatCsv } from '../../../base/kit/text/csv.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { type ReconciledRow, type Reconciliation, reconcile } from '../../../domain/budget/reports/reconcile.ts';
import { counted, roundedUsd } from '../amounts.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, usageError } from '../exit-codes.ts';
import { assertPeriod, day, notEmpty, option, required, textThat, timeZone } from '../options.ts';
import { showReport } from '../show.ts';
import { formatTable, numbers } from '../table.ts';
import { withDatabase } from '../with-database.ts';
import { type BillColumns, nanoOf, parseAmount, readBill } from './bill-file.ts';

interface ReconcileOptions {
  readonly file: string;
  readonly config: string;
  readonly upstream: string;
  /** In thousandths. */
  readonly tolerancePercent: number;
  readonly toleranceUsd: string;
  readonly columns?: BillColumns;
  readonly since?: string;
  readonly until?: string;
  readonly timeZone: string;
  readonly json?: true;
  readonly csv?: true;
}

type Amounts = Omit<ReconciledRow, 'day' | 'model'>;

const WIDTH = 80;
/** Two more than cents, to show small differences. */
const DECIMALS = 4;
const COLUMNS = ['DAY', 'MODEL', ...numbers('BILL USD', 'LEDGER USD', 'BILL - LEDGER', '%')];

/** `appscli ledger reconcile`: compares a bill with the ledger. Exits 1 for differences, 64 for an invalid file. */
async function reconcileBill(context: CommandContext, options: ReconcileOptions): Promise<number> {
  const { terminal } = context;
  const { upstream, since, until } = options;
  assertPeriod(options);
  const bill = readBill(options.file, options.columns);
  const tolerance = { millipercent: options.tolerancePercent, nano_usd: nanoOf(parseAmount(options.toleranceUsd)) };
  const found = await withDatabase(context, options.config, async ({ config, database }) => {
    const request = { upstream, bill, tolerance, since, until, time_zone: options.timeZone };
    const result = await reconcile(database, request);
    const names = config.upstreams.map(({ name }) => name);
    if (result.total.requests === 0 && !names.includes(upstream)) {
      throw usageError(`unknown upstream "${upstream}"; gateway.yaml has ${names.join(', ')}`);
    }
    return result;
  });
  const describe = () => describeReconciliation(found, upstream, terminal.table_columns);
  if (options.csv) terminal.verbatim(reconciliationCsv(found));
  else showReport(context, options.json, reconciliationJson(found, upstream), describe);
  return found.agrees ? EXIT_OK : EXIT_FINDINGS;
}

/** A reconciliation as text: differing lines, the total, and estimates in the ledger. */
export function describeReconciliation(found: Reconciliation, upstream: string, line_width: number): string[] {
  const { rows, total, first_day, last_day, agrees, left_out } = found;
  const off = rows.filter((row) => !row.agrees);
  const cells = off.map((row) => [row.day, row.model, ...numbersOf(row)]);
  const table = formatTable(COLUMNS, [...cells, ['TOTAL', '', ...numbersOf(total)]], line_width);
  const noteIf = (nano_usd: bigint, words: (much: string) => string) =>
    nano_usd === 0n ? [] : [words(`${roundedUsd(nano_usd, DECIMALS)} USD`)];
  const notes = [
    off.length === 0
      ? `All ${counted(rows.length, 'line')} agree.`
      : `${counted(off.length, 'line')} of ${rows.length} ${off.length === 1 ? 'disagrees' : 'disagree'}${kindsOf(off)}.`,
    ...noteIf(
      total.estimated_nano_usd,
      (much) => `The ledger includes ${much} of estimates, for requests without reported usage.`,
    ),
    ...noteIf(
      total.possibly_billed_nano_usd,
      (much) => `The upstream may bill up to ${much} beyond the ledger, for failed attempts.`,
    ),
    ...noteIf(
      total.possible_nano_usd,
      (much) => `The ledger includes ${much} for failed attempts, which the upstream may not bill.`,
    ),
    ...(left_out === 0 ? [] : [`Ignored ${counted(left_out, 'line')} of the bill for other days.`]),
    `The bill of ${upstream} from ${first_day} to ${last_day} ${agrees ? 'agrees' : 'disagrees'} with the ledger.`,
  ];
  return [...table, ...notes.flatMap((text) => wrapText(text, WIDTH))];
}

function kindsOf(rows: readonly ReconciledRow[]): string {
  const only_billed = rows.filter((row) => row.ledger_nano_usd === undefined).length;
  const only_ledger = rows.filter((row) => row.billed_nano_usd === undefined).length;
  const notes = [
    ...(only_billed === 0 ? [] : [`${only_billed} only in the bill`]),
    ...(only_ledger === 0 ? [] : [`${only_ledger} only in the ledger`]),
  ];
  return notes.length === 0 ? '' : `, ${notes.join(', ')}`;
}

function numbersOf(row: Amounts): string[] {
  const { billed_nano_usd: billed, ledger_nano_usd: ledger } = row;
  const amount = (nano_usd: bigint | undefined) => (nano_usd === undefined ? 'none' : roundedUsd(nano_usd, DECIMALS));
  return [amount(billed), amount(ledger), roundedUsd(differenceOf(row), DECIMALS), percentOf(row) ?? ''];
}

function differenceOf({ billed_nano_usd, ledger_nano_usd }: Amounts): bigint {
  return (billed_nano_usd ?? 0n) - (ledger_nano_usd ?? 0n);
}

/** Difference in percent of the billed amount, with two decimals; `undefined` if it is zero. */
function percentOf(row: Amounts): string | undefined {
  const { billed_nano_usd: billed = 0n } = row;
  if (billed === 0n) return undefined;
  const hundredths = (differenceOf(row) * 10_000n) / (billed < 0n ? -billed : billed);
  const digits = (hundredths < 0n ? -hundredths : hundredths).toString().padStart(3, '0');
  return `${hundredths < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

function statusOf({ agrees, billed_nano_usd, ledger_nano_usd }: ReconciledRow): string {
  if (agrees) return 'agrees';
  if (billed_nano_usd === undefined) return 'only_in_ledger';
  return ledger_nano_usd === undefined ? 'only_in_bill' : 'differs';
}

const CSV_COLUMNS = [
  ...['day', 'model', 'billed_usd', 'ledger_usd', 'difference_usd', 'percent', 'estimated_usd', 'requests', 'status'],
  ...['possibly_billed_usd', 'possibly_billed_in_cost_usd'],
] as readonly (keyof ReturnType<typeof rowJson>)[];
const TEXTS: readonly string[] = ['day', 'model', 'status'];

function reconciliationCsv({ rows }: Reconciliation): string {
  const cells = rows.map(rowJson).map((row) =>
    CSV_COLUMNS.map((name): CsvCell => {
      const value = String(row[name] ?? '');
      return TEXTS.includes(name) ? { text: value } : { number: value };
    }),
  );
  return formatCsv(CSV_COLUMNS, cells);
}

/** Amounts as decimal texts, because JSON numbers are inexact. */
function amountsJson(row: Amounts) {
  const exact = (nano_usd: bigint | undefined) => (nano_usd === undefined ? null : formatUsd(nano_usd));
  return {
    billed_usd: exact(row.billed_nano_usd),
    ledger_usd: exact(row.ledger_nano_usd),
    difference_usd: formatUsd(differenceOf(row)),
    percent: percentOf(row) ?? null,
    estimated_usd: formatUsd(row.estimated_nano_usd),
    possibly_billed_usd: formatUsd(row.possibly_billed_nano_usd),
    possibly_billed_in_cost_usd: formatUsd(row.possible_nano_usd),
    requests: row.requests,
  };
}

const rowJson = (row: ReconciledRow) => ({
  ...{ day: row.day, model: row.model },
  ...amountsJson(row),
  status: statusOf(row),
});

function reconciliationJson(found: Reconciliation, upstream: string): object {
  const { agrees, first_day, last_day, left_out, total, rows } = found;
  return {
    ...{ ok: agrees, upstream, first_day, last_day, left_out },
    total: { ...amountsJson(total), agrees: total.agrees },
    rows: rows.map(rowJson),
  };
}

/** Parses a percentage into thousandths of a percent. */
function millipercent(text: string): number {
  const value = /^\d{1,3}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 101;
  if (value > 100)
    throw new InvalidArgumentError('Expected a percentage from 0 to 100 with up to three decimals, such as 0.5.');
  return Math.round(value * 1000);
}

const tolerance = textThat((text) => /^\d{1,9}(?:\.\d{1,9})?$/.test(text), 'Expected an amount in USD, such as 0.01.');

function columns(text: string): BillColumns {
  const pairs = text.split(',').map((pair) => pair.split('=').map((part) => part.trim()));
  const right = pairs.every(
    ([what = '', name = '', ...more]) => ['day', 'model', 'cost'].includes(what) && name !== '' && more.length === 0,
  );
  if (!right || new Set(pairs.map(([what]) => what)).size < pairs.length) {
    throw new InvalidArgumentError('Expected some of day=NAME,model=NAME,cost=NAME.');
  }
  return Object.fromEntries(pairs);
}

/** `appscli ledger reconcile`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'reconcile',
    summary: "compare an upstream's bill with the ledger",
    about: "compare an upstream's bill with the ledger, per day and upstream model; exits 1 for differences",
    arguments: [['<file>', 'the bill: CSV in UTF-8 with columns for day, model and cost in USD']],
    options: [
      required('--upstream <name>', 'upstream of the bill', notEmpty),
      option(
        '--tolerance-percent <n>',
        'allowed difference of a line, in percent of the billed amount',
        millipercent,
      ).default(1000, '1'),
      option('--tolerance-usd <n>', 'allowed difference of a line, in USD', tolerance).default('0.01', '0.01'),
      option('--columns <names>', 'column names, such as day=Date,model=SKU,cost=Total', columns),
      option('--since <day>', 'first day (default: the first of the bill)', day),
      option('--until <day>', 'day after the last day (default: the whole bill)', day),
      option('--time-zone <name>', "time zone of the bill's days", timeZone).default('UTC'),
      option('--csv', 'print every line as CSV').conflicts('json'),
    ],
    place: 'configuration',
    json: 'print every line as JSON, amounts as exact decimals',
    examples: [
      'appscli ledger reconcile bill.csv --upstream main',
      'appscli ledger reconcile bill.csv --upstream main --columns cost=Total',
      'appscli ledger reconcile bill.csv --upstream main --tolerance-percent 0.5',
    ],
    run: reconcileBill,
  },
];
