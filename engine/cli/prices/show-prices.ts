import type { GatewayConfig } from '../../contract/config.ts';
import type { EffectivePrice, TokenRates } from '../../contract/services.ts';
import { SERVED_FIELDS } from '../../contract/services.ts';
import { loadToRead } from '../../gateway/load-configuration.ts';
import { formatUsd } from '../../kit/money.ts';
import { printable } from '../../kit/text/printable.ts';
import { CATALOGUE_DATE } from '../../money/prices/catalogue.ts';
import { cataloguedModels } from '../../money/prices/known-models.ts';
import { createPriceBook, type PriceBook, type PricePeriod } from '../../money/prices/prices.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { showReport } from '../show.ts';
import { formatTable, numbers, withoutEmptyColumns } from '../table.ts';

/** Which prices are to be shown; the time in milliseconds since the epoch. */
export interface ShowPricesOptions {
  readonly config: string;
  readonly model?: string;
  readonly upstream?: string;
  readonly at?: number;
  readonly json?: true;
}

/** A price of a model at some upstreams. */
interface Shown {
  readonly model: string;
  readonly upstreams: readonly string[];
  readonly period: PricePeriod;
}

/** `appscli prices show`: what each model costs at each upstream, and where that is from. */
export async function showPrices(context: CommandContext, given: ShowPricesOptions): Promise<number> {
  const { terminal, env } = context;
  const { at = Date.now() } = given;
  const config = await loadToRead(given.config, { stages: await context.stages(), env, environment: 'ignored' });
  const shown = pricesAt(config, { ...given, at });
  return showReport(context, given.json, shown.flatMap(priceJson), () =>
    describePrices(together(shown, config), terminal.table_columns),
  );
}

function pricesAt(
  config: GatewayConfig,
  { model, upstream, at }: ShowPricesOptions & { readonly at: number },
): Shown[] {
  const prices = createPriceBook(config);
  const models = model === undefined ? idsToShow(config) : [model];
  const known = config.upstreams.map(({ name }) => name);
  if (upstream !== undefined && !known.includes(upstream)) {
    throw usageError(`there is no upstream "${upstream}" in ${known.join(', ')}`);
  }
  const shown = models.flatMap((id) =>
    (upstream === undefined ? known : [upstream]).map((name): Shown => {
      return { model: id, upstreams: [name], period: periodAt(prices, id, name, at) };
    }),
  );
  if (model !== undefined && !shown.some(({ period }) => period.price !== undefined)) {
    const is_known = config.from_model_lists || config.models.some(({ id }) => id === model);
    const why = is_known ? 'has no price' : 'is not in gateway.yaml and has no price';
    throw usageError(`the model "${model}" ${why}; prices.unknown_model can give it one`);
  }
  return shown;
}

/** Where gateway.yaml names no models, those of the catalogue; which of them are served, the lists of the upstreams tell. */
function idsToShow(config: GatewayConfig): readonly string[] {
  if (!config.from_model_lists) return config.models.map(({ id }) => id);
  const ids = cataloguedModels(config).map(({ id }) => id);
  if (ids.length > 0) return ids;
  throw usageError(
    'gateway.yaml names no models, and the upstreams are at no address of a provider that the catalogue knows; name a model: --model ID',
  );
}

function periodAt(prices: PriceBook, model: string, upstream: string, at: number): PricePeriod {
  return prices.periods(model, upstream).find(({ until }) => at < until)!;
}

/** One line for upstreams at which a model costs the same for the same reason. */
function together(shown: readonly Shown[], { upstreams }: GatewayConfig): Shown[] {
  const alike = Map.groupBy(shown, ({ model, period }) => JSON.stringify([model, { ...period, from: 0 }]));
  return [...alike.values()].map((group): Shown => {
    const names = group.flatMap((each) => each.upstreams);
    return { ...group[0]!, upstreams: names.length > 1 && names.length === upstreams.length ? ['(all)'] : names };
  });
}

const KINDS = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const;

/** Kinds of tokens that only some models have. */
const AUDIO_KINDS = ['audio_input', 'audio_output'] as const;

const COLUMNS = [
  'MODEL, UPSTREAM',
  ...numbers('INPUT', 'OUTPUT', 'CACHE R', 'W 5M', 'W 1H', 'AUDIO IN', 'AUDIO OUT'),
  'UNTIL',
  'SOURCE',
];

const TOOL_COLUMNS = ['TOOL', 'MODEL', 'UPSTREAM', ...numbers('USD PER 1,000 USES')];

/** Lines of a table with the models as headings, and of one for tools where any has a price. */
function describePrices(shown: readonly Shown[], line_width: number): string[] {
  const by_model = [...Map.groupBy(shown, ({ model }) => model)];
  const rows = by_model.map(([, own]) => own.flatMap(tableRows));
  const table = withoutEmptyColumns(COLUMNS, rows.flat());
  const [titles, ...lines] = formatTable(table.columns, table.rows, line_width);
  const described = by_model.flatMap(([model], i) => [printable(model), ...lines.splice(0, rows[i]!.length)]);
  const fees = shown.flatMap(({ model, upstreams, period }) =>
    Object.entries(period.price?.server_tools_pico ?? {}).map(([tool, pico]) => {
      return [tool, model, upstreams.join(', '), formatUsd(pico)];
    }),
  );
  const tools = fees.length === 0 ? [] : ['', ...formatTable(TOOL_COLUMNS, fees, line_width)];
  return [titles!, ...described, ...tools];
}

function tableRows({ upstreams, period: { price, until } }: Shown): string[][] {
  const name = `  ${upstreams.join(', ')}`;
  const end = dateOf(until) ?? '';
  if (price === undefined) return [[name, ...KINDS.map(() => '-'), '', '', end, 'nowhere']];
  const numbers = (pico: EffectivePrice['pico']) =>
    [...KINDS, ...AUDIO_KINDS].map((kind) => (pico[kind] === undefined ? '' : usdPerMillion(pico[kind])));
  const { source } = price;
  const rows = ({ pico, long_context }: TokenRates, label: string, ends: readonly string[]): string[][] => [
    [label, ...numbers(pico), ...ends],
    ...(long_context ? [[`    > ${long_context.above_input_tokens}`, ...numbers(long_context.pico), '', '']] : []),
  ];
  return [
    ...rows(price, name, [
      end,
      source === 'catalogue' ? `catalogue ${CATALOGUE_DATE}` : source.replace(/^prices\./, ''),
    ]),
    ...waysOf(price).flatMap(({ way, rates }) => rows(rates, `    ${Object.values(way).join(', ')}`, ['', ''])),
  ];
}

/** The ways to be served that have prices of their own, every combination of them. */
function waysOf({ served }: EffectivePrice): { readonly way: Record<string, string>; readonly rates: TokenRates }[] {
  return Object.entries(served?.rates ?? {}).flatMap(([key, rates]) => {
    const names = key.split('/');
    const named = SERVED_FIELDS.flatMap((field, i) => (names[i] ? [[field, names[i]!]] : []));
    return named.length === 0 ? [] : [{ way: Object.fromEntries(named) as Record<string, string>, rates }];
  });
}

/** A price in pico-USD per token as USD per million tokens. */
function usdPerMillion(pico: number): string {
  return formatUsd(BigInt(pico) * 1000n);
}

/** The day that a moment begins, at midnight UTC. */
function dateOf(moment: number): string | undefined {
  return Number.isFinite(moment) ? new Date(moment).toISOString().slice(0, 10) : undefined;
}

function tokenPrices(pico: EffectivePrice['pico']): Record<string, string> {
  return Object.fromEntries(
    [...KINDS, ...AUDIO_KINDS].flatMap((kind) => {
      return pico[kind] === undefined ? [] : [[`${kind}_usd`, usdPerMillion(pico[kind])]];
    }),
  );
}

function ratesJson({ pico, long_context }: TokenRates): object {
  const tier = long_context && {
    above_input_tokens: long_context.above_input_tokens,
    ...tokenPrices(long_context.pico),
  };
  return { ...tokenPrices(pico), ...(tier && { long_context: tier }) };
}

function priceJson({ model, upstreams, period: { price, from, until } }: Shown): object[] {
  return upstreams.map((upstream) => ({
    model,
    upstream,
    source: price?.source ?? null,
    ...(price?.source === 'catalogue' && { catalogue_date: CATALOGUE_DATE }),
    from: dateOf(from) ?? null,
    until: dateOf(until) ?? null,
    ...(price && ratesJson(price)),
    ...(price?.served && { served: waysOf(price).map(({ way, rates }) => ({ ...way, ...ratesJson(rates) })) }),
    ...(price && {
      server_tools_usd: Object.fromEntries(
        Object.entries(price.server_tools_pico).map(([tool, pico]) => [tool, formatUsd(pico)]),
      ),
    }),
  }));
}
