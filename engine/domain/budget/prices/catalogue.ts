import { createRequire } from 'node:module';
import type { ModelInfo, ModelPrice, PriceCalculation, PriceOptions } from '@pydantic/genai-prices';
import type { DatedPricing, PricingConfig } from '../../../base/contract/config.ts';
import { feeToPico, priceToPico } from '../../../base/kit/money.ts';

/**
 * Output limits of models, which the price catalogue does not have. Facts of the vendors' documentation, as
 * `model_prices_and_context_window.json` of litellm 1.110.2 (MIT, 2026-11) lists them, and of Anthropic's list of models.
 */
const LONGEST: readonly (readonly [tokens: number, ...models: readonly RegExp[]])[] = [
  [128_000, /claude-(?:fable-5|opus-5|opus-4-[678]|sonnet-5|sonnet-4-6)/],
  [64_000, /claude-(?:haiku-4-5|opus-4-5|sonnet-4|4-sonnet|3-7-sonnet)/],
  [32_000, /claude-(?:opus-4|4-opus)/],
  [8192, /claude-3-5/],
  [4096, /claude-(?:3|2|v\d|instant)/],
  [16_384, /gpt-5(?:-\d)?-chat/, /gpt-4o(?!-2024-05-13)/],
  [272_000, /gpt-5-pro/],
  [128_000, /gpt-[56]/],
  [32_768, /gpt-4-1(?!\d)/],
  [4096, /gpt-4o-2024-05-13/, /gpt-4(?:-turbo)?$/, /gpt-3-5/],
  [100_000, /(?:^|[/-])o[13](?:-pro|-mini|-deep-research)?$/, /(?:^|[/-])o4-mini/],
  [65_536, /gemini-(?:2-5|3)/, /deepseek-reasoner/],
  [8192, /gemini-(?:1|2-0)/, /deepseek-chat/],
  [393_216, /deepseek-v4/],
  [128_000, /glm-5/, /minimax-m3/],
];

/** The longest response of a model by its name, in tokens; `undefined` if unknown. */
function longestAnswer(name: string): number | undefined {
  const plain = name.toLowerCase().replace(/[._]/g, '-');
  return LONGEST.find(([, ...models]) => models.some((model) => model.test(plain)))?.[0];
}

/** Publication date of the bundled price catalogue. */
export const CATALOGUE_DATE = '2026-09-23';

// Half a megabyte of data, loaded on first use only.
const load = createRequire(import.meta.url);
let loaded: typeof import('@pydantic/genai-prices') | undefined;

function catalogue(): typeof import('@pydantic/genai-prices') {
  loaded ??= load('@pydantic/genai-prices') as typeof import('@pydantic/genai-prices');
  return loaded;
}

/**
 * What the catalogue knows about a model at an upstream's address. At the address of a provider only that provider's list
 * counts; elsewhere the id decides, which may begin with a provider: `provider/model`. `undefined`: it does not know the model.
 * Prices are sorted, the first without a beginning; none without an exact price.
 */
export function lookUp(id: string, base_url: string) {
  const found = search(id, base_url)?.model;
  if (found === undefined) return undefined;
  const { context_window } = found;
  const max_output_tokens = longestAnswer(found.id);
  return {
    prices: pricesOf(found),
    ...(context_window !== undefined && { context_window }),
    ...(max_output_tokens !== undefined && { max_output_tokens }),
  };
}

/** What the catalogue calls the model that is meant by an id at an address: the same for all names of a model. */
export function nameOf(id: string, base_url: string): string | undefined {
  const found = search(id, base_url);
  return found && `${found.provider.id}/${found.model.id}`;
}

/** Whether the catalogue has a price for an id at an address. */
export function hasPrice(id: string, base_url: string): boolean {
  return (lookUp(id, base_url)?.prices.length ?? 0) > 0;
}

/** The ids of the models with a price that the catalogue has of the provider at an address; none at any other address. */
export function idsAt(base_url: string): readonly string[] {
  const provider = catalogue().findProvider({ providerApiUrl: base_url });
  const named = provider?.models.filter((model) => {
    return pricesOf(model).length > 0 && find(model.id, { provider })?.model.id === model.id;
  });
  return named?.map(({ id }) => id) ?? [];
}

function search(id: string, base_url: string): Found | undefined {
  const { findProvider } = catalogue();
  const there = findProvider({ providerApiUrl: base_url });
  const [name = '', ...rest] = id.split('/');
  const named = rest.length > 0 ? findProvider({ providerId: name }) : undefined;
  return there === undefined && named !== undefined
    ? find(rest.join('/'), { provider: named })
    : find(id, there && { provider: there });
}

type Found = Pick<PriceCalculation, 'provider' | 'model'>;

/** The package has no search of its own; a request that used nothing finds the model. */
function find(id: string, where?: PriceOptions): Found | undefined {
  try {
    return catalogue().calcPrice({}, id, where) ?? undefined;
  } catch {
    return undefined;
  }
}

function pricesOf({ prices }: ModelInfo): DatedPricing[] {
  const all = Array.isArray(prices) ? prices : [{ prices }];
  const dated: DatedPricing[] = [];
  for (const { constraint, prices } of all) {
    const pricing = toPricing(prices);
    // gateway.yaml has no prices by time of day.
    if (pricing === undefined || constraint?.type === 'time_of_date') return [];
    dated.push({ pricing, ...(constraint && { from: constraint.start_date }) });
  }
  const sorted = dated.toSorted((a, b) => (a.from ?? '').localeCompare(b.from ?? ''));
  return sorted[0]?.from === undefined ? sorted : [];
}

const CHARGED: ReadonlySet<string> = new Set([
  ...['input_mtok', 'output_mtok', 'cache_read_mtok', 'cache_write_mtok', 'cache_write_1h_mtok'],
  // Searches, and searches in files that the upstream keeps, which are reported where they have no price.
  ...['web_searches_kcount', 'storage_searches_kcount'],
]);

/** `undefined` if the price has other parts, such as audio or a fee per request: the tokens alone would be too cheap. */
function toPricing(prices: ModelPrice): PricingConfig | undefined {
  const keys = Object.keys(prices).filter((key) => prices[key] !== undefined);
  if (!keys.every((key) => CHARGED.has(key))) return undefined;
  const tiers = keys.flatMap((key) => {
    const price = prices[key];
    return typeof price === 'object' ? price.tiers : [];
  });
  const starts = new Set(tiers.map(({ start }) => start));
  if (starts.size > 1) return undefined;
  const [above_input_tokens] = starts;
  const short = tokenPrices((key) => priceOf(prices[key], false));
  const long = above_input_tokens === undefined ? undefined : tokenPrices((key) => priceOf(prices[key], true));
  const web_search = priceOf(prices.web_searches_kcount, false);
  if (short === undefined || (above_input_tokens !== undefined && long === undefined)) return undefined;
  if (web_search !== undefined && !isExact(web_search, feeToPico)) return undefined;
  return {
    ...short,
    ...(long !== undefined && { long_context: { above_input_tokens: above_input_tokens!, ...long } }),
    ...(web_search !== undefined && { server_tools: { web_search } }),
  };
}

function priceOf(price: ModelPrice[string], long: boolean): number | undefined {
  if (typeof price !== 'object') return price;
  return long ? (price.tiers[0]?.price ?? price.base) : price.base;
}

function tokenPrices(of: (key: string) => number | undefined) {
  const input = of('input_mtok');
  const output = of('output_mtok');
  if (input === undefined || output === undefined) return undefined;
  const cache_write_5m = of('cache_write_mtok');
  const cache_write_1h = of('cache_write_1h_mtok');
  const prices = {
    input,
    output,
    // Without a cache price, cached tokens cost the full price.
    cache_read: of('cache_read_mtok') ?? input,
    ...(cache_write_5m !== undefined && { cache_write_5m }),
    ...(cache_write_1h !== undefined && { cache_write_1h }),
  };
  return Object.values(prices).every((usd) => isExact(usd, priceToPico)) ? prices : undefined;
}

function isExact(usd: number, convert: (usd: number) => number): boolean {
  try {
    convert(usd);
    return true;
  } catch {
    return false;
  }
}
