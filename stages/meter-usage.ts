import {
  type Bill,
  type Billed,
  billFor,
  type CacheLifetime,
  type Charged,
  chargeFor,
  defineStage,
  type EffectivePrice,
  emptyBill,
  type HoldWatch,
  type ModelConfig,
  moreToHold,
  newUsageReading,
  type Possible,
  type PriceNote,
  type Provenance,
  type ResponseEvent,
  type Served,
  type Services,
  type Settlement,
  type StageContext,
  type UsageReader,
  type UsageReading,
  unpricedTools,
  usageReader,
  watchHold,
} from '../engine/api.ts';

interface MeterUsageOptions {
  readonly charge: 'full' | 'nothing';
}

/** What is kept between the events of one response. */
interface Metering {
  readonly reading: UsageReading;
  readonly read: UsageReader;
  /** Absent when the most the request can cost is held, or nothing. */
  readonly watch: HoldWatch | undefined;
}

type MeterContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

const READS = [
  'request.id',
  'request.surface',
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
] as const;

/** A request with its price: what it costs, by whose word, and how it is to be written down. */
interface Charge extends Omit<Bill, 'provenance'> {
  readonly provenance: Readonly<Record<string, Provenance | PriceNote>>;
  readonly cost: number;
  readonly billed?: Billed | undefined;
}

const NO_TOOLS = Object.freeze({});

/** The most models and tools without a price that are remembered as told. */
const TOLD_MAX = 1000;

function modelOf(ctx: MeterContext, { models }: Services): ModelConfig {
  return models.find(ctx.get('request.model'))!;
}

/** The price at the moment the request arrived. */
function priceOf(ctx: MeterContext, { models }: Services, model: ModelConfig): EffectivePrice {
  return models.price(model, { upstream: ctx.get('route.upstream'), at: ctx.get('request.received_at') });
}

/** Input and output of a request as far as it tells them itself. */
function expected(ctx: MeterContext, { context_window, max_output_tokens }: ModelConfig) {
  return {
    input_estimate: Math.min(ctx.get('request.input_tokens_estimate'), context_window),
    output_max: (ctx.get('request.max_tokens') ?? max_output_tokens) * (ctx.get('request.choices') ?? 1),
    cache_asked: ctx.get('request.cache.ttl') as CacheLifetime,
  };
}

/** A hold of less than the most the request can cost is watched while the answer streams. */
function startMetering(ctx: MeterContext, services: Services): Metering {
  const held = ctx.get('spend.reserved_nano_usd');
  const most = ctx.get('spend.most_nano_usd');
  const reading = newUsageReading();
  const read = usageReader(ctx.get('route.protocol'));
  if (held === undefined || most === undefined || held >= most) return { reading, read, watch: undefined };
  const model = modelOf(ctx, services);
  const { input_estimate, cache_asked } = expected(ctx, model);
  const price = priceOf(ctx, services, model);
  return { reading, read, watch: watchHold({ held, most, price, input_estimate, cache_asked }) };
}

/** A guess never costs more than the most that the request was found to cost before it was forwarded. */
function atMost(ctx: MeterContext, cost: number, is_known: boolean): number {
  if (is_known) return cost;
  return Math.min(cost, ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd') ?? cost);
}

/** Where nothing was held, nobody has looked at what the request can take. */
const UNBOUNDED: Possible = { input: Infinity, output: Infinity, input_limit: Infinity };

/**
 * The most tokens that an answer can have used. Where nothing is hidden from the client, that is no more than the letters it
 * was sent.
 */
function possibleFor(ctx: MeterContext, { context_window, supports }: ModelConfig, chars: number): Possible {
  const most = (ctx.get('spend.most_tokens') as Possible | undefined) ?? UNBOUNDED;
  const is_open = supports.thinking === 'none' && most.input_limit <= context_window && chars > 0;
  return is_open ? { ...most, output: Math.min(most.output, chars) } : most;
}

/** How the client asked to be served. */
function askedOf(ctx: MeterContext): Served {
  const service_tier = ctx.get('request.service_tier');
  const speed = ctx.get('request.speed');
  const inference_geo = ctx.get('request.inference_geo');
  return { ...(service_tier && { service_tier }), ...(speed && { speed }), ...(inference_geo && { inference_geo }) };
}

function writeFacts(ctx: MeterContext, { usage, provenance, cost, billed }: Charge): void {
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
}

/** Hands the ledger row over. It is not waited for: the ledger keeps and retries what it cannot write yet. */
function settle(ctx: MeterContext, { ledger, log }: Services, { usage, provenance, cost, billed }: Charge): void {
  const request_id = ctx.get('request.id');
  const { server_tools, ...tokens } = usage;
  const settlement: Settlement = {
    request_id,
    surface: ctx.get('request.surface'),
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
    reserved: ctx.get('spend.reserved_nano_usd') !== undefined,
  };
  ledger.settle(settlement).catch((error: unknown) => {
    log.error({ err: error, request_id }, 'a request could not be settled');
  });
}

/** Charges requests; what has no price is told once for each model and tool. */
function createCharger(services: Services) {
  const { log } = services;
  const told = new Set<string>();
  function tellOnce(fields: Readonly<Record<string, string | undefined>>, message: string): void {
    const name = JSON.stringify(fields);
    if (told.has(name) || told.size >= TOLD_MAX) return;
    told.add(name);
    log.warn(fields, message);
  }
  return (ctx: MeterContext, reading: UsageReading): Charge => {
    if (reading.unusable) {
      const fields = { request_id: ctx.get('request.id'), upstream: ctx.get('route.upstream') };
      log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
    }
    const model = modelOf(ctx, services);
    const price = priceOf(ctx, services, model);
    const bill = billFor(reading, {
      ...expected(ctx, model),
      status: ctx.get('upstream.status'),
      aborted: ctx.get('outcome.aborted') ?? false,
      relayed_bytes: ctx.relayed_bytes,
      fees: price.server_tools_pico,
    });
    const charged = chargeFor(bill.is_empty ? newUsageReading() : reading, bill, {
      models: services.models,
      model,
      others: (ctx.get('request.other_models') ?? []).flatMap((id) => services.models.find(id) ?? []),
      route: { upstream: ctx.get('route.upstream'), at: ctx.get('request.received_at') },
      asked: askedOf(ctx),
      cache_asked: ctx.get('request.cache.ttl') as CacheLifetime,
      possible: possibleFor(ctx, model, reading.chars),
    });
    const { usage, billed, impossible, unpriced_serving } = charged;
    if (impossible.length > 0) {
      const fields = { request_id: ctx.get('request.id'), upstream: ctx.get('route.upstream'), impossible };
      log.warn(fields, 'the upstream reported more usage than is possible; the most that is possible was booked');
    }
    if (unpriced_serving) {
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model: model.id, service_tier, speed, inference_geo };
      tellOnce(how, 'an answer was served in a way that has no price; it was charged at the dearest there is');
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
    return { usage, provenance, billed, cost: atMost(ctx, charged.cost, is_known) };
  };
}

/** Where the numbers come from that were reported beyond what is possible. */
function clampedNumbers(impossible: Charged['impossible']): Readonly<Record<string, Provenance>> {
  if (impossible.length === 0) return {};
  const input = {
    input: 'clamped',
    cache_read: 'clamped',
    cache_write_5m: 'clamped',
    cache_write_1h: 'clamped',
  } as const;
  return {
    ...(impossible.includes('input') && input),
    ...(impossible.includes('output') && { output: 'clamped' as const }),
    cost: 'clamped',
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
        description: 'Whether the request costs what the model costs, or nothing: the row then holds zeros.',
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
  create({ charge }: MeterUsageOptions, services) {
    const charged = createCharger(services);
    return {
      ...(charge === 'full' && {
        event(ctx: MeterContext, event: ResponseEvent) {
          ctx.state ??= startMetering(ctx, services);
          const { reading, read, watch } = ctx.state as Metering;
          reading.chars += event.data.length;
          read(reading, event);
          const more = watch && moreToHold(watch, reading);
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
