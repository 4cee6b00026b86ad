import {
  type Bill,
  billFor,
  type CacheLifetime,
  costOf,
  defineStage,
  type EffectivePrice,
  emptyBill,
  type HoldWatch,
  type ModelConfig,
  moreToHold,
  newUsageReading,
  type PriceNote,
  type Provenance,
  type ResponseEvent,
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
  'usage.cost_nano_usd',
  'usage.provenance',
] as const;

/** A request with its price: what it costs, by whose word, and how it is to be written down. */
interface Charge extends Omit<Bill, 'provenance'> {
  readonly provenance: Readonly<Record<string, Provenance | PriceNote>>;
  readonly cost: number;
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
function atMost(ctx: MeterContext, { provenance }: Bill, cost: number): number {
  if (provenance.cost === 'upstream') return cost;
  return Math.min(cost, ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd') ?? cost);
}

function writeFacts(ctx: MeterContext, { usage, provenance, cost }: Charge): void {
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
function settle(ctx: MeterContext, { ledger, log }: Services, { usage, provenance, cost }: Charge): void {
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
  function tellOnce(fields: { readonly model: string; readonly tool?: string }, message: string): void {
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
    const { usage } = bill;
    const unknown_model = price.source === 'prices.unknown_model';
    if (unknown_model) tellOnce({ model: model.id }, 'a model without a price was charged by prices.unknown_model');
    const unpriced = usage.server_tools === undefined ? [] : unpricedTools(price, usage);
    for (const tool of unpriced)
      tellOnce({ model: model.id, tool }, 'a tool without a price was used; it cost nothing');
    const notes = {
      ...(unknown_model && { price: 'unknown_model' as const }),
      ...(unpriced.length > 0 && { server_tools: 'unpriced' as const }),
    };
    const provenance = unknown_model || unpriced.length > 0 ? { ...bill.provenance, ...notes } : bill.provenance;
    return { usage, provenance, cost: atMost(ctx, bill, costOf(price, usage)) };
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
