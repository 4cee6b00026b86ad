import type { ModelConfig } from '../../contract/config.ts';
import type { EffectivePrice, ModelCatalog, PricedRoute, Served, TokenRates } from '../../contract/services.ts';
import { priceTokens } from '../../kit/money.ts';
import { audioPico } from '../prices/audio.ts';
import { costAt, NO_TOKENS } from '../prices/prices.ts';
import { possibleRates } from '../prices/served-prices.ts';
import type { MostTokens } from './most-tokens.ts';

/** The most a request can use. */
export interface MostUsage extends Pick<MostTokens, 'input' | 'output'> {
  /** As in `MostTokens`; absent: once, and never to summarize. */
  readonly runs?: number;
  readonly compactions?: number;
  readonly compaction_output?: number;
  /** Longest cache lifetime it asks for. */
  readonly cache_ttl: string;
  /** Most uses of each tool that the upstream runs. */
  readonly server_tools?: Readonly<Record<string, number>>;
  /** Uses beyond those, of whichever tool is the most expensive. */
  readonly any_tool?: number;
  /** How it asks to be served. */
  readonly asked?: Served;
  /** Whether its input, and its answer, may be audio. */
  readonly audio?: { readonly input: boolean; readonly output: boolean };
}

/** The most that usage can cost, in nano-USD: the whole input at the most expensive price that the cache lifetime allows. */
export function highestCost(models: ModelCatalog, model: ModelConfig, most: MostUsage, route: PricedRoute): number {
  const { runs = 1, compactions = 0, compaction_output = 0 } = most;
  const price = models.price(model, route);
  const tools = costAt(price, price, { ...NO_TOKENS, server_tools: most.server_tools ?? {} });
  const any_tool = toolFees(price, most.any_tool ?? 0);
  const costs = possibleRates(price, most.asked ?? {}).map((rates) => {
    const run = runCost(price, rates, most, most.output);
    const compaction = compactions === 0 ? 0 : runCost(price, rates, most, compaction_output);
    return runs * run + compactions * compaction;
  });
  return Math.min(Number.MAX_SAFE_INTEGER, tools + any_tool + Math.max(...costs));
}

function toolFees({ server_tools_pico: fees }: EffectivePrice, uses: number): number {
  return uses === 0 ? 0 : priceTokens([uses], [Math.max(0, ...Object.values(fees))]);
}

/** The most that one run of the model can cost. */
function runCost(
  price: EffectivePrice,
  rates: TokenRates,
  { input, cache_ttl, audio }: MostUsage,
  output: number,
): number {
  const { pico, long_context } = rates;
  const cost = (tokens: number, kinds: TokenRates['pico']) => {
    const kind = mostExpensiveKind(kinds, cache_ttl);
    const of_audio = audioPico(kinds);
    const is_heard = audio?.input === true && of_audio.input > kinds[kind];
    const is_spoken = audio?.output === true && of_audio.output > kinds.output;
    return costAt(price, rates, {
      ...{ ...NO_TOKENS, output, [is_heard ? 'input' : kind]: tokens },
      audio: { input: is_heard ? tokens : 0, output: is_spoken ? output : 0 },
    });
  };
  if (long_context === undefined || input <= long_context.above_input_tokens) return cost(input, pico);
  // It may turn out shorter than it can be at most, and a tier may be cheaper than what lies below it.
  return Math.max(cost(long_context.above_input_tokens, pico), cost(input, long_context.pico));
}

type InputKind = 'input' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h';

/** An upstream reads from its cache unasked, and writes to it for the lifetime that was asked for. */
function mostExpensiveKind(pico: TokenRates['pico'], cache_ttl: string): InputKind {
  let most_expensive: InputKind = pico.cache_read > pico.input ? 'cache_read' : 'input';
  if (cache_ttl !== 'none' && pico.cache_write_5m > pico[most_expensive]) most_expensive = 'cache_write_5m';
  if (cache_ttl === '1h' && pico.cache_write_1h > pico[most_expensive]) most_expensive = 'cache_write_1h';
  return most_expensive;
}
