import { defineStage, type LimitStatus, type ReservationRequest, type StageContext } from '../engine/api.ts';
import {
  createAttemptCharges,
  createExpectations,
  createLimitCheck,
  EXPECTATION_FACTS,
  type Expected,
  isUnavailable,
  type LimitCheckResult,
  limitHeaders,
  MOVED,
  settleLater,
} from '../engine/domain/budget/index.ts';
import { mayBeBilled } from '../engine/domain/upstreams/index.ts';

const { reads: READS } = EXPECTATION_FACTS;
const ENDING = ['upstream.attempts', 'upstream.status', 'error.code', 'usage.provenance', 'spend.unreserved'] as const;
const READS_IF_SET = [...EXPECTATION_FACTS.reads_if_set, ...ENDING] as const;
const AMOUNTS = ['spend.reserved_nano_usd', 'spend.most_nano_usd', 'spend.most_tokens'] as const;
const WRITES = [...AMOUNTS, 'spend.unreserved', 'spend.rule'] as const;

type BudgetContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

/** The reservation of a request, with the status of its money limits. */
interface Reserved {
  readonly request: ReservationRequest;
  readonly tokens: Expected['most'];
  readonly statuses: readonly LimitStatus[];
  readonly attempts_before: number;
  /** The rule that rejected the move to the last upstream. */
  readonly refused_by?: string;
}

export default defineStage({
  name: 'check-budget',
  version: 1,
  summary:
    'Reserves the cost of a request on every limit that applies, or rejects the request; reports usage of limits in response headers.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      charge: {
        enum: ['full', 'nothing'],
        default: 'full',
        description:
          'Charge of the request. `full`: the price of its model. `nothing`: it is free, and limits by money or tokens do not apply.',
      },
    },
  },
  examples: [
    { title: 'Reserve the cost of the request', yaml: '- stage: check-budget' },
    {
      title: 'Count a free request',
      yaml: '- stage: check-budget\n  options: { charge: nothing }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  raises: ['invalid_request', 'spend_limit_exceeded', 'rate_limit_exceeded', 'store_unavailable'],
  needs: ['database'],
  create({ charge }, services) {
    const { config, ledger, log } = services;
    const expected = createExpectations(services, charge);
    const limits = createLimitCheck(services);
    const headers = limitHeaders(config.server.profile.header_prefix);
    const charges = createAttemptCharges(services, charge === 'full' ? mayBeBilled : () => false);

    function recordReservation(
      ctx: BudgetContext,
      wanted: Expected,
      found: LimitCheckResult,
      attempts_before: number,
    ): void {
      const { request, decision } = found;
      const { statuses } = decision;
      ctx.state = { request, tokens: wanted.most, statuses, attempts_before } satisfies Reserved;
      ctx.recordLimits(statuses);
      ctx.set('spend.reserved_nano_usd', ctx.get('spend.unreserved') === true ? 0 : request.amount_nano_usd);
      ctx.set('spend.most_nano_usd', request.most_nano_usd);
      ctx.set('spend.most_tokens', wanted.possible);
    }

    /** With `on_store_error: allow`, moves succeed during a database outage: the cost then counts where it was reserved. */
    async function move(ctx: BudgetContext, reserved: Reserved): Promise<void> {
      const wanted = expected(ctx);
      const failed = charges.failed(ctx);
      const found = await limits.check(ctx, wanted.request, (request) =>
        ctx.reservation!.move(request, failed).catch((error) => {
          if (request.on_store_error === 'allow' && isUnavailable(error)) return MOVED;
          throw error;
        }),
      );
      if (found.exceeded.length > 0) {
        ctx.state = { ...reserved, refused_by: found.exceeded[0]!.rule } satisfies Reserved;
        throw await limits.refusal(ctx, found);
      }
      recordReservation(ctx, wanted, found, ctx.attempts.length);
    }

    return {
      // Tries candidates until the limits of an upstream have headroom; a rejection by any other limit is final.
      async request(ctx) {
        for (;;) {
          const wanted = expected(ctx);
          const found = await limits.check(ctx, wanted.request, (request) => ledger.reserve(request));
          const { decision, exceeded } = found;
          if (exceeded.length > 0) {
            if (exceeded.every(({ scope }) => scope.split('+').includes('upstream')) && ctx.dropFirstCandidate('limit'))
              continue;
            ctx.set('spend.rule', exceeded[0]!.rule);
            throw await limits.refusal(ctx, found);
          }
          try {
            ctx.reservation = decision.reservation;
            if (decision.unreserved) ctx.set('spend.unreserved', true);
            recordReservation(ctx, wanted, found, 0);
          } catch (error) {
            // The stage timed out: its `finish` has already run and cannot release the reservation.
            void decision.reservation?.release();
            throw error;
          }
          return undefined;
        }
      },
      // Before an attempt at another upstream the reservation moves to its limits.
      attempt(ctx) {
        const reserved = ctx.state as Reserved | undefined;
        if (ctx.reservation === undefined || reserved === undefined) return undefined;
        const { upstream, upstream_model } = reserved.request;
        const is_there = upstream === ctx.get('route.upstream') && upstream_model === ctx.get('route.upstream_model');
        return is_there && reserved.attempts_before === ctx.attempts.length ? undefined : move(ctx, reserved);
      },
      // The upstream's rate limit headers describe the gateway's account, so they are replaced. Upstream errors pass
      // unchanged.
      response(ctx, head) {
        if (head.status >= 400) return;
        head.replaceAll(headers.prefix, headers.onSuccess((ctx.state as Reserved | undefined)?.statuses ?? []));
      },
      // Runs in the background: the ledger retries failed writes, and the client has its response.
      finish(ctx) {
        const { reservation } = ctx;
        const reserved = ctx.state as Reserved | undefined;
        if (reservation === undefined || reserved === undefined) return;
        const { request, tokens, refused_by } = reserved;
        const is_refused = /^(spend|rate)_limit_exceeded$/.test(ctx.get('error.code') ?? '');
        if (refused_by !== undefined && is_refused) ctx.set('spend.rule', refused_by);
        if (!ctx.get('upstream.attempts')) void reservation.release();
        else if (ctx.get('usage.provenance') === undefined)
          settleLater(ctx, reservation, charges.unmetered(ctx, request.amount_nano_usd, tokens), log);
      },
    };
  },
});
