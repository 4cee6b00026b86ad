import { formatUsd } from '../../kit/money.ts';
import { printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import {
  findPriceProblems,
  type IdleRow,
  type PriceFindings,
  readUsedPrices,
  type UsedPriceFinding,
} from '../../money/prices/used-prices.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK } from '../exit-codes.ts';
import { showReport } from '../show.ts';
import { withDatabase } from '../with-database.ts';
import { catalogueJson, compareWithCatalogue, describeCatalogue } from './compare-catalogue.ts';

const WIDTH = 80;
/** How many findings of a kind people are shown. */
const SHOWN = 20;
const DAYS = 90;
const DAY_MS = 86_400_000;

/** `appscli prices check`: whether everything that was used has a price, and every price is of use. */
export async function checkPrices(
  context: CommandContext,
  given: { readonly config: string; readonly since?: Date; readonly json?: true },
): Promise<number> {
  const { since = new Date(Date.now() - DAYS * DAY_MS) } = given;
  const { findings, config } = await withDatabase(context, given.config, async ({ config, database }) => {
    return { config, findings: findPriceProblems(config, await readUsedPrices(database, since), since.getTime()) };
  });
  const catalogue = await compareWithCatalogue(context, given.config, config);
  const document = { ...findingsJson(findings, since, catalogue.is_old), ...catalogueJson(catalogue) };
  showReport(context, given.json, document, () => [
    ...describePriceFindings(findings, since),
    ...describeCatalogue(catalogue),
  ]);
  return allPriced(findings) && !catalogue.is_old ? EXIT_OK : EXIT_FINDINGS;
}

function allPriced({ used, idle }: Pick<PriceFindings, 'used' | 'idle'>): boolean {
  return used.length === 0 && idle.length === 0;
}

const USED_KINDS: readonly {
  readonly problem: UsedPriceFinding['problem'];
  readonly title: string;
  readonly remedy: string;
}[] = [
  {
    problem: 'unknown_model',
    title: 'Models without a price of their own, charged at prices.unknown_model:',
    remedy: 'Give them a price: models[].pricing, or an entry of prices.rows.',
  },
  {
    problem: 'no_price',
    title: 'Models without any price at the upstream that served them:',
    remedy: 'Give them a price: models[].pricing, or an entry of prices.rows.',
  },
  {
    problem: 'gone',
    title: 'Models that gateway.yaml no longer has:',
    remedy:
      'Priced again, they would cost what prices.unknown_model says. An entry of prices.rows with their ids can say better; otherwise this passes as they grow old.',
  },
  {
    problem: 'tool',
    title: 'Tools that were used and have no price; their uses cost nothing:',
    remedy: 'Name them under server_tools of the price, in USD per 1,000 uses; 0 where they are free.',
  },
];

/** Lines for people, at most 80 characters wide where no name is longer. */
function describePriceFindings(findings: PriceFindings, since: Date): string[] {
  const used = USED_KINDS.flatMap(({ problem, title, remedy }) => {
    const those = findings.used.filter((finding) => finding.problem === problem);
    return describeKind(title, those.map(describeUsed), remedy);
  });
  const idle = describeKind(
    'Entries of prices.rows that no request can meet:',
    findings.idle.map((row) => describeIdle(row, since)),
    'Correct them or take them out.',
  );
  const { models, requests, rows } = findings;
  const extent = `${counted(requests, 'request')} to ${counted(models, 'model')} since ${dateOf(since)}, and ${counted(rows, 'entry', 'entries')} of prices.rows`;
  const decision = allPriced(findings) ? 'Everything has a price' : 'Not everything has a price of use';
  return [...used, ...idle, ...wrapText(`${decision}: looked at ${extent}.`, WIDTH)];
}

function describeKind(title: string, findings: readonly string[], remedy: string): string[] {
  if (findings.length === 0) return [];
  const shown = findings.slice(0, SHOWN).flatMap((text) => wrapText(printable(text), WIDTH, '  ', '    '));
  const others = findings.length - SHOWN;
  const more = others > 0 ? [`  and ${others} more (--json shows all)`] : [];
  return [...wrapText(title, WIDTH), ...shown, ...more, ...wrapText(remedy, WIDTH), ''];
}

function describeUsed({ model, upstream, tool, requests, uses, cost_nano_usd, last_at }: UsedPriceFinding): string {
  const last = `the last on ${dateOf(last_at)}`;
  if (tool !== null) {
    return `${tool} of ${model} at ${upstream}: ${counted(uses, 'use')} in ${counted(requests, 'request')}, ${last}`;
  }
  return `${model} at ${upstream}: ${counted(requests, 'request')} of ${formatUsd(cost_nano_usd)} USD, ${last}`;
}

function describeIdle({ source, row, problem }: IdleRow, since: Date): string {
  const why: Record<IdleRow['problem'], string> = {
    no_such_model: `no model matches ${row.models.join(', ')}`,
    no_such_upstream: `there is no upstream ${row.upstream}`,
    no_such_time: `it ends on ${row.until}, and begins on ${row.from}`,
    over: `it ended on ${row.until}, and only requests since ${dateOf(since)} are looked at`,
    covered: 'earlier entries take every request that it is for',
  };
  return `${source}: ${why[problem]}`;
}

function findingsJson({ used, idle, ...extent }: PriceFindings, since: Date, is_catalogue_old: boolean): object {
  return {
    ok: allPriced({ used, idle }) && !is_catalogue_old,
    since,
    ...extent,
    used: used.map(({ cost_nano_usd, ...finding }) => ({ ...finding, cost_usd: formatUsd(cost_nano_usd) })),
    idle: idle.map(({ source, problem }) => ({ source, problem })),
  };
}

function dateOf(moment: Date): string {
  return moment.toISOString().slice(0, 10);
}
