import {
  type AttemptRecord,
  type CacheLifetime,
  defineStage,
  type ModelConfig,
  type Outcome,
  type ResponseEvent,
  type Services,
  type StageContext,
} from '../engine/api.ts';
import {
  attemptPrices,
  billFor,
  type Charged,
  chargeFor,
  chargeUnknown,
  costOf,
  createOddities,
  type Ending,
  emptyBill,
  endingOf,
  IDENTITY_FACTS,
  inputCost,
  moreToReserve,
  NO_TOKENS,
  type Possible,
  possibleFor,
  type ReservationWatch,
  requestIdentity,
  servedAsAsked,
  settleLater,
  settleUnknown,
  tellsUsage,
  watchReservation,
  withAttempts,
} from '../engine/domain/budget/index.ts';
import {
  definitionOf,
  newUsageReading,
  readOtherUsage,
  type UsageReader,
  type UsageReading,
} from '../engine/domain/protocols/index.ts';
import { mayBeBilled } from '../engine/domain/upstreams/index.ts';

/** What is kept between the events of one response. */
interface Metering {
  readonly reading: UsageReading;
  readonly read: UsageReader;
  /** Absent when the most the request can cost is reserved, or nothing. */
  readonly watch: ReservationWatch | undefined;
}

type MeterContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

const READS = [
  ...IDENTITY_FACTS.reads,
  'request.received_at',
  'request.input_tokens_estimate',
  'request.cache.ttl',
] as const;

const READS_IF_SET = [
  ...IDENTITY_FACTS.reads_if_set,
  'request.input_tokens_max',
  'request.context_window',
  'request.choices',
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.other_models',
  'request.max_tokens',
  'cache.requested_ttl',
  'cache.effective_ttl',
  'cache.downgraded',
  'route.protocol',
  'spend.most_tokens',
  'route.per_request_nano_usd',
  'spend.reserved_nano_usd',
  'spend.most_nano_usd',
  'upstream.attempts',
  'upstream.status',
  'outcome.aborted',
  'outcome.drained',
  'outcome.unread',
  'error.code',
] as const;

const WRITES = [
  'usage.input_tokens',
  'usage.output_tokens',
  'usage.cache_read_input_tokens',
  'usage.cache_write_5m_input_tokens',
  'usage.cache_write_1h_input_tokens',
  'usage.server_tools',
  'usage.answered_model',
  'usage.billed',
  'usage.cost_nano_usd',
  'usage.provenance',
  'usage.possibly_billed_nano_usd',
] as const;

/** A request with its price: what it costs, by whose word, and how it is to be written down. */
interface Charge extends Pick<Outcome, 'provenance' | 'possibly_billed_nano_usd'> {
  readonly usage: Charged['usage'];
  readonly cost: number;
  readonly billed?: Charged['billed'];
}

const NO_TOOLS = Object.freeze({});

/** The model and what its use costs at the upstream, at the moment the request arrived. */
function pricedModel(ctx: MeterContext, { models }: Services) {
  const model = models.charged(ctx.get('request.model'))!;
  // The route may name an upstream that it could not be made ready for.
  const upstream = ctx.attempts.at(-1)?.upstream ?? ctx.get('route.upstream');
  const route = { upstream, at: ctx.get('request.received_at') };
  return { model, route, price: models.price(model, route) };
}

/** Input and output of a request as far as it tells them itself. */
function expected(ctx: MeterContext, { context_window: own, max_output_tokens }: ModelConfig) {
  const context_window = Math.max(own, ctx.get('request.context_window') ?? 0);
  const estimate = ctx.get('request.input_tokens_estimate');
  return {
    input_estimate: Math.min(estimate, context_window),
    input_most: Math.min(ctx.get('request.input_tokens_max') ?? estimate, context_window),
    output_max: (ctx.get('request.max_tokens') ?? max_output_tokens) * (ctx.get('request.choices') ?? 1),
    cache_asked: (ctx.get('cache.downgraded') === true ? '5m' : ctx.get('request.cache.ttl')) as CacheLifetime,
    asked: servedAsAsked((path) => ctx.get(path)),
  };
}

/** What the answer says about its usage; APIs beside those for models have a shape in common. */
function readerOf(ctx: MeterContext): UsageReader {
  return isOther(ctx) ? readOtherUsage : definitionOf(ctx.get('route.protocol')).readUsage;
}

function isOther(ctx: MeterContext): boolean {
  return ctx.get('request.protocol') === 'none';
}

/** A reservation of less than the most the request can cost is watched while the answer streams. */
function startMetering(ctx: MeterContext, services: Services): Metering {
  const metering = { reading: newUsageReading(), read: readerOf(ctx) };
  const reserved = ctx.get('spend.reserved_nano_usd');
  const most = ctx.get('spend.most_nano_usd');
  if (reserved === undefined || most === undefined || reserved >= most) return { ...metering, watch: undefined };
  const { model, price } = pricedModel(ctx, services);
  const { input_estimate, cache_asked, asked } = expected(ctx, model);
  return { ...metering, watch: watchReservation({ reserved, most, price, input_estimate, cache_asked, asked }) };
}

function writeTokens(ctx: MeterContext, usage: Charge['usage']): void {
  ctx.set('usage.input_tokens', usage.input);
  ctx.set('usage.output_tokens', usage.output);
  ctx.set('usage.cache_read_input_tokens', usage.cache_read);
  ctx.set('usage.cache_write_5m_input_tokens', usage.cache_write_5m);
  ctx.set('usage.cache_write_1h_input_tokens', usage.cache_write_1h);
}

function writeFacts(ctx: MeterContext, { usage, billed }: Charge, outcome: Outcome): void {
  const { provenance, cost_nano_usd: cost, possibly_billed_nano_usd = 0 } = outcome;
  if (billed?.model !== undefined) ctx.set('usage.answered_model', billed.model);
  if (billed !== undefined) ctx.set('usage.billed', { ...billed });
  if (provenance.input !== 'unknown') writeTokens(ctx, usage);
  ctx.set('usage.server_tools', usage.server_tools ?? NO_TOOLS);
  ctx.set('usage.cost_nano_usd', cost);
  ctx.set('usage.provenance', provenance);
  if (possibly_billed_nano_usd > 0) ctx.set('usage.possibly_billed_nano_usd', possibly_billed_nano_usd);
}

/** How long the prompt was to be kept, and what its upstream was asked for; nothing where it was not to be kept. */
function cacheLifetimes(ctx: MeterContext): Pick<Outcome, 'cache_requested_ttl' | 'cache_effective_ttl'> {
  const requested = ctx.get('cache.requested_ttl') ?? 'none';
  if (requested === 'none') return {};
  return { cache_requested_ttl: requested, cache_effective_ttl: ctx.get('cache.effective_ttl') ?? requested };
}

function outcomeOf(ctx: MeterContext, charge: Charge): Outcome {
  const { usage, provenance, cost, billed, possibly_billed_nano_usd = 0 } = charge;
  const { server_tools, audio: _, ...tokens } = usage;
  return {
    status: ctx.get('upstream.status') ?? null,
    aborted: ctx.get('outcome.aborted') ?? false,
    tokens,
    cost_nano_usd: cost,
    provenance,
    ...(server_tools && { server_tools }),
    ...(billed && { billed }),
    ...(possibly_billed_nano_usd > 0 && { possibly_billed_nano_usd }),
    ...cacheLifetimes(ctx),
  };
}

/** The last attempt, where it did not serve the request and nobody ended it. */
function lastFailed(ctx: MeterContext): AttemptRecord | undefined {
  const last = ctx.attempts.at(-1);
  return last === undefined || last.outcome === 'answered' || last.outcome === 'gone' ? undefined : last;
}

/** What was read of the last attempt: where several failed, the client may have the answer of another one. */
function readOfLast(ctx: MeterContext): UsageReading | undefined {
  const is_of_another = lastFailed(ctx) !== undefined && ctx.attempts.length > 1 && ctx.get('error.code') === undefined;
  return is_of_another ? undefined : (ctx.state as Metering | undefined)?.reading;
}

function howItEnded(ctx: MeterContext, reading: UsageReading): Ending {
  const failed = lastFailed(ctx);
  const is_error_alone = reading.failed && !reading.seen && reading.deltas === 0;
  if (failed !== undefined && (is_error_alone || readOfLast(ctx) === undefined)) {
    return mayBeBilled(failed) ? 'failed' : 'refused';
  }
  if (ctx.attempts.at(-1)?.certainty === 'not_sent') return 'refused';
  // A whole answer to another API is one, whether its events say so or not.
  const heard = isOther(ctx) ? { ...reading, streamed: false } : reading;
  return endingOf(heard, {
    status: ctx.get('upstream.status'),
    aborted: ctx.get('outcome.aborted') ?? false,
    drained: ctx.get('outcome.drained') ?? false,
    error: ctx.get('error.code'),
    heard: ctx.state !== undefined,
    unread: ctx.get('outcome.unread') ?? false,
    relayed_bytes: ctx.relayed_bytes,
  });
}

/** Charges requests; what has no price is told once for each model and tool. */
function createCharger(services: Services) {
  const { config, ledger, log, models } = services;
  const noteOddities = createOddities(log);
  const worst_case = config.spend_limits?.reserve === 'worst_case';

  /** What such requests cost, as far as that is known of those with one answer. */
  function usualCost(ctx: MeterContext): number | undefined {
    if (worst_case || (ctx.get('request.choices') ?? 1) !== 1) return undefined;
    return ledger.typicalCost(ctx.get('principal.email'), ctx.get('request.model'));
  }

  return (ctx: MeterContext, reading: UsageReading): Charge => {
    const { model, route, price } = pricedModel(ctx, services);
    const ending = howItEnded(ctx, reading);
    const bounds = expected(ctx, model);
    if (ending !== 'refused' && isOther(ctx) && !tellsUsage(reading, model.id)) {
      const { input_estimate: input, output_max: output } = bounds;
      const most = ctx.get('spend.most_nano_usd') ?? costOf(price, { ...NO_TOKENS, input, output });
      const per_request = ctx.get('route.per_request_nano_usd');
      return chargeUnknown(ending, { model: model.id, per_request, most, counts_possible: worst_case });
    }
    const bill = billFor(reading, {
      ...bounds,
      // Nobody who leaves pays less than what was sent.
      ...(ending === 'left' && { input_estimate: bounds.input_most }),
      ending,
      aborted: ctx.get('outcome.aborted') ?? false,
      relayed_bytes: ctx.relayed_bytes,
      fees: price.server_tools_pico,
    });
    const charged = chargeFor(bill.is_empty ? newUsageReading() : reading, bill, {
      ...{ models, model, route, asked: bounds.asked, cache_asked: bounds.cache_asked },
      others: (ctx.get('request.other_models') ?? []).flatMap((id) => models.find(id) ?? []),
      possible: possibleFor(
        ctx.get('spend.most_tokens') as Possible | undefined,
        model,
        // An image has no characters that its tokens could be counted by.
        isOther(ctx) ? 0 : reading.chars,
      ),
    });
    const { usage, billed } = charged;
    const provenance = { ...bill.provenance, ...noteOddities(ctx, reading, charged, price) };
    const most_reserved = ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd');
    // A guess never costs more than the most that the request was found to cost before it was forwarded.
    const is_known = bill.provenance.cost === 'upstream' && charged.impossible.length === 0;
    const cost = is_known ? charged.cost : Math.min(charged.cost, most_reserved ?? charged.cost);
    if (ending === 'known' || ending === 'refused') return { usage, provenance, billed, cost };
    const { input_estimate: input, output_max: output } = bounds;
    const most = most_reserved ?? Math.max(cost, costOf(price, { ...NO_TOKENS, input, output }));
    // What was not answered at all is taken to have been read, and no more.
    const is_unanswered = lastFailed(ctx) !== undefined && !reading.seen && reading.deltas === 0;
    const bound = is_unanswered ? { most: inputCost(ctx, models, route.upstream), usual: undefined } : undefined;
    const known = { known: cost, most, usual: usualCost(ctx), counts_possible: worst_case, ...bound };
    const { by, cost_nano_usd, possibly_billed_nano_usd } = settleUnknown(ending, known);
    const known_by = by === undefined ? provenance : { ...provenance, cost: by };
    return { usage, provenance: known_by, billed, cost: cost_nano_usd, possibly_billed_nano_usd };
  };
}

export default defineStage({
  name: 'meter-usage',
  version: 1,
  summary:
    'Reads what the answer of a forwarded request used, prices it, and writes the ledger row in place of the reservation.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      charge: {
        enum: ['full', 'nothing'],
        default: 'full',
        description: 'Whether the request costs what the model costs, or nothing: the row then has zeros.',
      },
    },
  },
  examples: [
    { title: 'Meter and charge', yaml: '- stage: meter-usage' },
    {
      title: 'Record a request that the upstream does not charge',
      yaml: '- stage: meter-usage\n  options: { charge: nothing }',
    },
  ],
  reads: READS,
  readsIfSet: READS_IF_SET,
  writes: WRITES,
  needs: ['database'],
  below: ['check-budget'],
  create({ charge }, services) {
    const charged = createCharger(services);
    const isBilled = charge === 'full' ? mayBeBilled : () => false;
    return {
      ...(charge === 'full' && {
        // What an upstream said that did not serve is no part of the bill.
        attempt(ctx: MeterContext) {
          if (ctx.state !== undefined) ctx.state = undefined;
        },
        event(ctx: MeterContext, event: ResponseEvent) {
          ctx.state ??= startMetering(ctx, services);
          const { reading, read, watch } = ctx.state as Metering;
          reading.chars += event.large?.bytes ?? event.data.length;
          read(reading, event);
          const more = watch && moreToReserve(watch, reading);
          if (more !== undefined) ctx.reservation?.topUp(more);
        },
      }),
      finish(ctx) {
        if (!ctx.get('upstream.attempts')) return;
        const reading = readOfLast(ctx) ?? newUsageReading();
        const result: Charge = charge === 'nothing' ? { ...emptyBill(), cost: 0 } : charged(ctx, reading);
        const outcome = withAttempts(outcomeOf(ctx, result), ctx.attempts, attemptPrices(ctx, services, isBilled));
        writeFacts(ctx, result, outcome);
        const reservation = ctx.reservation ?? services.ledger.unreserved(requestIdentity(ctx));
        settleLater(ctx, reservation, outcome, services.log);
      },
    };
  },
});
