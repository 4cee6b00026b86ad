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
import { newUsageReading, type UsageReading } from '../../protocols/index.ts';
import { costOf, NO_TOKENS } from '../prices/prices.ts';

/**
 * How well the bill of a forwarded request is known.
 * `known`: reported by the response. `refused`: the upstream rejected the request and bills nothing. `left`: incomplete,
 * because the client disconnected or the response could not be read. `failed`: incomplete or unknown, because the upstream
 * or the gateway failed.
 */
export type Ending = 'known' | 'refused' | 'left' | 'failed';

/** How a forwarded request ended, besides its reported usage. */
interface EndingCircumstances {
  /** `undefined` without a response. */
  readonly status: number | undefined;
  /** Whether the client disconnected. */
  readonly aborted: boolean;
  /** Whether the response was read to its end anyway. */
  readonly drained: boolean;
  /** Code of the gateway's error, if the request ended with one. */
  readonly error: string | undefined;
  /** Whether a response document or an event arrived. */
  readonly heard: boolean;
  /** Whether the response could not be read: unknown or invalid compression, or too large. */
  readonly unread: boolean;
  readonly relayed_bytes: number;
}

/** Statuses from 500 that say the upstream did not process the request. */
const NOT_TAKEN: ReadonlySet<number> = new Set([501, 503, 529]);

/** Errors of the upstream; with these an earlier disconnect of the client does not matter. */
const BY_UPSTREAM: ReadonlySet<string> = new Set(['upstream_failed', 'upstream_unreachable', 'upstream_invalid']);

/** Classifies how well the bill of a forwarded request is known. */
export function endingOf(reading: UsageReading, circumstances: EndingCircumstances): Ending {
  const { status, aborted, drained, error, heard, unread, relayed_bytes } = circumstances;
  const has_left = aborted && !drained && !BY_UPSTREAM.has(error!);
  if (status === undefined) return has_left ? 'left' : 'failed';
  if (status >= 500 && !NOT_TAKEN.has(status)) return 'failed';
  if (status < 200 || status > 299) return 'refused';
  // An HTML page comes from a proxy, not from a model; an empty response proves nothing.
  if (error === 'upstream_invalid' && !heard) return relayed_bytes > 0 ? 'refused' : 'failed';
  if (reading.failed && !reading.seen && reading.deltas === 0) return 'refused';
  const is_whole = drained || (!aborted && error === undefined);
  // Chat completions report completion before usage.
  if (reading.complete && (reading.counted || is_whole)) return 'known';
  // Some upstreams report no usage in documents. A stream without an end event was cut off.
  if (heard && is_whole && !reading.streamed) return 'known';
  // The client has the whole response.
  if (unread && !heard && is_whole) return 'left';
  return has_left && !reading.failed ? 'left' : 'failed';
}

/** The charge of a request, and what the upstream may bill beyond it. */
export interface Settled {
  readonly cost_nano_usd: number;
  /** The part of the worst case that the upstream may or may not bill; 0 if the bill is known. */
  readonly possibly_billed_nano_usd: number;
  /** The source of the cost, if not the reported usage. */
  readonly by: Extract<Provenance, 'learned' | 'most' | 'possible'> | undefined;
}

/** Bounds on the cost of a request with an unknown bill, in nano-USD. */
interface CostBounds {
  /** The cost of the reported and relayed usage. */
  readonly known: number;
  readonly most: number;
  /** The 95th percentile of similar requests; `undefined` with too few samples, or if no limit may be exceeded. */
  readonly usual: number | undefined;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * Charges a request with an incomplete bill. After a disconnect it costs the typical amount, between the known cost and the
 * worst case. After a failure it costs the known amount; the rest is recorded as possibly billed.
 */
export function settleUnknown(ending: 'left' | 'failed', bounds: CostBounds): Settled {
  const { most, usual, counts_possible } = bounds;
  const known = Math.min(bounds.known, most);
  const likely = Math.max(known, Math.min(usual ?? most, most));
  if (ending === 'left') {
    const by = likely === known ? undefined : usual === undefined || usual >= most ? 'most' : 'learned';
    return { cost_nano_usd: likely, possibly_billed_nano_usd: 0, by };
  }
  const possibly_billed_nano_usd = likely - known;
  if (!counts_possible || possibly_billed_nano_usd === 0)
    return { cost_nano_usd: known, possibly_billed_nano_usd, by: undefined };
  return { cost_nano_usd: likely, possibly_billed_nano_usd, by: 'possible' };
}

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
interface AttemptPrices {
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
    /**
     * The outcome of a forwarded request that no stage metered: the reserved amount. Rejected requests cost nothing; failed ones
     * cost nothing unless possibly billed amounts count.
     */
    unmetered(ctx: EndedContext, amount_nano_usd: number, tokens: TokenCounts): Outcome {
      const prices = attemptPrices(ctx, services, isBilled);
      const { aborted, relayed_bytes } = ctx;
      const [status, error] = [ctx.get('upstream.status'), ctx.get('error.code')];
      const circumstances = { status, error, aborted, relayed_bytes, drained: false, heard: true, unread: false };
      const ending = endingOf(newUsageReading(), circumstances);
      const has_failed = ending === 'failed';
      const is_charged = ending === 'known' || ending === 'left' || (has_failed && prices.counts_possible);
      const from = aborted ? 'abort' : 'estimate';
      const outcome: Outcome = {
        status: status ?? null,
        aborted,
        tokens: is_charged ? tokens : NO_TOKENS,
        cost_nano_usd: is_charged ? amount_nano_usd : 0,
        provenance: {
          input: from,
          output: from,
          cache_read: from,
          cache_write_5m: from,
          cache_write_1h: from,
          cost: is_charged && has_failed ? 'possible' : from,
        },
        ...(has_failed && amount_nano_usd > 0 && { possibly_billed_nano_usd: amount_nano_usd }),
      };
      return withAttempts(outcome, ctx.attempts, prices);
    },
  };
}
