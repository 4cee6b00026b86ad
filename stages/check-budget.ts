import {
  defineStage,
  type FactView,
  formatUsd,
  type LimitClaim,
  type LimitStanding,
  type ModelCatalog,
  type ModelConfig,
  nanoToUsd,
  type ReservationRequest,
  type Services,
  type Settlement,
  type SpendScope,
  type StageContext,
  StageError,
  spendRules,
  type TokenCounts,
  usdToNano,
} from '../engine/api.ts';

interface CheckBudgetOptions {
  readonly charge: 'full' | 'nothing';
}

const READS = [
  'request.id',
  'request.surface',
  'request.model',
  'request.input_tokens_max',
  'principal.id',
  'principal.email',
  'principal.token.id',
  'route.upstream',
  'route.upstream_model',
] as const;

const READS_IF_SET = [
  'request.max_tokens',
  'request.cache.ttl',
  'principal.team',
  'principal.project',
  'upstream.attempts',
  'upstream.status',
  'usage.provenance',
] as const;

const WRITES = ['spend.reserved_nano_usd', 'spend.rule'] as const;

type BudgetContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

/** What was held for a request, and the token counts behind it. */
interface Hold {
  readonly reservation: ReservationRequest;
  readonly tokens: TokenCounts;
}

const NOTHING: TokenCounts = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
const USER_DAILY = 'defaults.user_daily_usd';
const TEAM_MONTHLY = 'defaults.team_monthly_usd';
const ADJECTIVES = { day: 'daily', month: 'monthly' } as const;

/** The most tokens a request can use. A model reads and writes no more than its context window, whatever was asked. */
function mostTokens(ctx: BudgetContext, model: ModelConfig): TokenCounts {
  const { context_window, max_output_tokens } = model;
  const output = ctx.get('request.max_tokens') ?? max_output_tokens;
  return {
    ...NOTHING,
    input: Math.min(ctx.get('request.input_tokens_max'), context_window),
    output: Math.min(output, Math.max(context_window, max_output_tokens)),
  };
}

/** The most those tokens can cost: the whole input at the dearest price that the cache lifetime asked for allows. */
function highestCost(models: ModelCatalog, model: ModelConfig, tokens: TokenCounts, cache_ttl: string): number {
  const { input } = tokens;
  const ways: TokenCounts[] = [tokens];
  if (cache_ttl !== 'none') ways.push({ ...tokens, input: 0, cache_write_5m: input });
  if (cache_ttl === '1h') ways.push({ ...tokens, input: 0, cache_write_1h: input });
  return Math.max(...ways.map((way) => models.cost(model, way)));
}

/** A limit of gateway.yaml: a claim that lacks only whose it is. */
interface Limit {
  readonly claim: Omit<LimitClaim, 'key'>;
  /** Absent means always. */
  readonly holds?: (facts: FactView) => boolean;
  /** Whether it is the first on its counter, which counts every request, also those that no limit of it is for. */
  readonly counts: boolean;
}

/** Everybody's limits, then those of the spend rules, in file order. */
function readLimits({ config, condition }: Services, charge: CheckBudgetOptions['charge']): Limit[] {
  const { user_daily_usd, team_monthly_usd } = config.spend_limits?.defaults ?? {};
  const nanoOrNull = (usd: number | undefined) => (usd === undefined || charge === 'nothing' ? null : usdToNano(usd));
  const limits: Omit<Limit, 'counts'>[] = [
    { claim: { scope: 'user', window: 'day', limit_nano_usd: nanoOrNull(user_daily_usd), rule: USER_DAILY } },
    { claim: { scope: 'team', window: 'month', limit_nano_usd: nanoOrNull(team_monthly_usd), rule: TEAM_MONTHLY } },
  ];
  for (const { name: rule, mode, logic, scope, window, limit_usd } of charge === 'nothing' ? [] : spendRules(config)) {
    if (limit_usd === undefined || window === undefined) continue;
    limits.push({
      claim: { scope, window, limit_nano_usd: usdToNano(limit_usd), rule, ...(mode === 'shadow' && { shadow: true }) },
      ...(logic !== true && { holds: condition(logic) }),
    });
  }
  return limits.map((limit, index) => {
    const sharesCounter = ({ claim }: Pick<Limit, 'claim'>) =>
      claim.scope === limit.claim.scope && claim.window === limit.claim.window;
    return { ...limit, counts: limits.findIndex(sharesCounter) === index };
  });
}

/** The claims of a request on the limits it comes under; without a team or project it comes under none of theirs. */
function claimsOf(
  limits: readonly Limit[],
  keys: Readonly<Record<SpendScope, string | undefined>>,
  facts: () => FactView,
): LimitClaim[] {
  const claims: LimitClaim[] = [];
  for (const { claim, holds, counts } of limits) {
    const key = keys[claim.scope];
    if (key === undefined) continue;
    if (holds === undefined || holds(facts())) claims.push({ ...claim, key });
    else if (counts) claims.push({ ...claim, key, limit_nano_usd: null });
  }
  return claims;
}

/** One sentence: what ran out, when it resets, what to do. */
function explain({ scope, key, window, rule, ...limit }: LimitStanding, needed: number, resets_at: string): string {
  const usd = (nano: number) => `${formatUsd(nano)} USD`;
  const what = `The ${ADJECTIVES[window]} limit of ${usd(limit.limit_nano_usd)} for ${scope} ${key} (spend rule ${rule})`;
  if (needed > limit.limit_nano_usd) {
    return `${what} is smaller than the ${usd(needed)} this request may cost, and its reset at ${resets_at} will not change that: ask for fewer output tokens, or your administrator for a higher limit.`;
  }
  if (limit.spent_nano_usd + needed > limit.limit_nano_usd) {
    return `${what} has no room for this request, which may cost ${usd(needed)}: ${usd(limit.spent_nano_usd)} is spent; it resets at ${resets_at}, until then ask your administrator for a higher limit.`;
  }
  return `${what} has no room for this request, which may cost ${usd(needed)}: ${usd(limit.spent_nano_usd)} is spent and ${usd(limit.held_nano_usd)} is held by requests in flight; try again when they have finished, or after the reset at ${resets_at}.`;
}

function refusal(standing: LimitStanding, needed: number, status: number, now: number): StageError {
  const resets_at = new Date(standing.resets_at).toISOString();
  return new StageError('spend_limit_exceeded', explain(standing, needed, resets_at), {
    status,
    headers: {
      'retry-after': String(Math.max(1, Math.ceil((standing.resets_at - now) / 1000))),
      'x-should-retry': 'false',
    },
    details: {
      limit_usd: nanoToUsd(standing.limit_nano_usd),
      spent_usd: nanoToUsd(standing.spent_nano_usd),
      held_usd: nanoToUsd(standing.held_nano_usd),
      needed_usd: nanoToUsd(needed),
      window: standing.window,
      scope: standing.scope,
      resets_at,
      rule: standing.rule,
    },
  });
}

/** The bill of a request that left and that nobody metered. What the upstream refused costs nothing. */
function estimate({ reservation, tokens }: Hold, status: number | undefined, aborted: boolean): Settlement {
  const { amount_nano_usd, claims: _, ...identity } = reservation;
  const refused = status !== undefined && status >= 400;
  const from = aborted ? 'abort' : 'estimate';
  return {
    ...identity,
    status: status ?? null,
    aborted,
    tokens: refused ? NOTHING : tokens,
    cost_nano_usd: refused ? 0 : amount_nano_usd,
    provenance: { input: from, output: from, cache_read: from, cache_write_5m: from, cache_write_1h: from, cost: from },
    reserved: true,
  };
}

export default defineStage({
  name: 'check-budget',
  version: 1,
  summary: 'Holds the most a request can cost against the spend limits that apply, or refuses it.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      charge: {
        enum: ['full', 'nothing'],
        default: 'full',
        description: 'Whether the request costs what its model costs, or nothing: then no limit refuses it.',
      },
    },
  },
  examples: [
    { title: 'Hold what the request may cost', yaml: '- stage: check-budget' },
    {
      title: 'Only note that a free request goes out',
      yaml: '- stage: check-budget\n  options: { charge: nothing }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['spend_limit_exceeded', 'store_unavailable'],
  needs: ['database'],
  create({ charge }: CheckBudgetOptions, services) {
    const { config, models, ledger, clock, log } = services;
    const limits = readLimits(services, charge);
    const refusal_status = config.spend_limits?.status ?? 429;

    function holdFor(ctx: BudgetContext): Hold {
      const id = ctx.get('request.model');
      const model = models.find(id);
      if (model === undefined) throw new Error(`the model "${id}" has no price in gateway.yaml`);
      const tokens = charge === 'nothing' ? NOTHING : mostTokens(ctx, model);
      const keys = {
        user: ctx.get('principal.email'),
        team: ctx.get('principal.team'),
        project: ctx.get('principal.project'),
        model: id,
        upstream: ctx.get('route.upstream'),
      };
      const reservation: ReservationRequest = {
        request_id: ctx.get('request.id'),
        surface: ctx.get('request.surface'),
        principal_id: ctx.get('principal.id'),
        user: keys.user,
        team: keys.team ?? null,
        project: keys.project ?? null,
        token_id: ctx.get('principal.token.id'),
        model: id,
        upstream: keys.upstream,
        upstream_model: ctx.get('route.upstream_model'),
        amount_nano_usd: highestCost(models, model, tokens, ctx.get('request.cache.ttl') ?? 'none'),
        claims: claimsOf(limits, keys, () => services.facts(ctx)),
      };
      return { reservation, tokens };
    }

    return {
      async request(ctx) {
        const hold = holdFor(ctx);
        const { amount_nano_usd } = hold.reservation;
        const exceeded = await ledger.reserve(hold.reservation, ({ rule }) => ctx.noteShadow(`spend:${rule}`));
        if (exceeded !== undefined) {
          ctx.set('spend.rule', exceeded.rule);
          throw refusal(exceeded, amount_nano_usd, refusal_status, clock.now());
        }
        try {
          ctx.state = hold;
        } catch (error) {
          // The stage ran out of time meanwhile: its `finish` has been, and nobody else would give the hold back.
          void ledger.release(hold.reservation.request_id);
          throw error;
        }
        ctx.set('spend.reserved_nano_usd', amount_nano_usd);
        return undefined;
      },
      // Nothing is awaited: the ledger keeps what it can't write yet, and the client has its answer.
      finish(ctx) {
        const hold = ctx.state as Hold | undefined;
        if (hold === undefined) return;
        const { request_id } = hold.reservation;
        if (!ctx.get('upstream.attempts')) {
          void ledger.release(request_id);
        } else if (ctx.get('usage.provenance') === undefined) {
          ledger.settle(estimate(hold, ctx.get('upstream.status'), ctx.aborted)).catch((error) => {
            log.error({ err: error, request_id }, 'a request could not be settled');
          });
        }
      },
    };
  },
});
