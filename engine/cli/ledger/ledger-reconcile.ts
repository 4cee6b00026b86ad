import { formatUsd } from '../../kit/money.ts';
import { type CsvCell, formatCsv } from '../../kit/text/csv.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type ReconciledRow, type Reconciliation, reconcile } from '../../money/reports/reconcile.ts';
import { counted, roundedUsd } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, usageError } from '../exit-codes.ts';
import { demandPeriod } from '../options.ts';
import { showReport } from '../show.ts';
import { formatTable, numbers } from '../table.ts';
import { withDatabase } from '../with-database.ts';
import { type BillColumns, nanoOf, parseAmount, readBill } from './bill-file.ts';

/** What `appscli ledger reconcile` may be given beside the bill. */
export interface ReconcileOptions {
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
/** Two more than the cents of a bill, so that small differences are seen. */
const DECIMALS = 4;
const COLUMNS = ['DAY', 'MODEL', ...numbers('BILL USD', 'LEDGER USD', 'BILL - LEDGER', '%')];

/** `appscli ledger reconcile`: compares a bill with the ledger. Exits 1 when they disagree; 64 for a file that is no bill. */
export async function reconcileBill(context: CommandContext, file: string, given: ReconcileOptions): Promise<number> {
  const { terminal } = context;
  const { upstream, since, until } = given;
  demandPeriod(given);
  const bill = readBill(file, given.columns);
  const tolerance = { millipercent: given.tolerancePercent, nano_usd: nanoOf(parseAmount(given.toleranceUsd)) };
  const found = await withDatabase(context, given.config, async ({ config, database }) => {
    const wish = { upstream, bill: bill.costs, tolerance, since, until, time_zone: given.timeZone };
    const result = await reconcile(database, wish);
    const names = config.upstreams.map(({ name }) => name);
    if (result.total.requests === 0 && !names.includes(upstream)) {
      throw usageError(
        `neither gateway.yaml nor the ledger has an upstream "${upstream}"; there is ${names.join(', ')}`,
      );
    }
    return result;
  });
  const describe = () => describeReconciliation(found, upstream, terminal.table_columns);
  if (given.csv) terminal.verbatim(reconciliationCsv(found));
  else showReport(context, given.json, reconciliationJson(found, upstream), describe);
  return found.agrees ? EXIT_OK : EXIT_FINDINGS;
}

/** Lines for people: the lines that disagree, the total, and how sure the ledger is. */
export function describeReconciliation(found: Reconciliation, upstream: string, line_width: number): string[] {
  const { rows, total, first_day, last_day, agrees, left_out } = found;
  const off = rows.filter((row) => !row.agrees);
  const cells = off.map((row) => [row.day, row.model, ...numbersOf(row)]);
  const table = formatTable(COLUMNS, [...cells, ['TOTAL', '', ...numbersOf(total)]], line_width);
  const told = [
    off.length === 0
      ? `All ${counted(rows.length, 'line')} agree.`
      : `${counted(off.length, 'line')} of ${rows.length} ${off.length === 1 ? 'disagrees' : 'disagree'}${kindsOf(off)}.`,
    ...(total.estimated_nano_usd === 0n
      ? []
      : [
          `Of the ledger ${usd(total.estimated_nano_usd)} are estimates, for requests whose upstream did not say what was used.`,
        ]),
    ...(total.possibly_billed_nano_usd === 0n
      ? []
      : [
          `Beyond the ledger up to ${usd(total.possibly_billed_nano_usd)} may be billed, for attempts that failed at the upstream.`,
        ]),
    ...(total.possible_nano_usd === 0n
      ? []
      : [
          `Of the ledger ${usd(total.possible_nano_usd)} may be billed or not, for attempts that failed at the upstream.`,
        ]),
    ...(left_out === 0
      ? []
      : [`${counted(left_out, 'line')} of the bill ${left_out === 1 ? 'is' : 'are'} about other days.`]),
    `The bill of ${upstream} from ${first_day} to ${last_day} ${agrees ? 'agrees' : 'disagrees'} with the ledger.`,
  ];
  return [...table, ...told.flatMap((text) => wrapText(text, WIDTH))];
}

function kindsOf(rows: readonly ReconciledRow[]): string {
  const only_billed = rows.filter((row) => row.ledger_nano_usd === undefined).length;
  const only_ledger = rows.filter((row) => row.billed_nano_usd === undefined).length;
  const told = [
    ...(only_billed === 0 ? [] : [`${only_billed} only in the bill`]),
    ...(only_ledger === 0 ? [] : [`${only_ledger} only in the ledger`]),
  ];
  return told.length === 0 ? '' : `, ${told.join(', ')}`;
}

function numbersOf(row: Amounts): string[] {
  const { billed_nano_usd: billed, ledger_nano_usd: ledger } = row;
  const amount = (nano_usd: bigint | undefined) => (nano_usd === undefined ? 'none' : roundedUsd(nano_usd, DECIMALS));
  return [amount(billed), amount(ledger), roundedUsd(differenceOf(row), DECIMALS), percentOf(row) ?? ''];
}

function differenceOf({ billed_nano_usd, ledger_nano_usd }: Amounts): bigint {
  return (billed_nano_usd ?? 0n) - (ledger_nano_usd ?? 0n);
}

/** Difference in percent of what is billed, with two decimals; `undefined` where nothing is. */
function percentOf(row: Amounts): string | undefined {
  const { billed_nano_usd: billed = 0n } = row;
  if (billed === 0n) return undefined;
  const hundredths = (differenceOf(row) * 10_000n) / (billed < 0n ? -billed : billed);
  const digits = (hundredths < 0n ? -hundredths : hundredths).toString().padStart(3, '0');
  return `${hundredths < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

function usd(nano_usd: bigint): string {
  return `${roundedUsd(nano_usd, DECIMALS)} USD`;
}

function statusOf({ agrees, billed_nano_usd, ledger_nano_usd }: ReconciledRow): string {
  if (billed_nano_usd === undefined) return agrees ? 'agrees' : 'only_in_ledger';
  if (ledger_nano_usd === undefined) return agrees ? 'agrees' : 'only_in_bill';
  return agrees ? 'agrees' : 'differs';
}

function reconciliationCsv({ rows }: Reconciliation): string {
  const titles = [
    'day',
    'model',
    'billed_usd',
    'ledger_usd',
    'difference_usd',
    'percent',
    'estimated_usd',
    'requests',
    'status',
    'possibly_billed_usd',
    'possibly_billed_in_cost_usd',
  ];
  const exact = (nano_usd: bigint | undefined) => ({ number: nano_usd === undefined ? '' : formatUsd(nano_usd) });
  const cells = rows.map((row): CsvCell[] => [
    { text: row.day },
    { text: row.model },
    exact(row.billed_nano_usd),
    exact(row.ledger_nano_usd),
    exact(differenceOf(row)),
    { number: percentOf(row) ?? '' },
    exact(row.estimated_nano_usd),
    { number: String(row.requests) },
    { text: statusOf(row) },
    exact(row.possibly_billed_nano_usd),
    exact(row.possible_nano_usd),
  ]);
  return formatCsv(titles, cells);
}

/** The same for programs; an amount is a decimal in a text, since a JSON number is not exact everywhere. */
function reconciliationJson(found: Reconciliation, upstream: string): object {
  const exact = (nano_usd: bigint | undefined) => (nano_usd === undefined ? null : formatUsd(nano_usd));
  const amounts = (row: Amounts) => ({
    billed_usd: exact(row.billed_nano_usd),
    ledger_usd: exact(row.ledger_nano_usd),
    difference_usd: formatUsd(differenceOf(row)),
    percent: percentOf(row) ?? null,
    estimated_usd: formatUsd(row.estimated_nano_usd),
    possibly_billed_usd: formatUsd(row.possibly_billed_nano_usd),
    possibly_billed_in_cost_usd: formatUsd(row.possible_nano_usd),
    requests: row.requests,
  });
  return {
    ok: found.agrees,
    upstream,
    first_day: found.first_day,
    last_day: found.last_day,
    left_out: found.left_out,
    total: { ...amounts(found.total), agrees: found.total.agrees },
    rows: found.rows.map((row) => ({ day: row.day, model: row.model, ...amounts(row), status: statusOf(row) })),
  };
}
