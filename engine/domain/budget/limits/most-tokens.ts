import type { ChatBound, ModelConfig, OutputBound, UpstreamConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import { OUTPUT_BOUND_MIN, type Protocol, protocolOf } from '../../../base/contract/protocol.ts';
import type { EffectivePrice, ModelCatalog, PricedRoute, Served, TokenRates } from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { priceTokens } from '../../../base/kit/money.ts';
import { otherBound } from '../../protocols/index.ts';
import { audioPico, costAt, NO_TOKENS, possibleRates } from '../prices/prices.ts';

/** The most tokens that an answer can take. */
export interface MostTokens {
  /** Of one run of the model. */
  readonly input: number;
  readonly output: number;
  /** How often the model is run. */
  readonly runs: number;
  /** How often another model may be, which the request names beside it. */
  readonly other_runs: number;
  /** How often it is run on top to summarize the conversation, and how much it may say then. */
  readonly compactions: number;
  readonly compaction_output: number;
}

/**
 * How often a model is run for one answer that bounds no tool: as the Messages API documents it, and for Responses, which
 * document no bound, more than any answer is known to have taken.
 */
const ITERATIONS: Readonly<Record<Protocol, number>> = { messages: 10, chat: 10, responses: 100 };

/** The most tokens that a request can use of a model. A model reads and writes no more than its context window in one run. */
export function mostTokensOf(ctx: AskedContext, model: ModelConfig, upstream: UpstreamConfig): MostTokens {
  const { max_output_tokens } = model;
  const choices = choicesOf(ctx);
  const context_window = windowOf(ctx, model);
  const input_max = ctx.get('request.input_tokens_max');
  if (ctx.get('request.protocol') === 'none') {
    // Every text of a list is read by itself.
    const input = Math.min(input_max, context_window * choices);
    const once = { runs: 1, other_runs: 1, compactions: 0, compaction_output: 0 };
    return { input, output: max_output_tokens * choices, ...once };
  }
  const to = upstreamProtocol(ctx);
  const endless = upstream.tool_iterations ?? ITERATIONS[to];
  // 0: it may use the upstream's tools as often as it likes.
  const asked = (ctx.get('request.iterations') ?? 1) || endless;
  // A use that `max_uses` refuses is an error that the model reads and goes on from: there bounds of tools bound no runs.
  const iterations = asked > 1 && to === 'messages' ? Math.max(asked, endless) : asked;
  const output = outputBound(ctx, model, upstream) ?? max_output_tokens;
  const compacts = ctx.get('request.compacts') === true;
  return {
    input: Math.min(input_max, context_window),
    output: Math.min(output, Math.max(context_window, max_output_tokens)),
    // Some providers read the input once for every choice.
    runs: iterations * choices,
    other_runs: asked * choices,
    compactions: compacts ? iterations * choices : 0,
    compaction_output: compacts ? max_output_tokens : 0,
  };
}

function upstreamProtocol(ctx: AskedContext): Protocol {
  return (ctx.get('route.protocol') as Protocol | undefined) ?? 'messages';
}

/**
 * The bound that the upstream keeps to, if it is sent one: then the largest that is sent, as it may know the others too and
 * prefer them. 0 is none: there are servers that take it for that.
 */
function outputBound(
  ctx: AskedContext,
  model: ModelConfig,
  { enforces, max_tokens_field }: UpstreamConfig,
): number | undefined {
  const to = upstreamProtocol(ctx);
  const asked = ctx.get('request.max_tokens');
  // Messages has no request without a bound, so that a translated one says one of ours.
  const max_tokens = asked ?? (to === 'messages' ? model.default_output_tokens : 0);
  const translated = max_tokens === 0 ? 0 : Math.max(max_tokens, OUTPUT_BOUND_MIN[to] ?? 0);
  const bounds = ctx.get('request.output_bounds') ?? (asked === undefined ? {} : { max_tokens: asked });
  const sent =
    protocolOf(ctx.get('request.protocol')) === to
      ? respelt(bounds as Readonly<Record<string, number>>, to, max_tokens_field)
      : { [writtenBound(model, to, max_tokens_field)]: translated };
  const is_kept = enforces.some((name) => (sent[name] ?? 0) > 0);
  return is_kept ? Math.max(...Object.values(sent)) : undefined;
}

/** What the bound is called in a request that the gateway has translated. */
function writtenBound({ supports }: ModelConfig, protocol: Protocol, field: ChatBound | undefined): OutputBound {
  if (protocol === 'responses') return 'max_output_tokens';
  if (protocol === 'chat' && field !== undefined) return field;
  return protocol === 'chat' && supports.thinking !== 'none' ? 'max_completion_tokens' : 'max_tokens';
}

/** The bounds of an untranslated request as they are sent: see `spellBound`. */
function respelt(
  bounds: Readonly<Record<string, number>>,
  protocol: Protocol,
  field: ChatBound | undefined,
): Readonly<Record<string, number>> {
  if (protocol !== 'chat' || field === undefined || bounds[field] !== undefined) return bounds;
  const { [otherBound(field)]: bound, ...others } = bounds;
  return bound === undefined ? bounds : { ...others, [field]: bound };
}

/** The facts that say how many tokens a request asks for, beside its protocol. */
export const ASKED_FACTS = {
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

type AskedContext = Pick<
  StageContext<
    'request.protocol' | (typeof ASKED_FACTS)['reads'][number],
    (typeof ASKED_FACTS)['reads_if_set'][number]
  >,
  'get'
>;

/** How many answers a request asks for. */
export function choicesOf(ctx: AskedContext): number {
  return ctx.get('request.choices') ?? 1;
}

/** How many texts a request of an API beside those for models has at most; each may fill the window of its model. */
export function textsOf(ctx: AskedContext): number {
  return ctx.get('request.protocol') === 'none' ? choicesOf(ctx) : 1;
}

/** There are servers that take a bound of 0 for none. Raises invalid_request. */
export function refuseZeroBound(ctx: AskedContext, { name, supports }: UpstreamConfig): void {
  if (ctx.get('request.max_tokens') !== 0 || supports.max_tokens_0) return;
  throw new StageError(
    'invalid_request',
    `max_tokens: must be 1 or more: some providers take 0 for no bound at all. Where the upstream "${name}" takes it for no output, an administrator can say so: \`supports.max_tokens_0\`.`,
    { details: { param: 'max_tokens' } },
  );
}

/** The longest cache lifetime the prompt may be written for. Only the Messages protocol leaves that to the request. */
export function cacheLifetime(ctx: AskedContext): string {
  if (ctx.get('request.protocol') === 'none') return 'none';
  if (ctx.get('cache.downgraded') === true) return '5m';
  const asked = ctx.get('request.cache.ttl') ?? 'none';
  return asked === 'none' && (ctx.get('route.protocol') ?? 'messages') !== 'messages' ? '5m' : asked;
}

/** The context window of a model; a beta header may ask for a longer one, and the upstream may grant it. */
export function windowOf(ctx: AskedContext, { context_window }: ModelConfig): number {
  return Math.max(context_window, ctx.get('request.context_window') ?? 0);
}

/** The tokens a request counts as against limits by tokens. */
export function likelyTokens(ctx: AskedContext, model: ModelConfig): number {
  const { max_output_tokens } = model;
  const input = Math.min(ctx.get('request.input_tokens_estimate'), windowOf(ctx, model) * textsOf(ctx));
  return input + Math.min(ctx.get('request.max_tokens') ?? max_output_tokens, max_output_tokens) * choicesOf(ctx);
}

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

/** The most that one run of the model can cost at some of a price's rates, in nano-USD. */
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
