import type { AttemptRecord } from '../../../base/contract/forwarding.ts';
import type { ChargedAttempt, ModelCatalog, Outcome, Provenance, Services } from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { costOf, NO_TOKENS } from '../prices/prices.ts';

type AskedContext = Pick<
  StageContext<'request.model' | 'request.received_at' | 'request.input_tokens_estimate', 'request.context_window'>,
  'get'
>;

/** What the input of a request costs at an upstream, by its estimate, in nano-USD: what is surely read when it is accepted. */
export function inputCost(ctx: AskedContext, models: ModelCatalog, upstream: string): number {
  const model = models.charged(ctx.get('request.model'))!;
  const window = Math.max(model.context_window, ctx.get('request.context_window') ?? 0);
  const input = Math.min(ctx.get('request.input_tokens_estimate'), window);
  return costOf(models.price(model, { upstream, at: ctx.get('request.received_at') }), { ...NO_TOKENS, input });
}

/** How attempts are charged that did not serve. */
export interface AttemptPrices {
  /** What an attempt may be billed by its upstream, in nano-USD; 0 where it surely is not. */
  mayBeBilled(attempt: AttemptRecord): number;
  /** Whether that counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/** How attempts of a request are charged: those that `isBilled` says may be billed, if the request costs anything. */
export function attemptPrices(
  ctx: AskedContext,
  { config, models }: Pick<Services, 'config' | 'models'>,
  isBilled: (attempt: AttemptRecord) => boolean,
): AttemptPrices {
  return {
    counts_possible: config.spend_limits?.reserve === 'worst_case',
    mayBeBilled: (attempt) => (isBilled(attempt) ? inputCost(ctx, models, attempt.upstream) : 0),
  };
}

/** What an attempt costs that did not serve. */
export function chargeFailed(attempt: AttemptRecord, { mayBeBilled, counts_possible }: AttemptPrices): ChargedAttempt {
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
 * An outcome of the last attempt with all attempts: what earlier ones may be billed is in its cost where that counts. Without
 * them where the first was the only one and served, sent once: then only with its time and id.
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
