import type { GatewayConfig } from '../../base/contract/config.ts';
import { type EffectivePrice, SERVED_FIELDS, type TokenRates } from '../../base/contract/services.ts';
import { formatUsd } from '../../base/kit/money.ts';
import { printable } from '../../base/kit/text/printable.ts';
import { CATALOGUE_DATE } from '../../domain/budget/prices/catalogue.ts';
import { cataloguedModels } from '../../domain/budget/prices/known-models.ts';
import { createPriceBook, KINDS, KINDS_AND_AUDIO, type PricePeriod } from '../../domain/budget/prices/prices.ts';
import {
  CATALOGUE_DAYS_MAX,
  catalogueDays,
  findPriceProblems,
  otherPrices,
  type PriceFindings,
  readUsedPrices,
  type UsedPriceFinding,
  usesCatalogue,
} from '../../domain/budget/prices/used-prices.ts';
import { load } from '../../pipeline/load/index.ts';
import {
  type CommandContext,
  type CommandRow,
  type ConfigOptions,
  EXIT_FINDINGS,
  EXIT_OK,
  moment,
  option,
  type Texts,
  time,
  usageError,
} from './commands.ts';
import {
  type Columns,
  counted,
  describeFindings,
  formatTable,
  numbers,
  paragraph,
  showReport,
  tableOf,
} from './output.ts';
import { readConfig, withDatabase } from './with-database.ts';

const DAYS = 90;
const DAY_MS = 86_400_000;

async function checkPrices(
  context: CommandContext,
  options: ConfigOptions & { readonly since?: Date },
): Promise<number> {
  const { since = new Date(Date.now() - DAYS * DAY_MS) } = options;
  const { findings, config } = await withDatabase(context, options.config, async ({ config, database }) => {
    return { config, findings: findPriceProblems(config, await readUsedPrices(database, since)) };
  });
  const catalogue = await compareWithCatalogue(context, options.config, config);
  const { used, ...extent } = findings;
  const is_priced = used.length === 0;
  const document = {
    ok: is_priced && !catalogue.is_old,
    since,
    ...extent,
    used: used.map(({ cost_nano_usd, ...finding }) => ({ ...finding, cost_usd: formatUsd(cost_nano_usd) })),
    ...catalogueJson(catalogue),
  };
  showReport(context, options.json, document, () => [
    ...describePriceFindings(findings, since, is_priced),
    ...describeCatalogue(catalogue),
  ]);
  return document.ok ? EXIT_OK : EXIT_FINDINGS;
}

const GIVE_PRICE = 'Set a price: models[].pricing, or an entry of prices.rows.';

const USED_KINDS: Readonly<Record<UsedPriceFinding['problem'], readonly [title: string, remedy: string]>> = {
  unknown_model: ['Models without their own price, charged at prices.unknown_model:', GIVE_PRICE],
  no_price: ['Models without a price at the upstream that served them:', GIVE_PRICE],
  gone: [
    'Models that gateway.yaml no longer has:',
    'Repricing would use prices.unknown_model. Add an entry of prices.rows with their ids, or ignore this until their requests age out.',
  ],
  tool: [
    'Used tools without a price, charged nothing:',
    'Add them to server_tools of the price, in USD per 1,000 uses; 0 for free tools.',
  ],
};

function describePriceFindings(findings: PriceFindings, since: Date, is_priced: boolean): string[] {
  const used = Object.entries(USED_KINDS).flatMap(([kind, [title, remedy]]) => {
    const those = findings.used.filter(({ problem }) => problem === kind);
    return describeFindings(title, those.map(describeUsed), remedy);
  });
  const { models, requests } = findings;
  const extent = `${counted(requests, 'request')} to ${counted(models, 'model')} since ${dateOf(since)}`;
  const decision = is_priced ? 'All usage has a price' : 'Some prices are missing';
  return [...used, ...paragraph(`${decision}: checked ${extent}.`)];
}

function describeUsed({ model, upstream, tool, requests, uses, cost_nano_usd, last_at }: UsedPriceFinding): string {
  const last = `the last on ${dateOf(last_at)}`;
  if (tool !== null) {
    return `${tool} of ${model} at ${upstream}: ${counted(uses, 'use')} in ${counted(requests, 'request')}, ${last}`;
  }
  return `${model} at ${upstream}: ${counted(requests, 'request')} of ${formatUsd(cost_nano_usd)} USD, ${last}`;
}

function dateOf(moment: Date): string {
  return moment.toISOString().slice(0, 10);
}

async function compareWithCatalogue({ env, stages }: CommandContext, config_file: string, config: GatewayConfig) {
  const now = Date.now();
  const [found, days, is_used] = [otherPrices(config, now), catalogueDays(now), usesCatalogue(config)];
  const loaded =
    found.length === 0 ? undefined : await load(config_file, { stages: await stages(), env, environment: 'ignored' });
  const other = found.map((each) => ({ ...each, line: loaded?.positionOf(each.pointer)?.line }));
  return { days, is_old: is_used && days > CATALOGUE_DAYS_MAX, is_used, other };
}

type CatalogueComparison = Awaited<ReturnType<typeof compareWithCatalogue>>;

export function describeCatalogue({ days, is_old, is_used, other }: CatalogueComparison): string[] {
  const title = 'Prices of gateway.yaml that differ from the catalogue, in USD per million tokens:';
  const remedy = 'If no contract sets them, correct them, or omit `pricing` to use the catalogue.';
  const apart = describeFindings(title, other.map(describeOther), remedy);
  const age = `Price catalogue: ${CATALOGUE_DATE}, ${counted(days, 'day')} old${is_used ? '' : ', not in use here'}.`;
  const advice = is_old
    ? ` It is older than ${CATALOGUE_DAYS_MAX} days: prices may have changed. Upgrade this program, or set models[].pricing or prices.rows.`
    : '';
  return [...(apart.length > 0 ? ['', ...apart] : []), ...paragraph(`${age}${advice}`)];
}

function describeOther({ model, kind, line, written, catalogue }: CatalogueComparison['other'][number]): string {
  const where = line === undefined ? '' : ` (line ${line})`;
  return `${model}, ${kind}${where}: ${written}, in the catalogue ${catalogue}`;
}

function catalogueJson({ days, is_old, is_used, other }: CatalogueComparison): object {
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

interface ShowPricesOptions extends ConfigOptions, Texts<'model' | 'upstream'> {
  readonly at?: number;
}

interface ShownPrice {
  readonly model: string;
  readonly upstreams: readonly string[];
  readonly period: PricePeriod;
}

async function showPrices(context: CommandContext, options: ShowPricesOptions): Promise<number> {
  const { at = Date.now() } = options;
  const config = await readConfig(context, options.config);
  const shown = pricesAt(config, { ...options, at });
  return showReport(context, options.json, shown.flatMap(priceJson), () =>
    describePrices(together(shown, config), context.terminal.table_columns),
  );
}

function pricesAt(
  config: GatewayConfig,
  { model, upstream, at }: ShowPricesOptions & { readonly at: number },
): ShownPrice[] {
  const prices = createPriceBook(config);
  const models = model === undefined ? idsToShow(config) : [model];
  const known = config.upstreams.map(({ name }) => name);
  if (upstream !== undefined && !known.includes(upstream)) {
    throw usageError(`unknown upstream "${upstream}"; there is ${known.join(', ')}`);
  }
  const shown = models.flatMap((id) =>
    (upstream === undefined ? known : [upstream]).map((name): ShownPrice => {
      return { model: id, upstreams: [name], period: prices.periods(id, name).find(({ until }) => at < until)! };
    }),
  );
  if (model !== undefined && !shown.some(({ period }) => period.price !== undefined)) {
    const is_known = config.from_model_lists || config.models.some(({ id }) => id === model);
    const why = is_known
      ? 'has no price; check the id, or set a price in gateway.yaml'
      : 'is not in gateway.yaml; check the id, or add the model';
    throw usageError(`the model "${model}" ${why}`);
  }
  return shown;
}

function idsToShow(config: GatewayConfig): readonly string[] {
  if (!config.from_model_lists) return config.models.map(({ id }) => id);
  const ids = cataloguedModels(config).map(({ id }) => id);
  if (ids.length > 0) return ids;
  throw usageError(
    'gateway.yaml names no models, and the catalogue has no provider at the addresses of the upstreams; name a model: --model ID',
  );
}

function together(shown: readonly ShownPrice[], { upstreams }: GatewayConfig): ShownPrice[] {
  const alike = Map.groupBy(shown, ({ model, period }) => JSON.stringify([model, { ...period, from: 0 }]));
  return [...alike.values()].map((group): ShownPrice => {
    const names = group.flatMap((each) => each.upstreams);
    return { ...group[0]!, upstreams: names.length > 1 && names.length === upstreams.length ? ['(all)'] : names };
  });
}

const AMOUNTS = ['INPUT', 'OUTPUT', 'CACHE R', 'W 5M', 'W 1H', 'AUDIO IN', 'AUDIO OUT'];
const COLUMNS: Columns<readonly string[]> = ['MODEL, UPSTREAM', ...AMOUNTS, 'UNTIL', 'SOURCE'].map((title, i) => {
  return [title, (row) => row[i]!, AMOUNTS.includes(title) ? 'number' : 'text'];
});

const TOOL_COLUMNS = ['TOOL', 'MODEL', 'UPSTREAM', ...numbers('USD PER 1,000 USES')];

function describePrices(shown: readonly ShownPrice[], line_width: number): string[] {
  const by_model = [...Map.groupBy(shown, ({ model }) => model)];
  const rows = by_model.map(([, own]) => own.flatMap(tableRows));
  const [titles, ...lines] = formatTable(...tableOf(COLUMNS, rows.flat()), line_width);
  const described = by_model.flatMap(([model], i) => [printable(model), ...lines.splice(0, rows[i]!.length)]);
  const fees = shown.flatMap(({ model, upstreams, period }) =>
    Object.entries(period.price?.server_tools_pico ?? {}).map(([tool, pico]) => {
      return [tool, model, upstreams.join(', '), formatUsd(pico)];
    }),
  );
  const tools = fees.length === 0 ? [] : ['', ...formatTable(TOOL_COLUMNS, fees, line_width)];
  return [titles!, ...described, ...tools];
}

function tableRows({ upstreams, period: { price, until } }: ShownPrice): string[][] {
  const name = `  ${upstreams.join(', ')}`;
  const end = dayBeginning(until) ?? '';
  if (price === undefined) return [[name, ...KINDS.map(() => '-'), '', '', end, 'nowhere']];
  const amounts = (pico: EffectivePrice['pico']) =>
    KINDS_AND_AUDIO.map((kind) => (pico[kind] === undefined ? '' : usdPerMillion(pico[kind])));
  const rows = ({ pico, long_context }: TokenRates, label: string, ends = ['', '']): string[][] => [
    [label, ...amounts(pico), ...ends],
    ...(long_context ? [[`    > ${long_context.above_input_tokens}`, ...amounts(long_context.pico), '', '']] : []),
  ];
  const { source } = price;
  const from = source === 'catalogue' ? `catalogue ${CATALOGUE_DATE}` : source.replace(/^prices\./, '');
  return [
    ...rows(price, name, [end, from]),
    ...waysOf(price).flatMap(({ way, rates }) => rows(rates, `    ${Object.values(way).join(', ')}`)),
  ];
}

function waysOf({ served }: EffectivePrice): { readonly way: Record<string, string>; readonly rates: TokenRates }[] {
  return Object.entries(served?.rates ?? {}).flatMap(([key, rates]) => {
    const names = key.split('/');
    const named = SERVED_FIELDS.flatMap((field, i) => (names[i] ? [[field, names[i]!]] : []));
    return named.length === 0 ? [] : [{ way: Object.fromEntries(named) as Record<string, string>, rates }];
  });
}

function usdPerMillion(pico: number): string {
  return formatUsd(BigInt(pico) * 1000n);
}

function dayBeginning(moment: number): string | undefined {
  return Number.isFinite(moment) ? new Date(moment).toISOString().slice(0, 10) : undefined;
}

function tokenPrices(pico: EffectivePrice['pico']): Record<string, string> {
  return Object.fromEntries(
    KINDS_AND_AUDIO.flatMap((kind) => {
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

function priceJson({ model, upstreams, period: { price, from, until } }: ShownPrice): object[] {
  return upstreams.map((upstream) => ({
    model,
    upstream,
    source: price?.source ?? null,
    ...(price?.source === 'catalogue' && { catalogue_date: CATALOGUE_DATE }),
    from: dayBeginning(from) ?? null,
    until: dayBeginning(until) ?? null,
    ...(price && ratesJson(price)),
    ...(price?.served && { served: waysOf(price).map(({ way, rates }) => ({ ...way, ...ratesJson(rates) })) }),
    ...(price && {
      server_tools_usd: Object.fromEntries(
        Object.entries(price.server_tools_pico).map(([tool, pico]) => [tool, formatUsd(pico)]),
      ),
    }),
  }));
}

export const commands: readonly CommandRow[] = [
  {
    name: 'check',
    about:
      'find used models and tools without a price, and prices that differ from the catalogue; exits 1 for missing prices and for an outdated catalogue',
    options: [option('--since <when>', 'check requests from this time: 7d, 12h or a date (default: 90d)', moment)],
    place: 'configuration',
    json: 'print the result as JSON, amounts as exact decimals',
    examples: ['appscli prices check', 'appscli prices check --since 2027-01-01 --json'],
    run: checkPrices,
  },
  {
    name: 'show',
    about: 'show the prices in force, in USD per million tokens, and their sources',
    options: [
      option('--model <id>', 'only this model, also one that gateway.yaml lacks'),
      option('--upstream <name>', 'only at this upstream'),
      option('--at <when>', 'at this time, past or future (default: now)', time),
    ],
    place: 'configuration',
    json: 'print a JSON array of prices, every amount an exact decimal',
    examples: [
      'appscli prices show',
      'appscli prices show --model coder-1 --at 2027-01-01',
      'appscli prices show --upstream main --json',
    ],
    run: showPrices,
  },
];
