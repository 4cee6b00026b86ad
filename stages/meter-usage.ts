import {
  type Bill,
  type Billed,
  billFor,
  type CacheLifetime,
  chargeFor,
  clampedNumbers,
  costOf,
  defineStage,
  type EffectivePrice,
  type Ending,
  emptyBill,
  endingOf,
  type ModelConfig,
  moreToReserve,
  NO_TOKENS,
  type Possible,
  type PriceNote,
  type Provenance,
  possibleFor,
  type ReservationWatch,
  type ResponseEvent,
  type Services,
  type Settled,
  type Settlement,
  type StageContext,
  servedAsAsked,
  settleUnknown,
  unpricedTools,
  watchReservation,
} from '../engine/api.ts';
import { createOnceLog } from '../engine/kit/index.ts';
import { newUsageReading, type UsageReader, type UsageReading, usageReader } from '../engine/protocols/index.ts';

/** What is kept between the events of one response. */
interface Metering {
  readonly reading: UsageReading;
  readonly read: UsageReader;
  /** Absent when the most the request can cost is reserved, or nothing. */
  readonly watch: ReservationWatch | undefined;
}

type MeterContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

const READS = [
  'request.id',
  'request.protocol',
  'request.received_at',
  'request.model',
  'request.input_tokens_estimate',
  'request.cache.ttl',
  'principal.id',
  'principal.email',
  'principal.token.id',
  'route.upstream',
  'route.upstream_model',
] as const;

const READS_IF_SET = [
  'request.input_tokens_max',
  'request.context_window',
  'request.choices',
  'request.service_tier',
  'request.speed',
  'request.inference_geo',
  'request.other_models',
  'spend.most_tokens',
  'route.protocol',
  'principal.team',
  'principal.project',
  'spend.reserved_nano_usd',
  'spend.most_nano_usd',
  'request.max_tokens',
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
interface Charge extends Omit<Bill, 'provenance'> {
  readonly provenance: Readonly<Record<string, Provenance | PriceNote>>;
  readonly cost: number;
  readonly billed?: Billed | undefined;
  readonly possibly_billed?: number;
}

const NO_TOOLS = Object.freeze({});

function modelOf(ctx: MeterContext, { models }: Services): ModelConfig {
  return models.find(ctx.get('request.model'))!;
}

/** The price at the moment the request arrived. */
function priceOf(ctx: MeterContext, { models }: Services, model: ModelConfig): EffectivePrice {
  return models.price(model, { upstream: ctx.get('route.upstream'), at: ctx.get('request.received_at') });
}

/** Input and output of a request as far as it tells them itself. */
function expected(ctx: MeterContext, { context_window: own, max_output_tokens }: ModelConfig) {
  const context_window = Math.max(own, ctx.get('request.context_window') ?? 0);
  const estimate = ctx.get('request.input_tokens_estimate');
  return {
    input_estimate: Math.min(estimate, context_window),
    input_most: Math.min(ctx.get('request.input_tokens_max') ?? estimate, context_window),
    output_max: (ctx.get('request.max_tokens') ?? max_output_tokens) * (ctx.get('request.choices') ?? 1),
    cache_asked: ctx.get('request.cache.ttl') as CacheLifetime,
  };
}

/** A reservation of less than the most the request can cost is watched while the answer streams. */
function startMetering(ctx: MeterContext, services: Services): Metering {
  const reserved = ctx.get('spend.reserved_nano_usd');
  const most = ctx.get('spend.most_nano_usd');
  const reading = newUsageReading();
  const read = usageReader(ctx.get('route.protocol'));
  if (reserved === undefined || most === undefined || reserved >= most) return { reading, read, watch: undefined };
  const model = modelOf(ctx, services);
  const { input_estimate, cache_asked } = expected(ctx, model);
  const price = priceOf(ctx, services, model);
  const asked = servedAsAsked((path) => ctx.get(path));
  return {
    reading,
    read,
    watch: watchReservation({ reserved, most, price, input_estimate, cache_asked, asked }),
  };
}

/** A guess never costs more than the most that the request was found to cost before it was forwarded. */
function atMost(ctx: MeterContext, cost: number, is_known: boolean): number {
  return is_known ? cost : Math.min(cost, ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd') ?? cost);
}

function writeFacts(ctx: MeterContext, charge: Charge): void {
  const { usage, provenance, cost, billed, possibly_billed = 0 } = charge;
  if (billed?.model !== undefined) ctx.set('usage.answered_model', billed.model);
  if (billed !== undefined) ctx.set('usage.billed', { ...billed });
  ctx.set('usage.input_tokens', usage.input);
  ctx.set('usage.output_tokens', usage.output);
  ctx.set('usage.cache_read_input_tokens', usage.cache_read);
  ctx.set('usage.cache_write_5m_input_tokens', usage.cache_write_5m);
  ctx.set('usage.cache_write_1h_input_tokens', usage.cache_write_1h);
  ctx.set('usage.server_tools', usage.server_tools ?? NO_TOOLS);
  ctx.set('usage.cost_nano_usd', cost);
  ctx.set('usage.provenance', provenance);
  if (possibly_billed > 0) ctx.set('usage.possibly_billed_nano_usd', possibly_billed);
}

/** Hands the ledger row over. It is not waited for: the ledger keeps and retries what it cannot write yet. */
function settle(ctx: MeterContext, { ledger, log }: Services, charge: Charge): void {
  const { usage, provenance, cost, billed, possibly_billed = 0 } = charge;
  const request_id = ctx.get('request.id');
  const { server_tools, ...tokens } = usage;
  const settlement: Settlement = {
    request_id,
    protocol: ctx.get('request.protocol'),
    principal_id: ctx.get('principal.id'),
    user: ctx.get('principal.email'),
    team: ctx.get('principal.team') ?? null,
    project: ctx.get('principal.project') ?? null,
    token_id: ctx.get('principal.token.id'),
    model: ctx.get('request.model'),
    upstream: ctx.get('route.upstream'),
    upstream_model: ctx.get('route.upstream_model'),
    status: ctx.get('upstream.status') ?? null,
    aborted: ctx.get('outcome.aborted') ?? false,
    tokens,
    cost_nano_usd: cost,
    provenance,
    ...(server_tools && { server_tools }),
    ...(billed && { billed }),
    ...(possibly_billed > 0 && { possibly_billed_nano_usd: possibly_billed }),
    reserved: ctx.get('spend.reserved_nano_usd') !== undefined,
  };
  ledger.settle(settlement).catch((error: unknown) => {
    log.error({ err: error, request_id }, 'a request could not be settled');
  });
}

function howItEnded(ctx: MeterContext, reading: UsageReading): Ending {
  return endingOf(reading, {
    status: ctx.get('upstream.status'),
    aborted: ctx.get('outcome.aborted') ?? false,
    drained: ctx.get('outcome.drained') ?? false,
    error: ctx.get('error.code'),
    heard: ctx.state !== undefined,
    unread: ctx.get('outcome.unread') ?? false,
    relayed_bytes: ctx.relayed_bytes,
  });
}

/** What a request comes to whose bill is not known in full, from what is known of it. */
function settledUnknown(
  ctx: MeterContext,
  { config, ledger }: Services,
  { ending, known, most }: { readonly ending: 'left' | 'failed'; readonly known: number; readonly most: number },
): Settled {
  const worst_case = config.spend_limits?.reserve === 'worst_case';
  // What such requests cost is known of those with one answer.
  const has_usual = !worst_case && (ctx.get('request.choices') ?? 1) === 1;
  const usual = has_usual ? ledger.typicalCost(ctx.get('principal.email'), ctx.get('request.model')) : undefined;
  return settleUnknown(ending, { known, most, usual, counts_possible: worst_case });
}

/** Charges requests; what has no price is told once for each model and tool. */
function createCharger(services: Services) {
  const { log } = services;
  const tellOnce = createOnceLog(log);
  return (ctx: MeterContext, reading: UsageReading): Charge => {
    if (reading.unusable) {
      const fields = { request_id: ctx.get('request.id'), upstream: ctx.get('route.upstream') };
      log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
    }
    const model = modelOf(ctx, services);
    const price = priceOf(ctx, services, model);
    const ending = howItEnded(ctx, reading);
    const bounds = expected(ctx, model);
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
      models: services.models,
      model,
      others: (ctx.get('request.other_models') ?? []).flatMap((id) => services.models.find(id) ?? []),
      route: { upstream: ctx.get('route.upstream'), at: ctx.get('request.received_at') },
      asked: servedAsAsked((path) => ctx.get(path)),
      cache_asked: ctx.get('request.cache.ttl') as CacheLifetime,
      possible: possibleFor(ctx.get('spend.most_tokens') as Possible | undefined, model, reading.chars),
    });
    const { usage, billed, impossible, unpriced_serving } = charged;
    if (impossible.length > 0) {
      const fields = { request_id: ctx.get('request.id'), upstream: ctx.get('route.upstream'), impossible };
      log.warn(fields, 'the upstream reported more usage than is possible; the most that is possible was booked');
    }
    if (unpriced_serving) {
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model: model.id, service_tier, speed, inference_geo };
      tellOnce(how, 'an answer was served in a way that has no price; it was charged at the most expensive there is');
    }
    const unknown_model = price.source === 'prices.unknown_model';
    if (unknown_model) tellOnce({ model: model.id }, 'a model without a price was charged by prices.unknown_model');
    const unpriced = usage.server_tools === undefined ? [] : unpricedTools(price, usage);
    for (const tool of unpriced)
      tellOnce({ model: model.id, tool }, 'a tool without a price was used; it cost nothing');
    const notes = {
      ...clampedNumbers(impossible),
      ...(unpriced_serving && { price: 'unknown_tier' as const }),
      ...(unknown_model && { price: 'unknown_model' as const }),
      ...(unpriced.length > 0 && { server_tools: 'unpriced' as const }),
    };
    const provenance = Object.keys(notes).length > 0 ? { ...bill.provenance, ...notes } : bill.provenance;
    const is_known = bill.provenance.cost === 'upstream' && impossible.length === 0;
    const cost = atMost(ctx, charged.cost, is_known);
    if (ending === 'known' || ending === 'refused') return { usage, provenance, billed, cost };
    const reserved = ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd');
    const { input_estimate: input, output_max: output } = bounds;
    const most = reserved ?? Math.max(cost, costOf(price, { ...NO_TOKENS, input, output }));
    const settled = settledUnknown(ctx, services, { ending, known: cost, most });
    return {
      usage,
      provenance: settled.by === undefined ? provenance : { ...provenance, cost: settled.by },
      billed,
      cost: settled.cost_nano_usd,
      possibly_billed: settled.possibly_billed_nano_usd,
    };
  };
}

export default defineStage({
  name: 'meter-usage',
  version: 1,
  summary: 'Reads what the response used, prices it and writes the ledger row of a forwarded request.',
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
    return {
      ...(charge === 'full' && {
        event(ctx: MeterContext, event: ResponseEvent) {
          ctx.state ??= startMetering(ctx, services);
          const { reading, read, watch } = ctx.state as Metering;
          reading.chars += event.large?.bytes ?? event.data.length;
          read(reading, event);
          const more = watch && moreToReserve(watch, reading);
          if (more !== undefined) services.ledger.topUp(ctx.get('request.id'), more);
        },
      }),
      finish(ctx) {
        if (!ctx.get('upstream.attempts')) return;
        const reading = (ctx.state as Metering | undefined)?.reading ?? newUsageReading();
        const result: Charge = charge === 'nothing' ? { ...emptyBill(), cost: 0 } : charged(ctx, reading);
        writeFacts(ctx, result);
        settle(ctx, services, result);
      },
    };
  },
});
