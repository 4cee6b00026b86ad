import { LRUCache } from 'lru-cache';
import type {
  DatedPricing,
  GatewayConfig,
  PriceRowConfig,
  PricingConfig,
  ServedPricingConfig,
  TokenPrices,
} from '../../../base/contract/config.ts';
import {
  type AudioTokens,
  type EffectivePrice,
  type PricedRoute,
  SERVED_FIELDS,
  type Served,
  type TokenCounts,
  type TokenRates,
  type Usage,
} from '../../../base/contract/services.ts';
import { compileGlob } from '../../../base/kit/glob.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { feeToPico, multiplyPrice, priceTokens, priceToPico } from '../../../base/kit/money.ts';
import { modelFinder } from './known-models.ts';

/** Prices of audio that are left out, as multiples of the price of text: those of the best-known models that hear and speak. */
const AUDIO_RATIOS = { input: 16, output: 8 } as const;

/** Pico-USD per token of audio, in and out. */
export function audioPico({ input, output, audio_input, audio_output }: TokenRates['pico']): AudioTokens {
  return {
    input: audio_input ?? input * AUDIO_RATIOS.input,
    output: audio_output ?? output * AUDIO_RATIOS.output,
  };
}

/** Whether some tokens of audio have no price of their own. */
export function isAudioUnpriced({ audio_input, audio_output }: TokenRates['pico'], audio: AudioTokens): boolean {
  return (audio.input > 0 && audio_input === undefined) || (audio.output > 0 && audio_output === undefined);
}

/** Where gateway.yaml has the prices of each field. */
export const SERVED_PRICES = {
  service_tier: 'service_tiers',
  speed: 'speeds',
  inference_geo: 'inference_geos',
} as const satisfies Record<keyof Served, keyof PricingConfig>;

type ServedPrices = NonNullable<EffectivePrice['served']>;

/** Provider names of the default tier, which has the price of the model. */
const ORDINARY: Readonly<Record<keyof Served, ReadonlySet<string>>> = {
  // Those that cost less without a price of their own cost what the model costs.
  service_tier: new Set(['default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch']),
  speed: new Set(['standard']),
  inference_geo: new Set(['global', 'not_available']),
};

/** Values that leave the choice to settings at the provider. */
const LEFT_OPEN: ReadonlySet<string> = new Set(['auto']);

/** Two names of one tier: a request with one of them may get a response with either. */
const SAME_TIER: ReadonlyMap<string, string> = new Map([
  ['fast', 'priority'],
  ['priority', 'fast'],
]);

/**
 * The prices of every combination of ways to be served; `undefined` where a model has one price. `ratesOf` gets token prices
 * that take the place of the model's, where there are any, and multipliers.
 */
export function combinations(
  pricing: PricingConfig,
  ratesOf: (own: TokenPrices | undefined, multipliers: readonly number[]) => TokenRates,
): ServedPrices | undefined {
  const listed = SERVED_FIELDS.map((field) => pricing[SERVED_PRICES[field]] ?? {});
  if (listed.every((prices) => Object.keys(prices).length === 0)) return undefined;
  const rates: Record<string, TokenRates> = Object.create(null);
  for (const way of everyWay(listed.map((prices) => [['', {}] as const, ...Object.entries(prices)]))) {
    const parts: readonly ServedPricingConfig[] = way.map(([, part]) => part);
    const factors = parts.flatMap(({ multiplier }) => (multiplier === undefined ? [] : [multiplier]));
    const own = parts.filter((part) => part.input !== undefined) as (ServedPricingConfig & TokenPrices)[];
    const each = own.map((prices) => ratesOf(prices, factors));
    rates[keyOf(way.map(([name]) => name))] =
      each.length === 0 ? ratesOf(undefined, factors) : each.reduce(moreExpensive);
  }
  const names = Object.fromEntries(SERVED_FIELDS.map((field, i) => [field, Object.keys(listed[i]!)]));
  return { names: names as unknown as ServedPrices['names'], rates };
}

function everyWay<T>(lists: readonly (readonly T[])[]): T[][] {
  return lists.reduce<T[][]>((ways, list) => ways.flatMap((way) => list.map((next) => [...way, next])), [[]]);
}

/** The name of a combination, of the names of `SERVED_FIELDS`; an empty one is the ordinary way. */
const keyOf = (names: readonly string[]): string => names.join('/');

/** A way to be served, of names that need not be there. */
export function servedOf(names: { readonly [Field in keyof Served]?: Served[Field] | undefined }): Served {
  const { service_tier, speed, inference_geo } = names;
  return {
    ...(service_tier !== undefined && { service_tier }),
    ...(speed !== undefined && { speed }),
    ...(inference_geo !== undefined && { inference_geo }),
  };
}

/** Requested service tier, speed and region, by the facts of the request. */
export function servedAsRequested(
  fact: (path: 'request.service_tier' | 'request.speed' | 'request.inference_geo') => string | undefined,
): Served {
  return servedOf({
    service_tier: fact('request.service_tier'),
    speed: fact('request.speed'),
    inference_geo: fact('request.inference_geo'),
  });
}

/** What of a way to be served is not the ordinary one. */
export function notableServing(served: Served): Served {
  if (served.service_tier === undefined && served.speed === undefined && served.inference_geo === undefined) return {};
  const notable = SERVED_FIELDS.filter((field) => {
    const name = served[field];
    return name !== undefined && !ORDINARY[field].has(name) && !LEFT_OPEN.has(name);
  });
  return Object.fromEntries(notable.map((field) => [field, served[field]])) as Served;
}

/** The fields of `served` whose name has no price, where the model has one at all. */
export function unpricedServing(price: Pick<EffectivePrice, 'served'>, served: Served): (keyof Served)[] {
  return SERVED_FIELDS.filter((field) => namesFor(price.served, field, served[field]) === undefined);
}

/** The rates of a response, of which the most expensive counts; several only if it names an unpriced tier, speed or region. */
export function billedRates(price: EffectivePrice, served: Served): readonly TokenRates[] {
  return ratesFor(price, (field) => namesFor(price.served, field, served[field])?.slice(0, 1));
}

/** The rates at which a request may be billed. The provider need not grant a requested tier. */
export function possibleRates(price: EffectivePrice, asked: Served): readonly TokenRates[] {
  return ratesFor(price, (field) => {
    const name = asked[field];
    // If the request has no tier, settings of the account decide; only the speed is then the default.
    if (name === undefined ? field !== 'speed' : LEFT_OPEN.has(name)) return undefined;
    const names = namesFor(price.served, field, name);
    return names === undefined || field === 'inference_geo' ? names : ['', ...names];
  });
}

function ratesFor(
  price: EffectivePrice,
  namesOf: (field: keyof Served) => readonly string[] | undefined,
): readonly TokenRates[] {
  const { served } = price;
  if (served === undefined) return [price];
  const names = SERVED_FIELDS.map((field) => namesOf(field) ?? ['', ...served.names[field]]);
  return everyWay(names).map((way) => served.rates[keyOf(way)]!);
}

/** The priced names for a name in a request or response, the likeliest first; `undefined` for an unpriced name. */
function namesFor(
  served: ServedPrices | undefined,
  field: keyof Served,
  name: string | undefined,
): readonly string[] | undefined {
  if (name === undefined) return [''];
  const same = field === 'service_tier' ? SAME_TIER.get(name) : undefined;
  const priced = [name, same].filter((known) => known !== undefined && served?.names[field].includes(known) === true);
  if (priced.length > 0) return priced as string[];
  return ORDINARY[field].has(name) || LEFT_OPEN.has(name) ? [''] : undefined;
}

/** Kinds of tokens that every model has a price for. */
export const KINDS = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const;
/** With those that only some models have. */
export const KINDS_AND_AUDIO = [...KINDS, 'audio_input', 'audio_output'] as const;

function moreExpensive(a: TokenRates, b: TokenRates): TokenRates {
  const [all_a, all_b] = [a, b].map(({ pico }): Required<Pico> => {
    const { input, output } = audioPico(pico);
    return { ...pico, audio_input: input, audio_output: output };
  }) as [Required<Pico>, Required<Pico>];
  const priced = KINDS_AND_AUDIO.filter((kind) => a.pico[kind] !== undefined || b.pico[kind] !== undefined);
  const higher = priced.map((kind) => [kind, Math.max(all_a[kind], all_b[kind])]);
  return { pico: Object.fromEntries(higher) as unknown as Pico };
}

/** The price of a model at an upstream for a time; `until` is the first moment (milliseconds) of the next one. */
export interface PricePeriod {
  readonly from: number;
  readonly until: number;
  /** `undefined`: gateway.yaml has no price for it. */
  readonly price: EffectivePrice | undefined;
  /** Index of the entry of `prices.rows` that applies, whether it sets the price or multiplies it. */
  readonly row: number | undefined;
}

type Pico = EffectivePrice['pico'];

/** The usage of a request that used nothing. */
export const NO_TOKENS: TokenCounts = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

const CACHE_RATIOS: Partial<Record<keyof TokenPrices, readonly [number]>> = {
  cache_read: [0.1],
  cache_write_5m: [1.25],
  cache_write_1h: [2],
};

const FOREIGN_MAX = 10_000;

/**
 * The prices of a configuration, those of its own models and upstreams computed ahead. Multiplied prices are rounded up to
 * the next pico-USD per token, once. Throws a RangeError for a price that cannot be kept.
 */
export function createPriceBook(config: GatewayConfig) {
  const own = new Map<string, Map<string, readonly PricePeriod[]>>();
  const foreign = new LRUCache<string, readonly PricePeriod[]>(atMost(FOREIGN_MAX));
  const compile = compiler(config);
  for (const { id } of config.models) {
    const compileAt = compile(id);
    own.set(id, new Map(config.upstreams.map(({ name }) => [name, compileAt(name)])));
  }
  /** All prices of a model at an upstream, oldest first, without gaps between the periods. */
  function periods(model: string, upstream: string): readonly PricePeriod[] {
    const known = own.get(model)?.get(upstream);
    if (known !== undefined) return known;
    const name = JSON.stringify([model, upstream]);
    let found = foreign.get(name);
    if (found === undefined) {
      found = compile(model)(upstream);
      foreign.set(name, found);
    }
    return found;
  }
  return {
    periods,
    /** The price in force, also of a model or upstream that gateway.yaml does not name; `undefined` when there is none. */
    of(model: string, { upstream, at }: PricedRoute): EffectivePrice | undefined {
      const all = periods(model, upstream);
      let i = all.length - 1;
      while (i > 0 && at < all[i]!.from) i--;
      return all[i]!.price;
    },
  };
}

/** What every model costs at every upstream at any time. */
export type PriceBook = ReturnType<typeof createPriceBook>;

/**
 * Nano-USD of what was used at a price, rounded up once; served in a way that has no price, at the most expensive there is. Uses of
 * tools without a price cost nothing; see `unpricedTools`.
 */
export function costOf(price: EffectivePrice, usage: Usage): number {
  if (price.served === undefined || usage.served === undefined) return costAt(price, price, usage);
  return Math.max(...billedRates(price, usage.served).map((rates) => costAt(price, rates, usage)));
}

/** Nano-USD of what was used at some of a price's rates, rounded up once. */
export function costAt(price: EffectivePrice, rates: TokenRates, usage: Usage): number {
  const { server_tools, audio } = usage;
  const pico = picoFor(rates, usage);
  const counts = inPriceOrder(usage);
  const prices = inPriceOrder(pico);
  if (audio !== undefined) {
    const heard = Math.min(audio.input, usage.input);
    const spoken = Math.min(audio.output, usage.output);
    const of_audio = audioPico(pico);
    counts[0] = usage.input - heard;
    counts[1] = usage.output - spoken;
    counts.push(heard, spoken);
    prices.push(of_audio.input, of_audio.output);
  }
  for (const tool in server_tools) {
    counts.push(server_tools[tool]!);
    prices.push(price.server_tools_pico[tool] ?? 0);
  }
  return priceTokens(counts, prices);
}

/** The prices of a request with some tokens: those of long inputs apply to all of it. */
export function picoFor({ pico, long_context }: TokenRates, usage: TokenCounts): Pico {
  const input = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h;
  return long_context !== undefined && input > long_context.above_input_tokens ? long_context.pico : pico;
}

/**
 * Cost of several runs, each by its model; uses of tools have the price of the requested model. A
 * request that takes one run is rounded once.
 */
export function costOfParts(
  requested: string,
  parts: readonly { readonly model: string; readonly tokens: TokenCounts }[],
  server_tools: Usage['server_tools'],
  costFor: (model: string, usage: Usage) => number,
): number {
  const fees = server_tools === undefined ? {} : { server_tools };
  const carrier = parts.findIndex(({ model }) => model === requested);
  const alone = carrier < 0 && server_tools !== undefined ? costFor(requested, { ...NO_TOKENS, ...fees }) : 0;
  return parts.reduce(
    (sum, { model, tokens }, i) => sum + costFor(model, i === carrier ? { ...tokens, ...fees } : tokens),
    alone,
  );
}

/** The tools used that have no price, by name. */
export function unpricedTools(price: EffectivePrice, { server_tools = {} }: Usage): string[] {
  return Object.keys(server_tools).filter((tool) => server_tools[tool]! > 0 && !(tool in price.server_tools_pico));
}

/** Midnight UTC of a date (YYYY-MM-DD), in milliseconds; `undefined` for a date that the calendar does not have. */
export function midnightOf(date: string): number | undefined {
  const time = Date.parse(`${date}T00:00:00Z`);
  return Number.isFinite(time) && new Date(time).toISOString().startsWith(date) ? time : undefined;
}

function inPriceOrder(of: TokenCounts): number[] {
  return KINDS.map((kind) => of[kind]);
}

type DatedRow = ReturnType<typeof datedRow>;

function datedRow(row: PriceRowConfig, index: number) {
  const source = `prices.rows[${index}]`;
  const midnight = (key: 'from' | 'until', otherwise: number) => {
    const date = row[key];
    const time = date === undefined ? otherwise : midnightOf(date);
    if (time === undefined) throw new RangeError(`${source}.${key}: the calendar has no day "${date}"`);
    return time;
  };
  const globs = row.models.map(compileGlob);
  const matches = (model: string) => globs.some((fits) => fits(model));
  return { row, matches, index, source, from: midnight('from', -Infinity), until: midnight('until', Infinity) };
}

type CataloguePrice = ReturnType<typeof cataloguePrice>;

/** `key` distinguishes it from all other prices of the model. */
function cataloguePrice({ pricing, from }: DatedPricing) {
  return { pricing, key: JSON.stringify(pricing), from: from === undefined ? -Infinity : midnightOf(from)! };
}

/** Compiles the periods of a model, and then of each upstream: they change where a row that names both begins or ends. */
function compiler(config: GatewayConfig) {
  const { models, upstreams, prices } = config;
  const rows = (prices?.rows ?? []).map(datedRow).filter(({ from, until }) => from < until);
  const known = new Map(models.map((model) => [model.id, model]));
  const find = config.from_model_lists ? modelFinder(config) : (id: string) => known.get(id);
  const contracts = new Map(upstreams.map(({ name, price_multiplier = 1 }) => [name, price_multiplier]));
  return (model: string) => {
    const { pricing: own, catalogue = {} } = find(model) ?? {};
    // Most upstreams charge the same.
    const computed = new Map<string, EffectivePrice>();
    const matching = rows.filter(({ matches }) => matches(model));
    const priceBy = (
      found: DatedRow | undefined,
      listed: CataloguePrice | undefined,
      contract: number,
    ): EffectivePrice | undefined => {
      const { pricing: written = own ?? listed?.pricing, multiplier = 1 } = found?.row ?? {};
      const pricing = written ?? prices?.unknown_model;
      if (pricing === undefined) return undefined;
      const name = `${found?.index} ${contract} ${listed?.key}`;
      let price = computed.get(name);
      if (price === undefined) {
        const source =
          written === undefined ? 'prices.unknown_model' : (found?.source ?? (own ? 'models' : 'catalogue'));
        const multipliers = [multiplier, contract].filter((factor) => factor !== 1);
        price = { source, ...amountsOf(pricing, multipliers, model) };
        computed.set(name, price);
      }
      return price;
    };
    return (upstream: string): readonly PricePeriod[] => {
      const relevant = matching.filter(({ row }) => row.upstream === undefined || row.upstream === upstream);
      const listed = (own === undefined ? (catalogue[upstream] ?? []) : []).map(cataloguePrice);
      const bounds = [...relevant.flatMap(({ from, until }) => [from, until]), ...listed.map(({ from }) => from)];
      const moments = new Set(bounds.filter(Number.isFinite));
      const starts = [-Infinity, ...[...moments].sort((a, b) => a - b)];
      return starts.map((from, i): PricePeriod => {
        const found = relevant.find((row) => row.from <= from && from < row.until);
        const in_list = listed.findLast((each) => each.from <= from);
        const price = priceBy(found, in_list, contracts.get(upstream) ?? 1);
        return { from, until: starts[i + 1] ?? Infinity, row: found?.index, price };
      });
    };
  };
}

type Amounts = Omit<EffectivePrice, 'source'>;

function amountsOf(pricing: PricingConfig, multipliers: readonly number[], model: string): Amounts {
  const { server_tools = {} } = pricing;
  const fees: Record<string, number> = Object.create(null);
  for (const [tool, usd] of Object.entries(server_tools)) {
    fees[tool] = namedIn(tool, model, () => multiplyPrice(feeToPico(usd), multipliers));
  }
  const ratesOf = (
    prices: Pick<PricingConfig, 'long_context'> & TokenPrices,
    factors: readonly number[],
  ): TokenRates => ({
    pico: picoOf(prices, factors, model),
    ...(prices.long_context !== undefined && {
      long_context: {
        above_input_tokens: prices.long_context.above_input_tokens,
        pico: picoOf(prices.long_context, factors, model),
      },
    }),
  });
  const served = combinations(pricing, (own, factors) => ratesOf(own ?? pricing, [...factors, ...multipliers]));
  return { ...ratesOf(pricing, multipliers), ...(served && { served }), server_tools_pico: fees };
}

function picoOf(prices: TokenPrices, multipliers: readonly number[], model: string): Pico {
  const fields = KINDS_AND_AUDIO.flatMap((field) => {
    const usd = prices[field];
    const [from, ratios] = usd === undefined ? [prices.input, CACHE_RATIOS[field]] : [usd, []];
    return ratios === undefined
      ? []
      : [[field, namedIn(field, model, () => multiplyPrice(priceToPico(from), [...ratios, ...multipliers]))] as const];
  });
  return Object.fromEntries(fields) as unknown as Pico;
}

function namedIn(field: string, model: string, price: () => number): number {
  try {
    return price();
  } catch (error) {
    throw new RangeError(`the "${field}" price of the model "${model}": ${(error as Error).message}`);
  }
}
