import {
  type AttemptRecord,
  type ChargedAttempt,
  defineStage,
  type EffectivePrice,
  type LimitStatus,
  type ModelConfig,
  type MoveDecision,
  type Outcome,
  type ReservationRequest,
  type StageContext,
  StageError,
  type TokenCounts,
  type UpstreamConfig,
} from '../engine/api.ts';
import {
  ASKED_FACTS,
  askWithin,
  attemptPrices,
  cacheLifetime,
  chargeFailed,
  choicesOf,
  compileLimits,
  highestCost,
  hopelessFirst,
  IDENTITY_FACTS,
  likelyTokens,
  limitHeaders,
  mostTokensOf,
  NO_TOKENS,
  type Possible,
  refuseForLimits,
  refuseZeroBound,
  requestIdentity,
  servedAsAsked,
  settleLater,
  settleUnmetered,
  textsOf,
  windowOf,
  withAttempts,
  withChanges,
} from '../engine/domain/budget/index.ts';
import type { DecisiveChoice } from '../engine/domain/protocols/index.ts';
import { mayBeBilled, NO_MODEL } from '../engine/domain/upstreams/index.ts';

const READS = [...IDENTITY_FACTS.reads, 'request.received_at', ...ASKED_FACTS.reads, 'principal.groups'] as const;

const READS_IF_SET = [
  ...IDENTITY_FACTS.reads_if_set,
  ...ASKED_FACTS.reads_if_set,
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.other_models',
  'request.server_tool_uses',
  'request.decisive_fields',
  'route.per_request_nano_usd',
  'upstream.attempts',
  'upstream.status',
  'error.code',
  'usage.provenance',
  'spend.unreserved',
] as const;

const WRITES = [
  'spend.reserved_nano_usd',
  'spend.most_nano_usd',
  'spend.most_tokens',
  'spend.unreserved',
  'spend.rule',
] as const;

type BudgetContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

/** What was reserved for a request, in nano-USD and tokens, where, and the status of its limits in money with it. */
interface Reserved {
  readonly upstream: string;
  readonly upstream_model: string;
  readonly amount_nano_usd: number;
  readonly tokens: TokenCounts;
  readonly statuses: readonly LimitStatus[];
  readonly attempts: number;
  /** Where the last upstream that was asked for had no room: the rule whose limit it was. */
  readonly refused_by?: string;
}

interface Forecast {
  /** Every run of the model counted. */
  readonly most: TokenCounts;
  readonly most_nano_usd: number;
  /** The most that an answer can be billed. */
  readonly possible: Readonly<Record<keyof Possible, number>>;
  /** Tokens it counts as against limits by tokens. */
  readonly likely_tokens: number;
}

const NONE_POSSIBLE = { input: 0, output: 0, input_limit: 0, other_runs: 0 };
const FREE: Forecast = { most: NO_TOKENS, most_nano_usd: 0, possible: NONE_POSSIBLE, likely_tokens: 0 };

const LIMIT_CODES: ReadonlySet<string> = new Set(['spend_limit_exceeded', 'rate_limit_exceeded']);

/** Whether a request may be billed audio: where it says so, and of APIs beside those for models where audio has a price. */
function audioOf(ctx: BudgetContext, { pico }: EffectivePrice): { readonly input: boolean; readonly output: boolean } {
  if (ctx.get('request.protocol') === 'none') {
    return { input: pico.audio_input !== undefined, output: pico.audio_output !== undefined };
  }
  const choices = (ctx.get('request.decisive_fields') ?? {}) as Readonly<Record<string, DecisiveChoice>>;
  const fields = new Set(Object.values(choices).map(({ field }) => field));
  return { input: fields.has('input_audio'), output: fields.has('modalities') };
}

export default defineStage({
  name: 'check-budget',
  version: 1,
  summary:
    'Reserves what a request can cost on every limit that applies, or refuses it; tells callers how much of their limits is used.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      charge: {
        enum: ['full', 'nothing'],
        default: 'full',
        description:
          'Whether the request costs what its model costs, or nothing: then no limit by money or tokens refuses it.',
      },
    },
  },
  examples: [
    { title: 'Reserve what the request may cost', yaml: '- stage: check-budget' },
    {
      title: 'Only note that a free request goes out',
      yaml: '- stage: check-budget\n  options: { charge: nothing }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['invalid_request', 'spend_limit_exceeded', 'rate_limit_exceeded', 'store_unavailable'],
  needs: ['database'],
  create({ charge }, services) {
    const { config, models, ledger, clock, log, limits_in_force } = services;
    const limits = compileLimits(config, services.condition, { charge });
    const { reserve, overshoot_percent, status = 429, advice, time_zone = 'UTC' } = config.spend_limits ?? {};
    const headers = limitHeaders(config.server.profile.header_prefix);
    const style = { status, advice, headers, time_zone };
    const isBilled = charge === 'full' ? mayBeBilled : () => false;

    function forecast(ctx: BudgetContext, id: string, upstream_name: string): Forecast {
      if (charge === 'nothing') return FREE;
      const model = modelNamed(id);
      const upstream = models.upstream(upstream_name);
      refuseZeroBound(ctx, upstream);
      const most = mostTokensOf(ctx, model, upstream);
      // What a batch comes to is not what one answer of each of its models costs.
      const others = id === NO_MODEL.id ? [] : (ctx.get('request.other_models') ?? []).map(modelNamed);
      const all_nano_usd = others.reduce(
        (sum, other) => sum + mostCost(ctx, other, upstream, true),
        mostCost(ctx, model, upstream, false),
      );
      const most_nano_usd = Math.max(all_nano_usd, ctx.get('route.per_request_nano_usd') ?? 0);
      // A tool may ask the model of the request itself, under bounds of its own.
      const asked_again = others.includes(model) ? most.other_runs : 0;
      const all_runs = most.runs + most.compactions + asked_again;
      const input = most.input * all_runs;
      const output =
        most.output * most.runs + most.compaction_output * most.compactions + model.max_output_tokens * asked_again;
      return {
        most: { ...NO_TOKENS, input, output },
        possible: {
          input,
          output,
          input_limit: windowOf(ctx, model) * all_runs * textsOf(ctx),
          other_runs: most.other_runs,
        },
        most_nano_usd: Math.min(most_nano_usd, Number.MAX_SAFE_INTEGER),
        likely_tokens: likelyTokens(ctx, model),
      };
    }

    function modelNamed(id: string): ModelConfig {
      const model = models.charged(id);
      if (model === undefined) throw new Error(`the model "${id}" is not in gateway.yaml`);
      return model;
    }

    function mostCost(ctx: BudgetContext, model: ModelConfig, upstream: UpstreamConfig, is_other: boolean): number {
      const tokens = mostTokensOf(ctx, model, upstream);
      // How far a limit can be passed under typical reservations is computed for one run: see `overshootBound`.
      const runs = reserve === 'typical' && textsOf(ctx) === 1 ? { runs: choicesOf(ctx), compactions: 0 } : {};
      // What is named beside the model keeps to bounds of its own.
      const output = is_other ? model.max_output_tokens : tokens.output;
      const server_tools = !is_other && (ctx.get('request.server_tool_uses') as Record<string, number> | undefined);
      const usage = {
        ...tokens,
        ...(is_other && { runs: tokens.other_runs }),
        ...runs,
        output,
        cache_ttl: cacheLifetime(ctx),
        asked: servedAsAsked((path) => ctx.get(path)),
        audio: audioOf(ctx, models.price(model, { upstream: upstream.name, at: ctx.get('request.received_at') })),
        ...(server_tools && { server_tools }),
        any_tool: ctx.get('request.iterations') === 0 && reserve !== 'typical' ? tokens.runs : 0,
      };
      return highestCost(models, model, usage, { upstream: upstream.name, at: ctx.get('request.received_at') });
    }

    /** What is asked of the ledger; a typical reservation asks for what such requests usually cost. */
    function reservationFor(ctx: BudgetContext, { most_nano_usd, likely_tokens }: Forecast): ReservationRequest {
      const identity = requestIdentity(ctx);
      const { user, team, project, token_id, model, upstream } = identity;
      const keys = { user, team: team ?? undefined, project: project ?? undefined, token: token_id!, model, upstream };
      // How far a limit can be passed is computed for one answer, and several are not what such requests usually cost.
      const is_flat = ctx.get('route.per_request_nano_usd') !== undefined;
      const typical = reserve === 'typical' && charge === 'full' && choicesOf(ctx) === 1 && !is_flat;
      const usual = typical ? (ledger.typicalCost(user, model) ?? most_nano_usd) : most_nano_usd;
      const { demands, on_store_error } = limits.demandsOf(keys, ctx.get('principal.groups'), () =>
        services.facts(ctx),
      );
      return {
        ...identity,
        amount_nano_usd: Math.min(most_nano_usd, usual),
        most_nano_usd,
        ...(typical && { overshoot_percent: overshoot_percent! }),
        tokens: likely_tokens,
        demands,
        on_store_error,
      };
    }

    /** What the ledger says, or an error that tells callers that limits cannot be read. */
    async function inStore<Decision>(ask: () => Promise<Decision>): Promise<Decision> {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof StageError) || error.code !== 'store_unavailable') throw error;
        const more = { status: error.status, details: error.details, cause: error };
        throw new StageError(error.code, error.message, {
          ...more,
          headers: { ...error.headers, ...headers.unreadable },
        });
      }
    }

    function heldFor(ctx: BudgetContext): readonly ChargedAttempt[] {
      const prices = attemptPrices(ctx, services, isBilled);
      return ctx.attempts.map((attempt: AttemptRecord) => chargeFailed(attempt, prices));
    }

    /** Where requests may go out while the store is away, they move too: their money then counts where it was reserved. */
    async function moveInStore(ctx: BudgetContext, request: ReservationRequest): Promise<MoveDecision> {
      try {
        return await inStore(() => ctx.reservation!.move(request, heldFor(ctx)));
      } catch (error) {
        const may_go_out = request.on_store_error === 'allow';
        if (!may_go_out || !(error instanceof StageError) || error.code !== 'store_unavailable') throw error;
        return { exceeded: [], shadows: [], statuses: [] };
      }
    }

    async function moveReservation(ctx: BudgetContext, reserved: Reserved): Promise<void> {
      const expected = forecast(ctx, ctx.get('request.model'), ctx.get('route.upstream'));
      const request = reservationFor(ctx, expected);
      const { amount_nano_usd, upstream, upstream_model } = request;
      const { decision } = await askWithin(request, (it) => moveInStore(ctx, it), limits_in_force);
      const { shadows, statuses } = decision;
      const exceeded = hopelessFirst(decision.exceeded, request);
      for (const { rule } of shadows) ctx.noteShadow(`spend:${rule}`);
      if (exceeded.length > 0) {
        ctx.state = { ...reserved, refused_by: exceeded[0]!.rule } satisfies Reserved;
        throw await refusal(ctx, request, { ...decision, exceeded });
      }
      const where = { upstream, upstream_model, attempts: ctx.attempts.length };
      ctx.state = { ...where, amount_nano_usd, tokens: expected.most, statuses } satisfies Reserved;
      ctx.noteLimits(statuses);
      if (ctx.get('spend.unreserved') !== true) ctx.set('spend.reserved_nano_usd', amount_nano_usd);
      ctx.set('spend.most_nano_usd', expected.most_nano_usd);
      ctx.set('spend.most_tokens', expected.possible);
    }

    /** Reserves at the first upstream whose own limits have room; a limit that is not its own has none elsewhere either. */
    async function reserveFirst(ctx: BudgetContext) {
      for (;;) {
        const expected = forecast(ctx, ctx.get('request.model'), ctx.get('route.upstream'));
        const ask = (wish: ReservationRequest) => inStore(() => ledger.reserve(wish));
        const { request, decision } = await askWithin(reservationFor(ctx, expected), ask, limits_in_force);
        const exceeded = hopelessFirst(decision.exceeded, request);
        for (const { rule } of decision.shadows) ctx.noteShadow(`spend:${rule}`);
        if (exceeded.length === 0) return { expected, request, decision };
        if (exceeded.every(({ scope }) => scope.split('+').includes('upstream')) && ctx.passOver('limit')) continue;
        ctx.set('spend.rule', exceeded[0]!.rule);
        throw await refusal(ctx, request, { ...decision, exceeded });
      }
    }

    async function refusal(ctx: BudgetContext, request: ReservationRequest, { exceeded, decided_at }: MoveDecision) {
      const limits_then = await withChanges(exceeded, limits_in_force);
      ctx.noteLimits(limits_then);
      // Windows end by the database's clock, which this machine's need not agree with.
      return refuseForLimits(limits_then, request, style, decided_at ?? clock.now());
    }

    /** What a request comes to that nobody metered. */
    function unmetered(ctx: BudgetContext, { amount_nano_usd, tokens }: Reserved): Outcome {
      const { aborted, relayed_bytes } = ctx;
      const ended = { status: ctx.get('upstream.status'), error: ctx.get('error.code'), aborted, relayed_bytes };
      const outcome = settleUnmetered({ amount_nano_usd, tokens, ended, counts_possible: reserve === 'worst_case' });
      return withAttempts(outcome, ctx.attempts, attemptPrices(ctx, services, isBilled));
    }

    return {
      async request(ctx) {
        const { expected, request, decision } = await reserveFirst(ctx);
        const { amount_nano_usd, upstream, upstream_model } = request;
        const { reservation, statuses, unreserved } = decision;
        try {
          ctx.reservation = reservation;
          const where = { upstream, upstream_model, attempts: 0 };
          ctx.state = { ...where, amount_nano_usd, tokens: expected.most, statuses } satisfies Reserved;
          ctx.noteLimits(statuses);
        } catch (error) {
          // The stage ran out of time meanwhile: its `finish` has been, and nobody else would give the reservation back.
          void reservation?.release();
          throw error;
        }
        ctx.set('spend.reserved_nano_usd', unreserved ? 0 : amount_nano_usd);
        ctx.set('spend.most_nano_usd', expected.most_nano_usd);
        ctx.set('spend.most_tokens', expected.possible);
        if (unreserved) ctx.set('spend.unreserved', true);
        return undefined;
      },
      attempt(ctx) {
        const reserved = ctx.state as Reserved | undefined;
        if (ctx.reservation === undefined || reserved === undefined) return undefined;
        const { upstream, upstream_model, attempts } = reserved;
        const is_there = upstream === ctx.get('route.upstream') && upstream_model === ctx.get('route.upstream_model');
        return is_there && attempts === ctx.attempts.length ? undefined : moveReservation(ctx, reserved);
      },
      // What the upstream says about limits is about the gateway's account. Its errors are passed on as they are.
      response(ctx, head) {
        if (head.status >= 400) return;
        head.replaceAll(headers.prefix, headers.onSuccess((ctx.state as Reserved | undefined)?.statuses ?? []));
      },
      // Nothing is awaited: the ledger keeps what it can't write yet, and the client has its answer.
      finish(ctx) {
        const { reservation } = ctx;
        const reserved = ctx.state as Reserved | undefined;
        if (reservation === undefined || reserved === undefined) return;
        const { refused_by } = reserved;
        if (refused_by !== undefined && LIMIT_CODES.has(ctx.get('error.code')!)) ctx.set('spend.rule', refused_by);
        if (!ctx.get('upstream.attempts')) {
          void reservation.release();
        } else if (ctx.get('usage.provenance') === undefined) {
          settleLater(ctx, reservation, unmetered(ctx, reserved), log);
        }
      },
    };
  },
});
