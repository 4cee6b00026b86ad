/** Prices of gateway.yaml beside those of the catalogue: typed by hand long ago, or taken from a catalogue that has become old. */
import type { GatewayConfig, ModelConfig } from '../../contract/config.ts';
import { CATALOGUE_DATE, lookUp } from './catalogue.ts';
import { midnightOf } from './prices.ts';

const DAY_MS = 86_400_000;

/** From so many days on a catalogue is said to be old: providers change prices a few times a year. */
export const CATALOGUE_DAYS_MAX = 180;

/** Kinds of tokens that both can have a price for. */
const KINDS = ['input', 'output', 'cache_read', 'cache_write_5m', 'cache_write_1h'] as const;

/** A price of gateway.yaml that is not that of the catalogue. */
export interface OtherPrice {
  readonly model: string;
  /** The first upstream at which the catalogue knows the model. */
  readonly upstream: string;
  readonly kind: (typeof KINDS)[number];
  /** Where gateway.yaml has it, as a JSON pointer. */
  readonly pointer: string;
  /** USD per million tokens. */
  readonly written: number;
  readonly catalogue: number;
}

/** Days since the day of the catalogue, at a moment in milliseconds since the epoch. */
export function catalogueDays(now: number): number {
  return Math.max(0, Math.floor((now - midnightOf(CATALOGUE_DATE)!) / DAY_MS));
}

/** Whether prices of the catalogue are in force. */
export function usesCatalogue({ models, from_model_lists }: GatewayConfig): boolean {
  return from_model_lists === true || models.some(({ catalogue }) => catalogue !== undefined);
}

/** The prices under `models[].pricing` that the catalogue has differently, at a moment in milliseconds since the epoch. */
export function otherPrices({ models, upstreams }: GatewayConfig, now: number): OtherPrice[] {
  return models.flatMap((model, index) => {
    for (const upstream of upstreams) {
      const found = compare(model, upstream, now);
      if (found !== undefined)
        return found.map((each) => ({ ...each, pointer: `/models/${index}/pricing/${each.kind}` }));
    }
    return [];
  });
}

/** `undefined` where the catalogue does not know the model at the upstream. */
function compare(
  { id, pricing, upstream_ids }: ModelConfig,
  { name, base_url }: GatewayConfig['upstreams'][number],
  now: number,
): Omit<OtherPrice, 'pointer'>[] | undefined {
  if (pricing === undefined) return undefined;
  const dated = lookUp(upstream_ids[name] ?? id, base_url)?.prices ?? [];
  const listed = dated.findLast(({ from }) => from === undefined || midnightOf(from)! <= now)?.pricing;
  if (listed === undefined) return undefined;
  return KINDS.flatMap((kind) => {
    const [written, catalogue] = [pricing[kind], listed[kind]];
    if (written === undefined || catalogue === undefined || written === catalogue) return [];
    return [{ model: id, upstream: name, kind, written, catalogue }];
  });
}
