import type { ModelConfig } from '../config.ts';
import { NO_TOKENS } from '../services/prices.ts';
import type { EffectivePrice, ModelCatalog, PricedRoute, Usage } from '../stage-services.ts';

/** The most a request can use. */
export interface MostUsage {
  readonly input: number;
  readonly output: number;
  /** Longest cache lifetime it asks for. */
  readonly cache_ttl: string;
  /** Most uses of each tool that the upstream runs, where the request bounds them. */
  readonly server_tools?: Readonly<Record<string, number>>;
}

type InputKind = 'input' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h';

/** The most that usage can cost, in nano-USD: the whole input at the dearest price that the cache lifetime allows. */
export function highestCost(models: ModelCatalog, model: ModelConfig, most: MostUsage, route: PricedRoute): number {
  const price = models.price(model, route);
  const { long_context } = price;
  const cost = (input: number, pico: EffectivePrice['pico']) =>
    models.cost(model, usageOf(most, input, dearestKind(pico, most.cache_ttl)), route);
  if (long_context === undefined || most.input <= long_context.above_input_tokens) return cost(most.input, price.pico);
  // It may turn out shorter than it can be at most, and a tier may be cheaper than what lies below it.
  return Math.max(cost(long_context.above_input_tokens, price.pico), cost(most.input, long_context.pico));
}

function usageOf({ output, server_tools }: MostUsage, input: number, kind: InputKind): Usage {
  const usage = { ...NO_TOKENS, output, [kind]: input };
  return server_tools === undefined ? usage : { ...usage, server_tools };
}

/** An upstream reads from its cache unasked, and writes to it for the lifetime that was asked for. */
function dearestKind(pico: EffectivePrice['pico'], cache_ttl: string): InputKind {
  let dearest: InputKind = pico.cache_read > pico.input ? 'cache_read' : 'input';
  if (cache_ttl !== 'none' && pico.cache_write_5m > pico[dearest]) dearest = 'cache_write_5m';
  if (cache_ttl === '1h' && pico.cache_write_1h > pico[dearest]) dearest = 'cache_write_1h';
  return dearest;
}
