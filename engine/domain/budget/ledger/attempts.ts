import type { AttemptRecord } from '../../../base/contract/forwarding.ts';
import type {
  ChargedAttempt,
  ModelCatalog,
  Outcome,
  Provenance,
  Services,
  TokenCounts,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { costOf, NO_TOKENS } from '../prices/prices.ts';
import { settleUnmetered } from './ending.ts';

type RequestContext = Pick<
  StageContext<'request.model' | 'request.received_at' | 'request.input_tokens_estimate', 'request.context_window'>,
  'get'
>;

/**
 * The cost of a request's input at an upstream, by its estimate, in nano-USD: an upstream that accepts the request bills at
 * least that.
 */
export function inputCost(ctx: RequestContext, models: ModelCatalog, upstream: string): number {
  const model = models.charged(ctx.get('request.model'))!;
  const window = Math.max(model.context_window, ctx.get('request.context_window') ?? 0);
  const input = Math.min(ctx.get('request.input_tokens_estimate'), window);
  return costOf(models.price(model, { upstream, at: ctx.get('request.received_at') }), { ...NO_TOKENS, input });
}

/** How failed attempts are charged. */
export interface AttemptPrices {
  /** What the upstream may bill for an attempt, in nano-USD; 0 if it certainly bills nothing. */
  mayBeBilled(attempt: AttemptRecord): number;
  /** Whether that counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * Prices of a request's failed attempts.
 * @param isBilled whether the upstream may bill an attempt
 */
export function attemptPrices(
  ctx: RequestContext,
  { config, models }: Pick<Services, 'config' | 'models'>,
  isBilled: (attempt: AttemptRecord) => boolean,
): AttemptPrices {
  return {
    counts_possible: config.spend_limits?.reserve === 'worst_case',
    mayBeBilled: (attempt) => (isBilled(attempt) ? inputCost(ctx, models, attempt.upstream) : 0),
  };
}

/** The charge of a failed attempt. */
function chargeFailed(attempt: AttemptRecord, { mayBeBilled, counts_possible }: AttemptPrices): ChargedAttempt {
  const possible = mayBeBilled(attempt);
  if (possible === 0) return { ...attempt, cost_nano_usd: 0, provenance: 'refused' };
  return {
    ...attempt,
    cost_nano_usd: counts_possible ? possible : 0,
    provenance: counts_possible ? 'possible' : 'estimate',
    possibly_billed_nano_usd: possible,
  };
}

/**
 * Adds all attempts to the outcome of the last one; possibly billed amounts of earlier ones are added to the cost if they
 * count. A first attempt that succeeded in one send adds only its duration and upstream request id.
 */
export function withAttempts(outcome: Outcome, attempts: readonly AttemptRecord[], prices: AttemptPrices): Outcome {
  const last = attempts.at(-1);
  if (last === undefined) return outcome;
  const { ms: upstream_ms, upstream_request_id } = last;
  const evidence = { upstream_ms, ...(upstream_request_id !== undefined && { upstream_request_id }) };
  if (attempts.length === 1 && last.outcome === 'answered' && last.sends === 1) return { ...outcome, ...evidence };
  const earlier = attempts.slice(0, -1).map((attempt) => chargeFailed(attempt, prices));
  const { cost_nano_usd, possibly_billed_nano_usd: own = 0 } = outcome;
  const charged: ChargedAttempt = {
    ...last,
    cost_nano_usd,
    provenance: (outcome.provenance.cost ?? 'estimate') as Provenance,
    ...(own > 0 && { possibly_billed_nano_usd: own }),
  };
  const counted = earlier.reduce((sum, attempt) => sum + attempt.cost_nano_usd, 0);
  const possible = earlier.reduce((sum, attempt) => sum + (attempt.possibly_billed_nano_usd ?? 0), own);
  return {
    ...outcome,
    ...evidence,
    cost_nano_usd: cost_nano_usd + counted,
    provenance: counted > 0 ? { ...outcome.provenance, cost: 'possible' } : outcome.provenance,
    attempts: [...earlier, charged],
    ...(possible > 0 && { possibly_billed_nano_usd: possible }),
  };
}

type EndedContext = StageContext<
  'request.model' | 'request.received_at' | 'request.input_tokens_estimate',
  'request.context_window' | 'upstream.status' | 'error.code',
  never
>;

/**
 * Creates the charges of requests without metered usage.
 * @param isBilled whether the upstream may bill an attempt
 */
export function createAttemptCharges(
  services: Pick<Services, 'config' | 'models'>,
  isBilled: (attempt: AttemptRecord) => boolean,
) {
  return {
    /** The charges of the attempts so far, all failed. */
    failed(ctx: EndedContext): readonly ChargedAttempt[] {
      const prices = attemptPrices(ctx, services, isBilled);
      return ctx.attempts.map((attempt) => chargeFailed(attempt, prices));
    },
    /** The outcome of a forwarded request that no stage metered, from its reserved amount. */
    unmetered(ctx: EndedContext, amount_nano_usd: number, tokens: TokenCounts): Outcome {
      const prices = attemptPrices(ctx, services, isBilled);
      const { aborted, relayed_bytes } = ctx;
      const ended = { status: ctx.get('upstream.status'), error: ctx.get('error.code'), aborted, relayed_bytes };
      const outcome = settleUnmetered({ amount_nano_usd, tokens, ended, counts_possible: prices.counts_possible });
      return withAttempts(outcome, ctx.attempts, prices);
    },
  };
}
