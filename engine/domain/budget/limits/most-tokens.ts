import type { ChatBound, ModelConfig, OutputBound, UpstreamConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import { protocolOf } from '../../../base/contract/protocol.ts';
import type { EffectivePrice, ModelCatalog, PricedRoute, Served, TokenRates } from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { priceTokens } from '../../../base/kit/money.ts';
import { definitionNamed, definitionOf, type OutputRules, otherBound } from '../../protocols/index.ts';
import { audioPico, costAt, NO_TOKENS, possibleRates } from '../prices/prices.ts';

/** Upper bounds of the tokens of a request. */
interface MostTokens {
  /** Of one run of the model. */
  readonly input: number;
  readonly output: number;
  /** Number of model runs. */
  readonly runs: number;
  /** Number of runs of each other model that the request names. */
  readonly other_runs: number;
  /** Additional runs to summarize the conversation, and the maximum output of each. */
  readonly compactions: number;
  readonly compaction_output: number;
}

/** The maximum tokens that a request can use of a model. One run cannot exceed the context window. */
export function mostTokensOf(ctx: TokenFacts, model: ModelConfig, upstream: UpstreamConfig): MostTokens {
  const { max_output_tokens } = model;
  const choices = choicesOf(ctx);
  const context_window = windowOf(ctx, model);
  const input_max = ctx.get('request.input_tokens_max');
  if (ctx.get('request.protocol') === 'none') {
    // Each text of a list is a separate run.
    const input = Math.min(input_max, context_window * choices);
    const once = { runs: 1, other_runs: 1, compactions: 0, compaction_output: 0 };
    return { input, output: max_output_tokens * choices, ...once };
  }
  const { runs_max, are_runs_bounded } = definitionOf(ctx.get('route.protocol')).output;
  const endless = upstream.tool_iterations ?? runs_max;
  // 0: the request does not bound the use of the upstream's tools.
  const asked = (ctx.get('request.iterations') ?? 1) || endless;
  const iterations = asked > 1 && !are_runs_bounded ? Math.max(asked, endless) : asked;
  const output = outputBound(ctx, model, upstream) ?? max_output_tokens;
  const compacts = ctx.get('request.compacts') === true;
  return {
    input: Math.min(input_max, context_window),
    output: Math.min(output, Math.max(context_window, max_output_tokens)),
    // Some providers bill the input once per choice.
    runs: iterations * choices,
    other_runs: asked * choices,
    compactions: compacts ? iterations * choices : 0,
    compaction_output: compacts ? max_output_tokens : 0,
  };
}

/**
 * The output bound that the upstream enforces, if any: the largest of all bounds sent, since the upstream may prefer any.
 * 0 counts as no bound, because some servers read it so.
 */
function outputBound(
  ctx: TokenFacts,
  model: ModelConfig,
  { enforces, max_tokens_field }: UpstreamConfig,
): number | undefined {
  const to = definitionOf(ctx.get('route.protocol'));
  const asked = ctx.get('request.max_tokens');
  const max_tokens = asked ?? (to.output.is_required ? model.default_output_tokens : 0);
  const translated = max_tokens === 0 ? 0 : Math.max(max_tokens, to.output.min);
  const bounds = ctx.get('request.output_bounds') ?? (asked === undefined ? {} : { max_tokens: asked });
  const sent =
    definitionNamed(protocolOf(ctx.get('request.protocol'))) === to
      ? respelt(bounds as Readonly<Record<string, number>>, to.output, max_tokens_field)
      : { [writtenBound(model, to.output, max_tokens_field)]: translated };
  const is_kept = enforces.some((name) => (sent[name] ?? 0) > 0);
  return is_kept ? Math.max(...Object.values(sent)) : undefined;
}

/** The name of the bound in a translated request. */
function writtenBound(
  { supports }: ModelConfig,
  { fields: [first, second] }: OutputRules,
  field: ChatBound | undefined,
): OutputBound {
  if (second === undefined) return first;
  return field ?? (supports.thinking === 'none' ? first : second);
}

/** The bounds of an untranslated request as sent: see `spellBound`. */
function respelt(
  bounds: Readonly<Record<string, number>>,
  { fields }: OutputRules,
  field: ChatBound | undefined,
): Readonly<Record<string, number>> {
  if (fields.length === 1 || field === undefined || bounds[field] !== undefined) return bounds;
  const { [otherBound(field)]: bound, ...others } = bounds;
  return bound === undefined ? bounds : { ...others, [field]: bound };
}

/** The facts that bound the tokens of a request, beside its protocol. */
export const TOKEN_FACTS = {
  reads: ['request.input_tokens_estimate', 'request.input_tokens_max'],
  reads_if_set: [
    'request.max_tokens',
    'request.context_window',
    'request.choices',
    'request.output_bounds',
    'request.iterations',
    'request.compacts',
    'route.protocol',
    'request.cache.ttl',
    'cache.downgraded',
  ],
} as const;

type TokenFacts = Pick<
  StageContext<
    'request.protocol' | (typeof TOKEN_FACTS)['reads'][number],
    (typeof TOKEN_FACTS)['reads_if_set'][number]
  >,
  'get'
>;

/** Number of requested choices. */
export function choicesOf(ctx: TokenFacts): number {
  return ctx.get('request.choices') ?? 1;
}

/** Maximum texts of a request to another API; each may fill a context window. */
export function textsOf(ctx: TokenFacts): number {
  return ctx.get('request.protocol') === 'none' ? choicesOf(ctx) : 1;
}

/** Rejects a bound of 0, which some servers read as no bound. Raises invalid_request. */
export function refuseZeroBound(ctx: TokenFacts, { name, supports }: UpstreamConfig): void {
  if (ctx.get('request.max_tokens') !== 0 || supports.max_tokens_0) return;
  throw new StageError(
    'invalid_request',
    `max_tokens: must be 1 or more: some providers read 0 as "no limit". If the upstream "${name}" reads it as "no output", an administrator can set \`supports.max_tokens_0\`.`,
    { details: { param: 'max_tokens' } },
  );
}

/** The longest lifetime of the prompt's cache writes; upstreams of some protocols choose it themselves. */
export function cacheLifetime(ctx: TokenFacts): string {
  if (ctx.get('request.protocol') === 'none') return 'none';
  if (ctx.get('cache.downgraded') === true) return '5m';
  const asked = ctx.get('request.cache.ttl') ?? 'none';
  return asked === 'none' && !definitionOf(ctx.get('route.protocol')).kept.cache_lifetimes ? '5m' : asked;
}

/** The context window of a request; a beta header may ask for a longer one than the model's. */
export function windowOf(ctx: TokenFacts, { context_window }: ModelConfig): number {
  return Math.max(context_window, ctx.get('request.context_window') ?? 0);
}

/** The tokens that a request counts against token limits. */
export function likelyTokens(ctx: TokenFacts, model: ModelConfig): number {
  const { max_output_tokens } = model;
  const input = Math.min(ctx.get('request.input_tokens_estimate'), windowOf(ctx, model) * textsOf(ctx));
  return input + Math.min(ctx.get('request.max_tokens') ?? max_output_tokens, max_output_tokens) * choicesOf(ctx);
}

/** Upper bounds of the usage of a request. */
interface MostUsage extends Pick<MostTokens, 'input' | 'output'> {
  /** As in `MostTokens`; absent: once, and never to summarize. */
  readonly runs?: number;
  readonly compactions?: number;
  readonly compaction_output?: number;
  /** The longest cache lifetime that the request asks for. */
  readonly cache_ttl: string;
  /** Maximum uses of each tool that the upstream runs. */
  readonly server_tools?: Readonly<Record<string, number>>;
  /** Further uses, priced as the most expensive tool. */
  readonly any_tool?: number;
  readonly asked?: Served;
  /** Whether the input and the output may be audio. */
  readonly audio?: { readonly input: boolean; readonly output: boolean };
}

/** The highest cost of usage in nano-USD: all input at the most expensive price that the cache lifetime allows. */
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

/** The highest cost of one run at some rates of a price, in nano-USD. */
export function runCost(
  price: EffectivePrice,
  rates: TokenRates,
  { input, cache_ttl, audio }: Pick<MostUsage, 'input' | 'cache_ttl' | 'audio'>,
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
  // The input may be shorter than its bound, and a tier may be cheaper than the one below.
  return Math.max(cost(long_context.above_input_tokens, pico), cost(input, long_context.pico));
}

type InputKind = 'input' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h';

/** Upstreams may read their cache in any case, and write it with the requested lifetime. */
function mostExpensiveKind(pico: TokenRates['pico'], cache_ttl: string): InputKind {
  let most_expensive: InputKind = pico.cache_read > pico.input ? 'cache_read' : 'input';
  if (cache_ttl !== 'none' && pico.cache_write_5m > pico[most_expensive]) most_expensive = 'cache_write_5m';
  if (cache_ttl === '1h' && pico.cache_write_1h > pico[most_expensive]) most_expensive = 'cache_write_1h';
  return most_expensive;
}
