import type { GatewayConfig, ModelConfig, PriceRowConfig, PricesConfig, PricingConfig } from '../../contract/config.ts';
import { type Change, compareNames, compareValues, shown, told } from './change.ts';

const SIZES = ['context_window', 'max_output_tokens'] as const;
const PRICES = [
  ...(['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const),
  ...(['audio_input', 'audio_output'] as const),
];

const FEES = ['long_context', 'service_tiers', 'speeds', 'inference_geos', 'server_tools'] as const;

/** What a model costs beside its ordinary tokens. */
function feesOf({ pricing }: ModelConfig): object {
  return Object.fromEntries(FEES.map((key) => [key, pricing?.[key] ?? {}]));
}

function tokenPrices({ pricing: before }: ModelConfig, { pricing: after }: ModelConfig): string[] {
  if (before === undefined && after === undefined) return [];
  if (before === undefined || after === undefined) {
    const told = ({ input, output }: PricingConfig) => `input ${input} and output ${output} USD per million tokens`;
    const other = 'what the section prices or the catalogue says';
    return [`costs ${before ? told(before) : other} -> ${after ? told(after) : other}`];
  }
  const derived = (key: string) => `derived from ${key === 'audio_output' ? 'output' : 'input'}`;
  const price = (pricing: PricingConfig, key: (typeof PRICES)[number]) => shown(pricing[key] ?? derived(key));
  return PRICES.filter((key) => before[key] !== after[key]).map(
    (key) => `${key} ${price(before, key)} -> ${price(after, key)} USD per million tokens`,
  );
}

/** An entry of `prices.rows` in words: `coder-* at main from 2027-01-01: input 3, output 15 USD per million tokens`. */
function formatRow({ models, upstream, from, until, pricing, multiplier }: PriceRowConfig): string {
  const where = [
    models.join(', '),
    ...(upstream === undefined ? [] : [`at ${upstream}`]),
    ...(from === undefined ? [] : [`from ${from}`]),
    ...(until === undefined ? [] : [`until ${until}`]),
  ];
  const prices = pricing === undefined ? 'the price of the model' : formatPricing(pricing);
  return `${where.join(' ')}: ${prices}${multiplier === 1 ? '' : `, times ${multiplier}`}`;
}

function formatPricing(pricing: PricingConfig): string {
  const { long_context, server_tools, service_tiers, speeds, inference_geos, ...tokens } = pricing;
  const listed = (prices: object) => Object.entries(prices).map(([name, price]) => `${name} ${price}`);
  const tools = Object.entries(server_tools ?? {}).map(([tool, fee]) => `${tool} ${fee} USD per 1,000 uses`);
  return [
    `${listed(tokens).join(', ')} USD per million tokens`,
    ...(long_context === undefined ? [] : [`long_context ${listed(long_context).join(', ')}`]),
    ...Object.entries({ service_tiers, speeds, inference_geos }).flatMap(([key, ways]) =>
      Object.entries(ways ?? {}).map(([name, prices]) => `${key}.${name} ${listed(prices).join(', ')}`),
    ),
    ...tools,
  ].join('; ');
}

/** What the section `prices` says, entry by entry. */
function diffSection(before: PricesConfig | undefined, after: PricesConfig | undefined): Change[] {
  const tell = (subject: string, change: string): Change => ({ section: 'prices', subject, change });
  const [old_rows, new_rows] = [before, after].map((prices) => (prices?.rows ?? []).map(formatRow)) as [
    string[],
    string[],
  ];
  const { lost, gained, kept } = compareNames(old_rows, new_rows);
  const inOrder = (rows: readonly string[]) => rows.filter((row) => kept.includes(row)).join('\n');
  const [was, is] = [before, after].map((prices) => prices?.unknown_model && formatPricing(prices.unknown_model));
  return [
    ...(was === is ? [] : [tell('prices.unknown_model', `${shown(was)} -> ${shown(is)}`)]),
    ...lost.map((row) => tell('prices.rows', `is gone: ${row}`)),
    ...gained.map((row) => tell('prices.rows', `is new: ${row}`)),
    ...(inOrder(old_rows) === inOrder(new_rows)
      ? []
      : [tell('prices.rows', 'other order; the first entry that matches holds')]),
  ];
}

/** Prices and sizes of models that are in both, and what the section `prices` says. */
export function diffPrices(before: GatewayConfig, after: GatewayConfig): Change[] {
  const old_models = new Map(before.models.map((model) => [model.id, model]));
  const of_models = after.models.flatMap((model): Change[] => {
    const old_model = old_models.get(model.id);
    if (old_model === undefined) return [];
    const prices = tokenPrices(old_model, model);
    const sizes = SIZES.filter((key) => old_model[key] !== model[key]).map(
      (key) => `${key} ${old_model[key]} -> ${model[key]}`,
    );
    const fees = compareValues(feesOf(old_model), feesOf(model)).map(({ path, change }) => `${path}: ${change}`);
    return told('prices', model.id, [...prices, ...fees, ...sizes]);
  });
  return [...of_models, ...diffSection(before.prices, after.prices)];
}
