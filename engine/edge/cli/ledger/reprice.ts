import { systemClock } from '../../../base/kit/clock.ts';
import { formatUsd } from '../../../base/kit/money.ts';
import { printable } from '../../../base/kit/text/printable.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import {
  type RepricedGroup,
  type RepriceProgress,
  type RepriceWish,
  type Repricing,
  repriceLedger,
} from '../../../domain/budget/reports/reprice.ts';
import { counted, roundedUsd } from '../amounts.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { dayOrMoment, demandPeriod, notEmpty, option, required } from '../options.ts';
import { showReport } from '../show.ts';
import { formatTable, numbers } from '../table.ts';
import { formatMoment } from '../times.ts';
import { operator, withDatabase } from '../with-database.ts';

const WIDTH = 80;
/** How often somebody who waits is told how far it is. */
const PROGRESS_MS = 2000;
const COLUMNS = ['DAY', 'MODEL', ...numbers('REQUESTS', 'LEDGER USD', 'NOW USD', 'DIFFERENCE')];

/** `appscli ledger reprice`: shows what requests cost by the prices of gateway.yaml, and with `--yes` puts the ledger right. */
async function reprice(
  context: CommandContext,
  given: RepriceWish & { readonly config: string; readonly yes?: true; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const { config: config_file, yes, json, ...wish } = given;
  demandPeriod(wish);
  let told_at = performance.now();
  const onProgress = ({ requests, until }: RepriceProgress) => {
    if (performance.now() - told_at < PROGRESS_MS) return;
    told_at = performance.now();
    terminal.info(`read ${counted(requests, 'request')}, to ${formatMoment(until)}\n`);
  };
  const repricing = await withDatabase(context, config_file, ({ config, database }) =>
    repriceLedger({ database, clock: systemClock, config, onProgress }, wish, yes ? operator() : undefined),
  );
  return showReport(context, json, repricingJson(repricing), () =>
    describeRepricing(repricing, terminal.table_columns),
  );
}

/** Lines for people: what differs by day and model, what was left alone, and what was written. */
export function describeRepricing(repricing: Repricing, line_width: number): string[] {
  const { changes, compared } = repricing;
  const nothing =
    compared === 0
      ? 'There is no request to price again.'
      : `The ledger has the prices of gateway.yaml: nothing differs in ${counted(compared, 'request')}.`;
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
  const told = [
    no_tokens === 0
      ? ''
      : `${counted(no_tokens, 'request')} without tokens: refused by the upstream, or recorded at what was reserved.`,
    estimates === 0
      ? ''
      : `${counted(estimates, 'request')} whose upstream did not say what was used; --estimates prices them too.`,
    ...[...no_price].map(
      ([model, many]) => `${counted(many, 'request')} to ${model}, for which gateway.yaml has no price.`,
    ),
    ...[...no_upstream].map(
      ([upstream, many]) => `${counted(many, 'request')} at ${upstream}, which gateway.yaml does not have.`,
    ),
  ].filter((text) => text !== '');
  return told.flatMap((text) => wrapText(printable(`Left alone: ${text}`), WIDTH));
}

function describeWritten({ changes, written }: Repricing): string {
  if (written === undefined) {
    return changes.length === 0
      ? ''
      : 'Nothing was written. Add --yes to write an adjusting row for each of these requests.';
  }
  const { requests, difference_nano_usd } = written;
  const meant = sumOf(changes).requests;
  const rest =
    requests === meant ? '' : ` ${counted(meant - requests, 'request')} had been adjusted by somebody else meanwhile.`;
  if (meant === 0) return '';
  return `Wrote ${counted(requests, 'adjusting row')} of ${signed(difference_nano_usd)} USD together; counters and limits follow.${rest}`;
}

function signed(nano_usd: bigint): string {
  return `${nano_usd > 0n ? '+' : ''}${roundedUsd(nano_usd, 6)}`;
}

/** The same for programs; an amount is a decimal in a text, since a JSON number is not exact everywhere. */
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
    summary: 'put past requests right after a price was wrong',
    about:
      'compute what requests cost with the prices of gateway.yaml, and show where the ledger says something else; with --yes add a row for each difference, which counts in the day and month of the request; rows are never edited, a second time changes nothing, gateways may run',
    options: [
      required('--since <when>', 'requests from here: 7d, 12h or a date (midnight UTC)', dayOrMoment),
      option('--until <when>', 'up to here, that day not included', dayOrMoment),
      option('--model <glob>', 'only these models: coder-*', notEmpty),
      option('--upstream <name>', 'only this upstream', notEmpty),
      option('--estimates', 'also requests whose upstream did not say what was used'),
      option('--yes', 'write the adjusting rows'),
    ],
    place: 'configuration',
    json: 'print what differs as JSON, amounts as exact decimals',
    examples: [
      'appscli ledger reprice --since 2027-01-01 --model "coder-*"',
      'appscli ledger reprice --since 2027-01-01 --until 2027-02-01 --yes',
    ],
    run: reprice,
  },
];
