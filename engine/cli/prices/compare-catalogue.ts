import type { GatewayConfig } from '../../contract/config.ts';
import { printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { load } from '../../load/index.ts';
import { CATALOGUE_DATE } from '../../money/prices/catalogue.ts';
import {
  CATALOGUE_DAYS_MAX,
  catalogueDays,
  type OtherPrice,
  otherPrices,
  usesCatalogue,
} from '../../money/prices/catalogue-prices.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';

const WIDTH = 80;
/** How many prices people are shown. */
const SHOWN = 20;

/** How old the catalogue is, and what of gateway.yaml it says differently. */
export interface CatalogueComparison {
  readonly days: number;
  /** Whether prices of it are in force, and it is so old that they may be wrong. */
  readonly is_old: boolean;
  readonly is_used: boolean;
  /** With the line of gateway.yaml, where it is known. */
  readonly other: readonly (OtherPrice & { readonly line: number | undefined })[];
}

/** Compares a configuration with the catalogue as of now. */
export async function compareWithCatalogue(
  context: CommandContext,
  config_file: string,
  config: GatewayConfig,
  now = Date.now(),
): Promise<CatalogueComparison> {
  const { env } = context;
  const found = otherPrices(config, now);
  const days = catalogueDays(now);
  const is_used = usesCatalogue(config);
  const loaded =
    found.length === 0
      ? undefined
      : await load(config_file, { stages: await context.stages(), env, environment: 'ignored' });
  const other = found.map((each) => ({ ...each, line: loaded?.positionOf(each.pointer)?.line }));
  return { days, is_old: is_used && days > CATALOGUE_DAYS_MAX, is_used, other };
}

/** Lines for people. */
export function describeCatalogue({ days, is_old, is_used, other }: CatalogueComparison): string[] {
  const shown = other.slice(0, SHOWN).flatMap((each) => wrapText(printable(describe(each)), WIDTH, '  ', '    '));
  const more = other.length > SHOWN ? [`  and ${other.length - SHOWN} more (--json shows all)`] : [];
  const title = 'Prices of gateway.yaml that the catalogue has differently, in USD per million tokens:';
  const remedy =
    'Right, where a contract says so. Otherwise correct them, or leave `pricing` out to take those of the catalogue.';
  const apart =
    other.length === 0 ? [] : ['', ...wrapText(title, WIDTH), ...shown, ...more, ...wrapText(remedy, WIDTH)];
  const age = `Catalogue of prices: ${CATALOGUE_DATE}, ${counted(days, 'day')} old${is_used ? '' : ', not in use here'}.`;
  const advice = is_old
    ? ` That is more than ${CATALOGUE_DAYS_MAX} days: prices may have changed. A newer version of this program has a newer one; until then models[].pricing or prices.rows can say what a model costs.`
    : '';
  return [...apart, ...wrapText(`${age}${advice}`, WIDTH)];
}

function describe({ model, kind, line, written, catalogue }: CatalogueComparison['other'][number]): string {
  const where = line === undefined ? '' : ` (line ${line})`;
  return `${model}, ${kind}${where}: ${written}, in the catalogue ${catalogue}`;
}

/** The same for programs. */
export function catalogueJson({ days, is_old, is_used, other }: CatalogueComparison): object {
  return {
    catalogue: { date: CATALOGUE_DATE, days, is_old, is_used },
    other_prices: other.map(({ pointer, written, catalogue, line, ...each }) => ({
      ...each,
      source: pointer
        .slice(1)
        .replace(/\/(\d+)/g, '[$1]')
        .replaceAll('/', '.'),
      line: line ?? null,
      written_usd: written,
      catalogue_usd: catalogue,
    })),
  };
}
