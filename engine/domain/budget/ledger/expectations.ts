import type { ChatBound, ModelConfig, OutputBound, UpstreamConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import { NO_MODEL } from '../../../base/contract/no-model.ts';
import { protocolOf } from '../../../base/contract/protocol.ts';
import type {
  EffectivePrice,
  ModelCatalog,
  PricedRoute,
  ReservationRequest,
  Served,
  Services,
  TokenCounts,
  TokenRates,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { priceTokens } from '../../../base/kit/money.ts';
import {
  definitionNamed,
  definitionOf,
  type OutputRules,
  otherBound,
  type PrivilegedChoice,
} from '../../protocols/index.ts';
import { compileLimits } from '../limits/spend-limits.ts';
import type { Possible } from '../prices/charge.ts';
import { audioPico, costAt, NO_TOKENS, possibleRates, servedAsRequested } from '../prices/prices.ts';
import { IDENTITY_FACTS, requestIdentity } from './reservation.ts';

/** The expected cost of a request, as a reservation request for the ledger. */
export interface Expected {
  readonly request: ReservationRequest;
  /** Its maximum tokens, over all runs of the model. */
  readonly most: TokenCounts;
  /** The maximum that one response can be billed. */
  readonly possible: Readonly<Record<keyof Possible, number>>;
}

const TOKEN_FACTS = {
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

/** Facts that determine the cost and the identity of a request. */
export const EXPECTATION_FACTS = {
  reads: [...IDENTITY_FACTS.reads, 'request.received_at', ...TOKEN_FACTS.reads, 'principal.groups'],
  reads_if_set: [
    ...IDENTITY_FACTS.reads_if_set,
    ...TOKEN_FACTS.reads_if_set,
    'request.service_tier',
    'request.speed',
    'request.inference_geo',
    'request.other_models',
    'request.server_tool_uses',
    'request.privileged_fields',
    'route.per_request_nano_usd',
  ],
} as const;

type Context = StageContext<
  (typeof EXPECTATION_FACTS)['reads'][number],
  (typeof EXPECTATION_FACTS)['reads_if_set'][number],
  never
>;

type Forecast = Pick<Expected, 'most' | 'possible'> & {
  readonly most_nano_usd: number;
  readonly likely_tokens: number;
};

const FREE: Forecast = {
  most: NO_TOKENS,
  most_nano_usd: 0,
  possible: { input: 0, output: 0, input_limit: 0, other_runs: 0 },
  likely_tokens: 0,
};

/** Whether audio may be billed: by the request's fields; for non-model APIs by the model's prices. */
function audioOf(ctx: Context, { pico }: EffectivePrice): { readonly input: boolean; readonly output: boolean } {
  if (ctx.get('request.protocol') === 'none')
    return { input: pico.audio_input !== undefined, output: pico.audio_output !== undefined };
  const choices = (ctx.get('request.privileged_fields') ?? {}) as Readonly<Record<string, PrivilegedChoice>>;
  const fields = new Set(Object.values(choices).map(({ field }) => field));
  return { input: fields.has('input_audio'), output: fields.has('modalities') };
}

/** Creates the cost forecast of requests on their current route. The forecast raises invalid_request. */
export function createExpectations(
  services: Pick<Services, 'config' | 'models' | 'ledger' | 'condition' | 'facts'>,
  charge: 'full' | 'nothing',
): (ctx: Context) => Expected {
  const { config, models, ledger } = services;
  const limits = compileLimits(config, services.condition, { charge });
  const { reserve, overshoot_percent } = config.spend_limits ?? {};

  function modelNamed(id: string): ModelConfig {
    const model = models.charged(id);
    if (model === undefined) throw new Error(`the model "${id}" is not in gateway.yaml`);
    return model;
  }

  function forecast(ctx: Context): Forecast {
    if (charge === 'nothing') return FREE;
    const model = modelNamed(ctx.get('request.model'));
    const upstream = models.upstream(ctx.get('route.upstream'));
    refuseZeroBound(ctx, upstream);
    const most = mostTokensOf(ctx, model, upstream);
    // A batch names other models, which run in addition.
    const others = model.id === NO_MODEL.id ? [] : (ctx.get('request.other_models') ?? []).map(modelNamed);
    const all_nano_usd = others.reduce(
      (sum, other) => sum + mostCost(ctx, other, upstream, true),
      mostCost(ctx, model, upstream, false),
    );
    const most_nano_usd = Math.max(all_nano_usd, ctx.get('route.per_request_nano_usd') ?? 0);
    // A tool may call the request's own model again, within its own bounds.
    const asked_again = others.includes(model) ? most.other_runs : 0;
    const all_runs = most.runs + most.compactions + asked_again;
    const input = most.input * all_runs;
    const output =
      most.output * most.runs + most.compaction_output * most.compactions + model.max_output_tokens * asked_again;
    const input_limit = windowOf(ctx, model) * all_runs * textsOf(ctx);
    return {
      most: { ...NO_TOKENS, input, output },
      possible: { input, output, input_limit, other_runs: most.other_runs },
      most_nano_usd: Math.min(most_nano_usd, Number.MAX_SAFE_INTEGER),
      likely_tokens: likelyTokens(ctx, model),
    };
  }

  function mostCost(ctx: Context, model: ModelConfig, upstream: UpstreamConfig, is_other_api: boolean): number {
    const tokens = mostTokensOf(ctx, model, upstream);
    const route = { upstream: upstream.name, at: ctx.get('request.received_at') };
    // The overshoot of typical reservations is computed for one run: see `overshootBound`.
    const runs = reserve === 'typical' && textsOf(ctx) === 1 ? { runs: choicesOf(ctx), compactions: 0 } : {};
    const server_tools = !is_other_api && (ctx.get('request.server_tool_uses') as Record<string, number> | undefined);
    const usage = {
      ...tokens,
      ...(is_other_api && { runs: tokens.other_runs }),
      ...runs,
      // Other models have their own output limit.
      output: is_other_api ? model.max_output_tokens : tokens.output,
      cache_ttl: cacheLifetime(ctx),
      asked: servedAsRequested((path) => ctx.get(path)),
      audio: audioOf(ctx, models.price(model, route)),
      ...(server_tools && { server_tools }),
      any_tool: ctx.get('request.iterations') === 0 && reserve !== 'typical' ? tokens.runs : 0,
    };
    return highestCost(models, model, usage, route);
  }

  return (ctx) => {
    const { most_nano_usd, likely_tokens, most, possible } = forecast(ctx);
    const identity = requestIdentity(ctx);
    const { user, team, project, token_id, model, upstream } = identity;
    const keys = { user, team: team ?? undefined, project: project ?? undefined, token: token_id!, model, upstream };
    // The overshoot is computed for one choice, and typical costs are learned from requests with one.
    const is_flat = ctx.get('route.per_request_nano_usd') !== undefined;
    const typical = reserve === 'typical' && charge === 'full' && choicesOf(ctx) === 1 && !is_flat;
    const usual = typical ? (ledger.typicalCost(user, model) ?? most_nano_usd) : most_nano_usd;
    const { demands, on_store_error } = limits.demandsOf(keys, ctx.get('principal.groups'), () => services.facts(ctx));
    const request = {
      ...identity,
      amount_nano_usd: Math.min(most_nano_usd, usual),
      most_nano_usd,
      ...(typical && { overshoot_percent: overshoot_percent! }),
      tokens: likely_tokens,
      demands,
      on_store_error,
    };
    return { request, most, possible };
  };
}

interface MostTokens {
  /** Of one run of the model. */
  readonly input: number;
  readonly output: number;
  readonly runs: number;
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
function refuseZeroBound(ctx: TokenFacts, { name, supports }: UpstreamConfig): void {
  if (ctx.get('request.max_tokens') !== 0 || supports.max_tokens_0) return;
  throw new StageError(
    'invalid_request',
    `max_tokens: must be 1 or more: some providers read 0 as "no limit". If the upstream "${name}" reads it as "no output", an administrator can set \`supports.max_tokens_0\`.`,
    { details: { param: 'max_tokens' } },
  );
}

/** The longest lifetime of the prompt's cache writes; upstreams of some protocols choose it themselves. */
function cacheLifetime(ctx: TokenFacts): string {
  if (ctx.get('request.protocol') === 'none') return 'none';
  if (ctx.get('cache.downgraded') === true) return '5m';
  const asked = ctx.get('request.cache.ttl') ?? 'none';
  return asked === 'none' && !definitionOf(ctx.get('route.protocol')).kept.cache_lifetimes ? '5m' : asked;
}

/** The context window of a request; a beta header may request a longer one than the model's. */
export function windowOf(ctx: TokenFacts, { context_window }: ModelConfig): number {
  return Math.max(context_window, ctx.get('request.context_window') ?? 0);
}

function likelyTokens(ctx: TokenFacts, model: ModelConfig): number {
  const { max_output_tokens } = model;
  const input = Math.min(ctx.get('request.input_tokens_estimate'), windowOf(ctx, model) * textsOf(ctx));
  return input + Math.min(ctx.get('request.max_tokens') ?? max_output_tokens, max_output_tokens) * choicesOf(ctx);
}

interface MostUsage extends Pick<MostTokens, 'input' | 'output'> {
  /** As in `MostTokens`; absent: once, and never to summarize. */
  readonly runs?: number;
  readonly compactions?: number;
  readonly compaction_output?: number;
  readonly cache_ttl: string;
  readonly server_tools?: Readonly<Record<string, number>>;
  /** Further uses, priced as the most expensive tool. */
  readonly any_tool?: number;
  readonly asked?: Served;
  readonly audio?: { readonly input: boolean; readonly output: boolean };
}

/** The highest cost of usage in nano-USD: all input at the most expensive price that the cache lifetime allows. */
export function highestCost(models: ModelCatalog, model: ModelConfig, most: MostUsage, route: PricedRoute): number {
  const { runs = 1, compactions = 0, compaction_output = 0 } = most;
  const price = models.price(model, route);
  const tools = costAt(price, price, { ...NO_TOKENS, server_tools: most.server_tools ?? {} });
  const any_tool = priceTokens([most.any_tool ?? 0], [Math.max(0, ...Object.values(price.server_tools_pico))]);
  const costs = possibleRates(price, most.asked ?? {}).map((rates) => {
    const run = runCost(price, rates, most, most.output);
    const compaction = compactions === 0 ? 0 : runCost(price, rates, most, compaction_output);
    return runs * run + compactions * compaction;
  });
  return Math.min(Number.MAX_SAFE_INTEGER, tools + any_tool + Math.max(...costs));
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

/** Upstreams may read their cache in any case, and write it with the requested lifetime. */
function mostExpensiveKind(pico: TokenRates['pico'], cache_ttl: string) {
  let most_expensive: Exclude<keyof TokenCounts, 'output'> = pico.cache_read > pico.input ? 'cache_read' : 'input';
  if (cache_ttl !== 'none' && pico.cache_write_5m > pico[most_expensive]) most_expensive = 'cache_write_5m';
  if (cache_ttl === '1h' && pico.cache_write_1h > pico[most_expensive]) most_expensive = 'cache_write_1h';
  return most_expensive;
}
