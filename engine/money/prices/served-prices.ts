import type { PricingConfig, ServedPricingConfig, TokenPrices } from '../../contract/config.ts';
import { type EffectivePrice, SERVED_FIELDS, type Served, type TokenRates } from '../../contract/services.ts';
import { audioPico } from './audio.ts';

/** Where gateway.yaml has the prices of each field. */
export const SERVED_PRICES = {
  service_tier: 'service_tiers',
  speed: 'speeds',
  inference_geo: 'inference_geos',
} as const satisfies Record<keyof Served, keyof PricingConfig>;

type ServedPrices = NonNullable<EffectivePrice['served']>;

/** What providers call the ordinary way, whose price is that of the model. */
const ORDINARY: Readonly<Record<keyof Served, ReadonlySet<string>>> = {
  // Those that cost less without a price of their own cost what the model costs.
  service_tier: new Set(['default', 'standard', 'standard_only', 'on_demand', 'flex', 'batch']),
  speed: new Set(['standard']),
  inference_geo: new Set(['global', 'not_available']),
};

/** What leaves the choice to settings at the provider. */
const LEFT_OPEN: ReadonlySet<string> = new Set(['auto']);

/** Two names of one tier: what is asked for by one of them is answered by either. */
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
  const [tiers, speeds, geos] = listed.map((prices) => [['', {}] as const, ...Object.entries(prices)]);
  for (const [service_tier, tier] of tiers!) {
    for (const [speed, fast] of speeds!) {
      for (const [inference_geo, geo] of geos!) {
        const parts: readonly ServedPricingConfig[] = [tier, fast, geo];
        const factors = parts.flatMap(({ multiplier }) => (multiplier === undefined ? [] : [multiplier]));
        const own = parts.filter((part) => part.input !== undefined) as (ServedPricingConfig & TokenPrices)[];
        const each = own.map((prices) => ratesOf(prices, factors));
        rates[servedKey({ service_tier, speed, inference_geo })] =
          each.length === 0 ? ratesOf(undefined, factors) : each.reduce(moreExpensive);
      }
    }
  }
  const [service_tier, speed, inference_geo] = listed.map((prices) => Object.keys(prices));
  return { names: { service_tier: service_tier!, speed: speed!, inference_geo: inference_geo! }, rates };
}

/** The name of a combination; an empty part is the ordinary way. */
export function servedKey({ service_tier = '', speed = '', inference_geo = '' }: Served): string {
  return `${service_tier}/${speed}/${inference_geo}`;
}

/** A way to be served, of names that need not be there. */
export function servedOf(names: { readonly [Field in keyof Served]?: Served[Field] | undefined }): Served {
  const { service_tier, speed, inference_geo } = names;
  return {
    ...(service_tier !== undefined && { service_tier }),
    ...(speed !== undefined && { speed }),
    ...(inference_geo !== undefined && { inference_geo }),
  };
}

/** How a client asked to be served, by the facts of its request. */
export function servedAsAsked(
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

/** The rates that an answer is billed at, of which the most expensive counts: several only where it names what has no price. */
export function billedRates(price: EffectivePrice, served: Served): readonly TokenRates[] {
  return ratesFor(price, (field) => namesFor(price.served, field, served[field])?.slice(0, 1));
}

/** The rates that a request may come to be billed at, by what it asks for. A tier that is asked for need not be granted. */
export function possibleRates(price: EffectivePrice, asked: Served): readonly TokenRates[] {
  return ratesFor(price, (field) => {
    const name = asked[field];
    // Without a word on it, an account may be set to anything; only speed is ordinary then.
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
  const [tiers, speeds, geos] = SERVED_FIELDS.map((field) => namesOf(field) ?? ['', ...served.names[field]]);
  return tiers!.flatMap((service_tier) =>
    speeds!.flatMap((speed) =>
      geos!.map((inference_geo) => served.rates[servedKey({ service_tier, speed, inference_geo })]!),
    ),
  );
}

/** The priced names that a name of the wire means, the likeliest first; `undefined` for one without a price. */
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

const KINDS = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const;

/** The more expensive of two, kind of token by kind of token. */
function moreExpensive({ pico: a }: TokenRates, { pico: b }: TokenRates): TokenRates {
  const higher = KINDS.map((kind) => [kind, Math.max(a[kind], b[kind])] as const);
  const pico = Object.fromEntries(higher) as Record<(typeof KINDS)[number], number>;
  const [audio_a, audio_b] = [audioPico(a), audioPico(b)];
  const isPriced = (kind: 'audio_input' | 'audio_output') => a[kind] !== undefined || b[kind] !== undefined;
  return {
    pico: {
      ...pico,
      ...(isPriced('audio_input') && { audio_input: Math.max(audio_a.input, audio_b.input) }),
      ...(isPriced('audio_output') && { audio_output: Math.max(audio_a.output, audio_b.output) }),
    },
  };
}
