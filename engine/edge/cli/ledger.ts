import { InvalidArgumentError } from 'commander';
import { systemClock } from '../../base/kit/clock.ts';
import { formatUsd, isNanoUsd } from '../../base/kit/money.ts';
import { type CsvCell, formatCsv } from '../../base/kit/text/csv.ts';
import { describeCounter } from '../../domain/budget/limits/spend-limits.ts';
import { type ReconciledRow, type Reconciliation, reconcile } from '../../domain/budget/reports/reconcile.ts';
import {
  type RepricedGroup,
  type RepriceProgress,
  type RepriceRequest,
  type Repricing,
  repriceLedger,
} from '../../domain/budget/reports/reprice.ts';
import {
  type CounterDifference,
  type DisagreeingAttempts,
  type Found,
  type LedgerVerification,
  type LeftReservation,
  type RepeatedRequest,
  sumAgain,
  type UncountedRequest,
  type UsageDifference,
  verifyLedger,
} from '../../domain/budget/reports/verify-ledger.ts';
import { type BillColumns, nanoOf, parseAmount, readBill } from './bill-file.ts';
import {
  assertPeriod,
  type CommandContext,
  type CommandRow,
  type ConfigOptions,
  day,
  dayOrMoment,
  EXIT_FINDINGS,
  EXIT_OK,
  type Flags,
  option,
  required,
  type Texts,
  textThat,
  timeZone,
  usageError,
} from './commands.ts';
import {
  counted,
  describeFindings,
  exactUsd,
  formatMoment,
  formatTable,
  numbers,
  paragraph,
  roundedUsd,
  SHOWN,
  showReport,
} from './output.ts';
import { operator, withDatabase } from './with-database.ts';

async function verify(context: CommandContext, { config, json }: ConfigOptions): Promise<number> {
  const verification = await withDatabase(context, config, ({ database }) =>
    verifyLedger({ database, clock: systemClock }),
  );
  showReport(context, json, verificationJson(verification), () => describeVerification(verification));
  return addsUp(verification) ? EXIT_OK : EXIT_FINDINGS;
}

function addsUp({ differences, repeated, uncounted, attempts, left, sums }: LedgerVerification): boolean {
  return [differences, repeated, uncounted, attempts, left, sums].every(({ total }) => total === 0);
}

export function describeVerification(verification: LedgerVerification): string[] {
  const { differences, repeated, uncounted, attempts, left, sums } = verification;
  const found = [
    ...describeKind(
      differences,
      (many) => `${counted(many, 'amount')} of the counters ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeDifference,
      'Limits use the counters; reports and bills use the ledger. No command changes only one of them: were tables edited by hand, or restored in part? If not, please report it.',
    ),
    ...describeKind(
      repeated,
      (many) => `${counted(many, 'request')} recorded more than once:`,
      describeRepeated,
      'A request has either a reservation or one ledger row.',
    ),
    ...describeKind(
      uncounted,
      (many) => `${counted(many, 'ledger row')} whose cost is in no counter:`,
      ({ request_id, user, cost_nano_usd }: UncountedRequest) => `${request_id} of ${user}: ${usd(cost_nano_usd)}`,
      'Limits did not count this cost. The cause may be a custom stage that reserves or settles without demands.',
    ),
    ...describeKind(
      attempts,
      (many) => `${counted(many, 'ledger row')} with attempts that do not add up:`,
      describeAttempts,
      "A row's cost is the sum of its attempts, and its upstream is that of the last one. No command changes attempts: was the ledger edited by hand? If not, please report it.",
    ),
    ...describeKind(
      left,
      (many) => `${counted(many, 'reservation')} of gateways that no longer run:`,
      describeLeft,
      'A running gateway settles them within two minutes, at the reserved amount. Start a gateway; if one runs, see its log.',
    ),
    ...describeKind(
      sums,
      (many) => `${counted(many, 'sum')} of usage by hour or day ${many === 1 ? 'differs' : 'differ'} from the ledger:`,
      describeSum,
      'Only usage reports read these sums. Recompute them with `appscli ledger sum --since DAY --until DAY`.',
    ),
  ];
  const decision = addsUp(verification) ? 'The ledger adds up' : 'The ledger does not add up';
  return [...found, ...paragraph(`${decision}: ${extentOf(verification)}.`)];
}

function extentOf(verification: LedgerVerification): string {
  const { counters, ledger_rows, cost_nano_usd, reservations, reserved_nano_usd } = verification;
  const rows = `${counted(ledger_rows, 'ledger row')} of ${usd(cost_nano_usd)}`;
  const holds = `${counted(reservations, 'reservation')} of ${usd(reserved_nano_usd)}`;
  return `compared ${counted(counters, 'counter')} with ${rows} and ${holds}`;
}

function describeKind<Finding>(
  { total, first }: Found<Finding>,
  title: (many: number) => string,
  describe: (finding: Finding) => string,
  remedy: string,
): string[] {
  const others = ' with smaller amounts (--json shows up to 1000)';
  return describeFindings(title(total), first.slice(0, SHOWN).map(describe), remedy, { total, others });
}

function describeDifference(difference: CounterDifference): string {
  const { counter_id, scope, key, window, unit, window_start, amount, kept, recomputed } = difference;
  const since = window_start === null ? '' : ` from ${formatMoment(window_start)}`;
  const counter =
    scope === null || key === null
      ? `counter ${counter_id ?? 'without an id'}, which does not exist`
      : `${describeCounter({ scope, key })}, ${window}${since}`;
  const text = (value: bigint) => {
    if (amount === 'in_flight') return counted(Number(value), 'request');
    return unit === null || unit === 'nano_usd' ? usd(value) : counted(Number(value), unit.slice(0, -1));
  };
  const off = kept - recomputed;
  const direction = off > 0n ? 'too much' : 'too little';
  return `${counter}: ${amount} ${text(kept)}, should be ${text(recomputed)} (${text(off < 0n ? -off : off)} ${direction})`;
}

function describeRepeated({ request_id, ledger_rows, reservations, cost_nano_usd }: RepeatedRequest): string {
  const reserved = reservations === 0 ? '' : ', and still reserved';
  return `${request_id}: ${counted(ledger_rows, 'ledger row')} of ${usd(cost_nano_usd)}${reserved}`;
}

function describeAttempts(found: DisagreeingAttempts): string {
  const { request_id, user, cost_nano_usd, attempts_nano_usd } = found;
  const { possibly_billed_nano_usd: possible, attempts_possibly_billed_nano_usd: by_attempts } = found;
  const costs = `${usd(cost_nano_usd)}, its attempts ${usd(attempts_nano_usd)}`;
  return `${request_id} of ${user}: ${costs}; possibly billed ${usd(possible)}, its attempts ${usd(by_attempts)}`;
}

function describeLeft({ request_id, user, reserved_at, amount_nano_usd, heartbeat_at }: LeftReservation): string {
  const heard = heartbeat_at === null ? 'is unknown' : `was last alive at ${formatMoment(heartbeat_at)}`;
  return `${request_id} of ${user}: ${usd(amount_nano_usd)} since ${formatMoment(reserved_at)}; its gateway ${heard}`;
}

function describeSum({ span, start, user, model, upstream, amount, off_by }: UsageDifference): string {
  const much = off_by < 0n ? -off_by : off_by;
  const name = amount.replace(/_nano_usd$/, '').replaceAll('_', ' ');
  const direction = off_by > 0n ? 'too much' : 'too little';
  const text = `${isNanoUsd(amount) ? usd(much) : String(much)} ${direction}`;
  const of = [user, model].map((each) => each ?? 'no name').join(', ');
  return `${span} from ${formatMoment(start)}, ${of} at ${upstream ?? 'no name'}: ${name} ${text}`;
}

function usd(nano_usd: bigint): string {
  return `${formatUsd(nano_usd)} USD`;
}

function verificationJson(verification: LedgerVerification): object {
  const { differences, sums } = verification;
  return {
    ok: addsUp(verification),
    ...(exactUsd(verification) as object),
    differences: { total: differences.total, first: differences.first.map(differenceJson) },
    sums: { total: sums.total, first: sums.first.map((sum) => ({ ...sum, off_by: String(sum.off_by) })) },
  };
}

function differenceJson({ kept, recomputed, ...difference }: CounterDifference): object {
  const is_money = difference.amount !== 'in_flight' && (difference.unit ?? 'nano_usd') === 'nano_usd';
  if (is_money) return { ...difference, kept_usd: formatUsd(kept), recomputed_usd: formatUsd(recomputed) };
  return { ...difference, kept: String(kept), recomputed: String(recomputed) };
}

async function sum(
  context: CommandContext,
  { config, since, until, json }: ConfigOptions & Texts<'since' | 'until'>,
): Promise<number> {
  assertPeriod({ since, until });
  const lines = await withDatabase(context, config, ({ database }) => sumAgain(database, { since, until }));
  return showReport(context, json, { lines }, () => [`Recomputed the sums of ${counted(lines, 'ledger line')}.`]);
}

const PROGRESS_MS = 2000;
const REPRICE_COLUMNS = ['DAY', 'MODEL', ...numbers('REQUESTS', 'LEDGER USD', 'NOW USD', 'DIFFERENCE')];

async function reprice(
  context: CommandContext,
  options: RepriceRequest & ConfigOptions & Flags<'yes'>,
): Promise<number> {
  const { terminal } = context;
  const { config: config_file, yes, json, ...request } = options;
  assertPeriod(request);
  let printed_at = performance.now();
  const onProgress = ({ requests, until }: RepriceProgress) => {
    if (performance.now() - printed_at < PROGRESS_MS) return;
    printed_at = performance.now();
    terminal.info(`read ${counted(requests, 'request')}, up to ${formatMoment(until)}\n`);
  };
  const repricing = await withDatabase(context, config_file, ({ config, database }) =>
    repriceLedger({ database, clock: systemClock, config, onProgress }, request, yes ? operator() : undefined),
  );
  return showReport(context, json, repricingJson(repricing), () =>
    describeRepricing(repricing, terminal.table_columns),
  );
}

export function describeRepricing(repricing: Repricing, line_width: number): string[] {
  const { changes, compared } = repricing;
  const nothing =
    compared === 0
      ? 'No requests to reprice.'
      : `No differences in ${counted(compared, 'request')}: the ledger has the prices of gateway.yaml.`;
  const table = changes.length === 0 ? paragraph(nothing) : tableOf(changes, line_width);
  const skipped = describeSkipped(repricing);
  return [...table, ...skipped, ...paragraph(describeWritten(repricing))].filter((line) => line !== '');
}

function tableOf(changes: readonly RepricedGroup[], line_width: number): string[] {
  const several = new Set(changes.map(({ upstream }) => upstream)).size > 1;
  const cells = changes.map((change) => [
    change.day,
    several ? `${change.model} at ${change.upstream}` : change.model,
    ...repricedCells([change]),
  ]);
  return formatTable(REPRICE_COLUMNS, [...cells, ['TOTAL', '', ...repricedCells(changes)]], line_width);
}

function repricedCells(changes: readonly RepricedGroup[]): string[] {
  const { requests, was, cost } = sumOf(changes);
  return [String(requests), roundedUsd(was, 6), roundedUsd(cost, 6), signed(cost - was)];
}

function sumOf(changes: readonly RepricedGroup[]): { requests: number; was: bigint; cost: bigint } {
  return {
    requests: changes.reduce((sum, change) => sum + change.requests, 0),
    was: changes.reduce((sum, change) => sum + change.was_nano_usd, 0n),
    cost: changes.reduce((sum, change) => sum + change.cost_nano_usd, 0n),
  };
}

function describeSkipped({ skipped }: Repricing): string[] {
  const { no_tokens, estimates, no_price, no_upstream } = skipped;
  const notes: readonly (readonly [many: number, why: string])[] = [
    [no_tokens, 'without token counts: rejected by the upstream, or recorded at the reserved amount.'],
    [estimates, 'without reported usage; include them with --estimates.'],
    ...[...no_price].map(([model, many]) => [many, `to ${model}, which has no price in gateway.yaml.`] as const),
    ...[...no_upstream].map(([name, many]) => [many, `at ${name}, which is not in gateway.yaml.`] as const),
  ];
  return notes.flatMap(([many, why]) => (many === 0 ? [] : paragraph(`Skipped ${counted(many, 'request')} ${why}`)));
}

function describeWritten({ changes, written }: Repricing): string {
  if (written === undefined) {
    return changes.length === 0
      ? ''
      : 'Nothing was written. Add --yes to write an adjusting row for each of these requests.';
  }
  const { requests, difference_nano_usd } = written;
  const planned = sumOf(changes).requests;
  const rest =
    requests === planned ? '' : ` Another command has already adjusted ${counted(planned - requests, 'request')}.`;
  if (planned === 0) return '';
  return `Wrote ${counted(requests, 'adjusting row')}, ${signed(difference_nano_usd)} USD in total, and updated the counters of limits.${rest}`;
}

function signed(nano_usd: bigint): string {
  return `${nano_usd > 0n ? '+' : ''}${roundedUsd(nano_usd, 6)}`;
}

function repricingJson({ compared, changes, skipped, written }: Repricing): object {
  const amounts = (was: bigint, cost: bigint) => ({
    ledger_usd: formatUsd(was),
    now_usd: formatUsd(cost),
    difference_usd: formatUsd(cost - was),
  });
  const { requests, was, cost } = sumOf(changes);
  return {
    compared,
    changes: changes.map(({ was_nano_usd, cost_nano_usd, ...group }) => ({
      ...group,
      ...amounts(was_nano_usd, cost_nano_usd),
    })),
    total: { requests, ...amounts(was, cost) },
    skipped: {
      no_tokens: skipped.no_tokens,
      estimates: skipped.estimates,
      no_price: Object.fromEntries(skipped.no_price),
      no_upstream: Object.fromEntries(skipped.no_upstream),
    },
    written:
      written === undefined
        ? null
        : { requests: written.requests, difference_usd: formatUsd(written.difference_nano_usd) },
  };
}

interface ReconcileOptions extends ConfigOptions, Texts<'since' | 'until'>, Flags<'csv'> {
  readonly file: string;
  readonly upstream: string;
  /** In thousandths. */
  readonly tolerancePercent: number;
  readonly toleranceUsd: string;
  readonly columns?: BillColumns;
  readonly timeZone: string;
}

type Amounts = Omit<ReconciledRow, 'day' | 'model'>;

const DECIMALS = 4;
const COLUMNS = ['DAY', 'MODEL', ...numbers('BILL USD', 'LEDGER USD', 'BILL - LEDGER', '%')];

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

export function describeReconciliation(found: Reconciliation, upstream: string, line_width: number): string[] {
  const { rows, total, first_day, last_day, agrees, left_out } = found;
  const off = rows.filter((row) => !row.agrees);
  const cells = off.map((row) => [row.day, row.model, ...numbersOf(row)]);
  const table = formatTable(COLUMNS, [...cells, ['TOTAL', '', ...numbersOf(total)]], line_width);
  const amounts = [
    [total.estimated_nano_usd, 'The ledger includes', 'of estimates, for requests without reported usage.'],
    [total.possibly_billed_nano_usd, 'The upstream may bill up to', 'beyond the ledger, for failed attempts.'],
    [total.possible_nano_usd, 'The ledger includes', 'for failed attempts, which the upstream may not bill.'],
  ] as const;
  const notes = [
    off.length === 0
      ? `All ${counted(rows.length, 'line')} agree.`
      : `${counted(off.length, 'line')} of ${rows.length} ${off.length === 1 ? 'disagrees' : 'disagree'}${kindsOf(off)}.`,
    ...amounts.flatMap(([nano_usd, before, after]) =>
      nano_usd === 0n ? [] : [`${before} ${roundedUsd(nano_usd, DECIMALS)} USD ${after}`],
    ),
    ...(left_out === 0 ? [] : [`Ignored ${counted(left_out, 'line')} of the bill for other days.`]),
    `The bill of ${upstream} from ${first_day} to ${last_day} ${agrees ? 'agrees' : 'disagrees'} with the ledger.`,
  ];
  return [...table, ...notes.flatMap((text) => paragraph(text))];
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

export const commands: readonly CommandRow[] = [
  {
    name: 'verify',
    summary: 'verify counters and sums against the ledger',
    about:
      'recompute the counters of limits and the sums of usage reports from the ledger, and compare them; exits 1 for differences; gateways may run meanwhile',
    place: 'configuration',
    json: 'print the result as JSON, amounts as exact decimals',
    examples: ['appscli ledger verify', 'appscli ledger verify --json | jq .differences'],
    run: verify,
  },
  {
    name: 'sum',
    summary: 'recompute the sums of usage reports',
    about:
      'recompute the hourly and daily sums of usage reports from the ledger, after `ledger verify` found differences; gateways may run meanwhile',
    options: [
      option('--since <day>', 'first day, in UTC (default: all)', day),
      option('--until <day>', 'day after the last day, in UTC (default: all)', day),
    ],
    place: 'configuration',
    json: 'print the number of ledger lines as JSON',
    examples: ['appscli ledger sum --since 2027-01-31 --until 2027-02-01'],
    run: sum,
  },
  {
    name: 'reprice',
    summary: 'correct the cost of past requests after a price change',
    about:
      'recompute costs with the prices of gateway.yaml, and show differences to the ledger; with --yes add an adjusting row for each, in the day and month of its request; idempotent, gateways may run meanwhile',
    options: [
      required('--since <when>', 'from this time: 7d, 12h or a date (midnight UTC)', dayOrMoment),
      option('--until <when>', 'until this time (exclusive)', dayOrMoment),
      option('--model <glob>', 'only these models: coder-*'),
      option('--upstream <name>', 'only this upstream'),
      option('--estimates', 'also requests without reported usage'),
      option('--yes', 'write the adjusting rows'),
    ],
    place: 'configuration',
    json: 'print differences as JSON, amounts as exact decimals',
    examples: [
      'appscli ledger reprice --since 2027-01-01 --model "coder-*"',
      'appscli ledger reprice --since 2027-01-01 --until 2027-02-01 --yes',
    ],
    run: reprice,
  },
  {
    name: 'reconcile',
    summary: "compare an upstream's bill with the ledger",
    about: "compare an upstream's bill with the ledger, per day and upstream model; exits 1 for differences",
    arguments: [['<file>', 'the bill: CSV in UTF-8 with columns for day, model and cost in USD']],
    options: [
      required('--upstream <name>', 'upstream of the bill'),
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
