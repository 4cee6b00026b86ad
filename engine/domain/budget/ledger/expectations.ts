import type { ModelConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { NO_MODEL } from '../../../base/contract/no-model.ts';
import type { EffectivePrice, ReservationRequest, Services, TokenCounts } from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import type { PrivilegedChoice } from '../../protocols/index.ts';
import {
  cacheLifetime,
  choicesOf,
  highestCost,
  likelyTokens,
  mostTokensOf,
  refuseZeroBound,
  TOKEN_FACTS,
  textsOf,
  windowOf,
} from '../limits/most-tokens.ts';
import { compileLimits } from '../limits/spend-limits.ts';
import type { Possible } from '../prices/charge.ts';
import { NO_TOKENS, servedAsRequested } from '../prices/prices.ts';
import { IDENTITY_FACTS, requestIdentity } from './reservation.ts';

/** The expected cost of a request, as a reservation request for the ledger. */
export interface Expected {
  readonly request: ReservationRequest;
  /** Its maximum tokens, over all runs of the model. */
  readonly most: TokenCounts;
  /** The maximum that one response can be billed. */
  readonly possible: Readonly<Record<keyof Possible, number>>;
}

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

  function mostCost(ctx: Context, model: ModelConfig, upstream: UpstreamConfig, is_other: boolean): number {
    const tokens = mostTokensOf(ctx, model, upstream);
    const route = { upstream: upstream.name, at: ctx.get('request.received_at') };
    // The overshoot of typical reservations is computed for one run: see `overshootBound`.
    const runs = reserve === 'typical' && textsOf(ctx) === 1 ? { runs: choicesOf(ctx), compactions: 0 } : {};
    const server_tools = !is_other && (ctx.get('request.server_tool_uses') as Record<string, number> | undefined);
    const usage = {
      ...tokens,
      ...(is_other && { runs: tokens.other_runs }),
      ...runs,
      // Other models have their own output limit.
      output: is_other ? model.max_output_tokens : tokens.output,
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
