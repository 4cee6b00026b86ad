import { systemClock } from '../../../base/kit/clock.ts';
import { formatUsd } from '../../../base/kit/money.ts';
import { printable } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import {
  type RepricedGroup,
  type RepriceProgress,
  type RepriceRequest,
  type Repricing,
  repriceLedger,
} from '../../../domain/budget/reports/reprice.ts';
import { counted, roundedUsd } from '../amounts.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { assertPeriod, dayOrMoment, notEmpty, option, required } from '../options.ts';
import { showReport } from '../show.ts';
import { formatTable, numbers } from '../table.ts';
import { formatMoment } from '../times.ts';
import { operator, withDatabase } from '../with-database.ts';

const WIDTH = 80;
/** Interval of progress messages. */
const PROGRESS_MS = 2000;
const COLUMNS = ['DAY', 'MODEL', ...numbers('REQUESTS', 'LEDGER USD', 'NOW USD', 'DIFFERENCE')];

/** `appscli ledger reprice`: recomputes costs with the current prices, and with `--yes` writes adjusting rows. */
async function reprice(
  context: CommandContext,
  options: RepriceRequest & { readonly config: string; readonly yes?: true; readonly json?: true },
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

/** A repricing as text: differences by day and model, skipped requests, and written rows. */
export function describeRepricing(repricing: Repricing, line_width: number): string[] {
  const { changes, compared } = repricing;
  const nothing =
    compared === 0
      ? 'No requests to reprice.'
      : `No differences in ${counted(compared, 'request')}: the ledger has the prices of gateway.yaml.`;
  const table = changes.length === 0 ? wrapText(nothing, WIDTH) : tableOf(changes, line_width);
  const skipped = describeSkipped(repricing);
  return [...table, ...skipped, ...wrapText(describeWritten(repricing), WIDTH)].filter((line) => line !== '');
}

function tableOf(changes: readonly RepricedGroup[], line_width: number): string[] {
  const several = new Set(changes.map(({ upstream }) => upstream)).size > 1;
  const cells = changes.map((change) => [
    change.day,
    several ? `${change.model} at ${change.upstream}` : change.model,
    ...numbersOf([change]),
  ]);
  return formatTable(COLUMNS, [...cells, ['TOTAL', '', ...numbersOf(changes)]], line_width);
}

function numbersOf(changes: readonly RepricedGroup[]): string[] {
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
  const notes = [
    no_tokens === 0
      ? ''
      : `${counted(no_tokens, 'request')} without token counts: rejected by the upstream, or recorded at the reserved amount.`,
    estimates === 0 ? '' : `${counted(estimates, 'request')} without reported usage; include them with --estimates.`,
    ...[...no_price].map(
      ([model, many]) => `${counted(many, 'request')} to ${model}, which has no price in gateway.yaml.`,
    ),
    ...[...no_upstream].map(
      ([upstream, many]) => `${counted(many, 'request')} at ${upstream}, which is not in gateway.yaml.`,
    ),
  ].filter((text) => text !== '');
  return notes.flatMap((text) => wrapText(printable(`Skipped ${text}`), WIDTH));
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

/** A repricing as JSON, with amounts as decimal texts, because JSON numbers are inexact. */
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

/** `appscli ledger reprice`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'reprice',
    summary: 'correct the cost of past requests after a price change',
    about:
      'recompute costs with the prices of gateway.yaml, and show differences to the ledger; with --yes add an adjusting row for each, in the day and month of its request; idempotent, gateways may run meanwhile',
    options: [
      required('--since <when>', 'from this time: 7d, 12h or a date (midnight UTC)', dayOrMoment),
      option('--until <when>', 'until this time (exclusive)', dayOrMoment),
      option('--model <glob>', 'only these models: coder-*', notEmpty),
      option('--upstream <name>', 'only this upstream', notEmpty),
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
];
