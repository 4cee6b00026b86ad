import type { ModelConfig } from '../../../base/contract/config.ts';
import type { AttemptRecord } from '../../../base/contract/forwarding.ts';
import type {
  CacheLifetime,
  ChargedAttempt,
  EffectivePrice,
  ModelCatalog,
  Outcome,
  Provenance,
  Served,
  Services,
  TokenCounts,
} from '../../../base/contract/services.ts';
import type { ResponseEvent, StageContext } from '../../../base/contract/stage.ts';
import {
  cacheTokens,
  definitionOf,
  newUsageReading,
  readOtherUsage,
  relayedOutput,
  type UsageReader,
  type UsageReading,
} from '../../protocols/index.ts';
import {
  type BillEnding,
  billFor,
  type Charged,
  chargeFor,
  chargeUnknown,
  createUsageAnomalies,
  emptyBill,
  inputFrom,
  inputTokens,
  type Possible,
  possibleFor,
  reportsUsage,
  settleUnknown,
  toolsUsed,
  withAudio,
} from '../prices/charge.ts';
import { costOf, NO_TOKENS, servedAsRequested } from '../prices/prices.ts';

/** Facts that determine the cost of a finished request. */
export const METERING_FACTS = {
  reads: [
    'request.protocol',
    'request.model',
    'principal.email',
    'route.upstream',
    'request.received_at',
    'request.input_tokens_estimate',
    'request.cache.ttl',
  ],
  reads_if_set: [
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
  ],
} as const;

type MeterContext = StageContext<
  (typeof METERING_FACTS)['reads'][number],
  (typeof METERING_FACTS)['reads_if_set'][number],
  never
>;

const FULL_PERCENT = 80;

interface ReservationWatch {
  readonly most: number;
  readonly price: EffectivePrice;
  readonly input_estimate: number;
  readonly cache_asked: CacheLifetime;
  readonly asked: Served;
  reserved: number;
  next_output: number;
  known: number;
}

/**
 * The new amount to reserve in nano-USD, if a top-up is due: twice the cost so far, at most the worst case. Costs two
 * comparisons until then.
 */
function moreToReserve(watch: ReservationWatch, reading: UsageReading): number | undefined {
  if (watch.reserved >= watch.most) return undefined;
  const known = whatIsKnown(reading);
  const output = Math.max(reading.reported.output ?? 0, relayedOutput(reading, 0));
  if (known === watch.known && output < watch.next_output) return undefined;
  watch.known = known;
  const before = watch.reserved;
  const cost = costSoFar(watch, reading, output);
  if (cost * 100 > watch.reserved * FULL_PERCENT)
    watch.reserved = Math.min(watch.most, Math.max(watch.reserved, 2 * cost));
  watch.next_output = outputThatFills(watch, reading, output);
  return watch.reserved > before ? watch.reserved : undefined;
}

function whatIsKnown({ reported, tools_begun }: UsageReading): number {
  let known = reported.input === undefined ? 0 : 1;
  for (const tool in tools_begun) known += tools_begun[tool]!;
  return known;
}

function costSoFar(watch: ReservationWatch, reading: UsageReading, output: number): number {
  const cache = cacheTokens(reading.reported, watch.cache_asked);
  const input = inputTokens(reading.reported, cache, watch.input_estimate);
  const server_tools = toolsUsed(reading, false, watch.price.server_tools_pico);
  const served = reading.served === undefined ? watch.asked : { ...watch.asked, ...reading.served };
  const tokens = withAudio({ input, output, ...cache }, reading.reported);
  return costOf(watch.price, { ...tokens, served, ...(server_tools && { server_tools }) });
}

/** The output tokens at which the next top-up is due, so that deltas need no price computation. */
function outputThatFills(watch: ReservationWatch, reading: UsageReading, output: number): number {
  const now = costSoFar(watch, reading, output);
  const thousand = costSoFar(watch, reading, output + 1000) - now;
  if (thousand <= 0) return Infinity;
  return output + Math.max(1, Math.ceil((((watch.reserved * FULL_PERCENT) / 100 - now) * 1000) / thousand));
}

/** State of one response between its events. */
export interface Metering {
  readonly reading: UsageReading;
  readonly read: UsageReader;
  /** Absent if the worst case is reserved, or nothing. */
  readonly watch: ReservationWatch | undefined;
}

type MeteringServices = Pick<Services, 'config' | 'ledger' | 'log' | 'models'>;
type MayBeBilled = (attempt: AttemptRecord) => boolean;

interface Charge extends Pick<Outcome, 'provenance' | 'possibly_billed_nano_usd'> {
  readonly usage: Charged['usage'];
  readonly cost: number;
  readonly billed?: Charged['billed'];
}

function pricedModel(ctx: MeterContext, { models }: MeteringServices) {
  const model = models.charged(ctx.get('request.model'))!;
  // The route may name an upstream that was never attempted.
  const upstream = ctx.attempts.at(-1)?.upstream ?? ctx.get('route.upstream');
  const route = { upstream, at: ctx.get('request.received_at') };
  return { model, route, price: models.price(model, route) };
}

function expected(ctx: MeterContext, { context_window: own, max_output_tokens }: ModelConfig) {
  const context_window = Math.max(own, ctx.get('request.context_window') ?? 0);
  const estimate = ctx.get('request.input_tokens_estimate');
  return {
    input_estimate: Math.min(estimate, context_window),
    input_most: Math.min(ctx.get('request.input_tokens_max') ?? estimate, context_window),
    output_max: (ctx.get('request.max_tokens') ?? max_output_tokens) * (ctx.get('request.choices') ?? 1),
    cache_asked: (ctx.get('cache.downgraded') === true ? '5m' : ctx.get('request.cache.ttl')) as CacheLifetime,
    asked: servedAsRequested((path) => ctx.get(path)),
  };
}

function isOther(ctx: MeterContext): boolean {
  return ctx.get('request.protocol') === 'none';
}

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

function lastFailed(ctx: MeterContext): AttemptRecord | undefined {
  const last = ctx.attempts.at(-1);
  return last === undefined || last.outcome === 'answered' || last.outcome === 'gone' ? undefined : last;
}

/** The usage read of the last attempt. After several failures the client may have received the response of an earlier one. */
function readOfLast(ctx: MeterContext, metering: Metering | undefined): UsageReading | undefined {
  const is_of_another = lastFailed(ctx) !== undefined && ctx.attempts.length > 1 && ctx.get('error.code') === undefined;
  return is_of_another ? undefined : metering?.reading;
}

function classifyEnding(
  ctx: MeterContext,
  metering: Metering | undefined,
  reading: UsageReading,
  mayBeBilled: MayBeBilled,
): BillEnding {
  const failed = lastFailed(ctx);
  const is_error_alone = reading.failed && !reading.seen && reading.deltas === 0;
  if (failed !== undefined && (is_error_alone || readOfLast(ctx, metering) === undefined)) {
    return mayBeBilled(failed) ? 'failed' : 'refused';
  }
  if (ctx.attempts.at(-1)?.certainty === 'not_sent') return 'refused';
  // Events of non-model APIs need no end event.
  const heard = isOther(ctx) ? { ...reading, streamed: false } : reading;
  return billEndingOf(heard, {
    status: ctx.get('upstream.status'),
    aborted: ctx.get('outcome.aborted') ?? false,
    drained: ctx.get('outcome.drained') ?? false,
    error: ctx.get('error.code'),
    heard: metering !== undefined,
    unread: ctx.get('outcome.unread') ?? false,
    relayed_bytes: ctx.relayed_bytes,
  });
}

function createCharger(services: MeteringServices, mayBeBilled: MayBeBilled) {
  const { config, ledger, log, models } = services;
  const recordAnomalies = createUsageAnomalies(log);
  const worst_case = config.spend_limits?.reserve === 'worst_case';

  /** The typical cost, known for requests with one choice. */
  function usualCost(ctx: MeterContext): number | undefined {
    if (worst_case || (ctx.get('request.choices') ?? 1) !== 1) return undefined;
    return ledger.typicalCost(ctx.get('principal.email'), ctx.get('request.model'));
  }

  return (ctx: MeterContext, metering: Metering | undefined): Charge => {
    const reading = readOfLast(ctx, metering) ?? newUsageReading();
    const { model, route, price } = pricedModel(ctx, services);
    const ending = classifyEnding(ctx, metering, reading, mayBeBilled);
    const bounds = expected(ctx, model);
    if (ending !== 'refused' && isOther(ctx) && !reportsUsage(reading, model.id)) {
      const { input_estimate: input, output_max: output } = bounds;
      const most = ctx.get('spend.most_nano_usd') ?? costOf(price, { ...NO_TOKENS, input, output });
      const per_request = ctx.get('route.per_request_nano_usd');
      return chargeUnknown(ending, { model: model.id, per_request, most, counts_possible: worst_case });
    }
    const bill = billFor(reading, {
      ...bounds,
      // After a disconnect, the request pays at least for its input.
      ...(ending === 'unmeasured' && { input_estimate: bounds.input_most }),
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
        // Output of non-model APIs, such as images, has no characters to estimate tokens from.
        isOther(ctx) ? 0 : reading.chars,
      ),
    });
    const { usage, billed } = charged;
    const provenance = { ...bill.provenance, ...recordAnomalies(ctx, reading, charged, price) };
    const most_reserved = ctx.get('spend.most_nano_usd') ?? ctx.get('spend.reserved_nano_usd');
    // An estimate never exceeds the worst case computed before forwarding.
    const is_known = bill.provenance.cost === 'upstream' && charged.impossible.length === 0;
    const cost = is_known ? charged.cost : Math.min(charged.cost, most_reserved ?? charged.cost);
    if (ending === 'known' || ending === 'refused') return { usage, provenance, billed, cost };
    const { input_estimate: input, output_max: output } = bounds;
    const most = most_reserved ?? Math.max(cost, costOf(price, { ...NO_TOKENS, input, output }));
    // Without any response, only the input counts as processed.
    const is_unanswered = lastFailed(ctx) !== undefined && !reading.seen && reading.deltas === 0;
    const bound = is_unanswered ? { most: inputCost(ctx, models, route.upstream), usual: undefined } : undefined;
    const known = { known: cost, most, usual: usualCost(ctx), counts_possible: worst_case, ...bound };
    const { by, cost_nano_usd, possibly_billed_nano_usd } = settleUnknown(ending, known);
    const known_by = by === undefined ? provenance : { ...provenance, cost: by };
    return { usage, provenance: known_by, billed, cost: cost_nano_usd, possibly_billed_nano_usd };
  };
}

/**
 * Creates the metering of requests.
 * @param mayBeBilled whether the upstream may bill a failed attempt
 */
export function createMetering(services: MeteringServices, charge: 'full' | 'nothing', mayBeBilled: MayBeBilled) {
  const charged = createCharger(services, mayBeBilled);
  const isBilled = charge === 'full' ? mayBeBilled : () => false;
  return {
    start(ctx: MeterContext): Metering {
      const read = isOther(ctx) ? readOtherUsage : definitionOf(ctx.get('route.protocol')).readUsage;
      const metering = { reading: newUsageReading(), read };
      const reserved = ctx.get('spend.reserved_nano_usd');
      const most = ctx.get('spend.most_nano_usd');
      if (reserved === undefined || most === undefined || reserved >= most) return { ...metering, watch: undefined };
      const { model, price } = pricedModel(ctx, services);
      const { input_estimate, cache_asked, asked } = expected(ctx, model);
      const watch = { reserved, most, price, input_estimate, cache_asked, asked, next_output: 0, known: -1 };
      return { ...metering, watch };
    },
    /** Reads a response event. @returns the new amount to reserve in nano-USD, if it increased. */
    read({ reading, read, watch }: Metering, event: ResponseEvent): number | undefined {
      reading.chars += event.large?.bytes ?? event.data.length;
      read(reading, event);
      return watch && moreToReserve(watch, reading);
    },
    settle(ctx: MeterContext, metering: Metering | undefined): Outcome {
      const result = charge === 'nothing' ? { ...emptyBill(), cost: 0 } : charged(ctx, metering);
      return withAttempts(outcomeOf(ctx, result), ctx.attempts, attemptPrices(ctx, services, isBilled));
    },
  };
}

interface BillEndingCircumstances {
  readonly status: number | undefined;
  readonly aborted: boolean;
  readonly drained: boolean;
  readonly error: string | undefined;
  /** Whether a response document or an event arrived. */
  readonly heard: boolean;
  /** Whether the response could not be read: unknown or invalid compression, or too large. */
  readonly unread: boolean;
  readonly relayed_bytes: number;
}

/** Statuses from 500 with which the upstream did not process the request. */
const NOT_TAKEN: ReadonlySet<number> = new Set([501, 503, 529]);

/** Errors of the upstream; with these an earlier disconnect of the client does not matter. */
const BY_UPSTREAM: ReadonlySet<string> = new Set(['upstream_failed', 'upstream_unreachable', 'upstream_invalid']);

/** Classifies how well the bill of a forwarded request is known. */
export function billEndingOf(reading: UsageReading, circumstances: BillEndingCircumstances): BillEnding {
  const { status, aborted, drained, error, heard, unread, relayed_bytes } = circumstances;
  const has_left = aborted && !drained && !BY_UPSTREAM.has(error!);
  if (status === undefined) return has_left ? 'unmeasured' : 'failed';
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
  if (unread && !heard && is_whole) return 'unmeasured';
  return has_left && !reading.failed ? 'unmeasured' : 'failed';
}

type RequestContext = Pick<
  StageContext<'request.model' | 'request.received_at' | 'request.input_tokens_estimate', 'request.context_window'>,
  'get'
>;

/**
 * The cost of a request's input at an upstream, by its estimate, in nano-USD: an upstream that accepts the request bills at
 * least that.
 */
function inputCost(ctx: RequestContext, models: ModelCatalog, upstream: string): number {
  const model = models.charged(ctx.get('request.model'))!;
  const window = Math.max(model.context_window, ctx.get('request.context_window') ?? 0);
  const input = Math.min(ctx.get('request.input_tokens_estimate'), window);
  return costOf(models.price(model, { upstream, at: ctx.get('request.received_at') }), { ...NO_TOKENS, input });
}

/**
 * Prices of a request's failed attempts.
 * @param isBilled whether the upstream may bill an attempt
 */
function attemptPrices(
  ctx: RequestContext,
  { config, models }: Pick<Services, 'config' | 'models'>,
  isBilled: MayBeBilled,
) {
  return {
    counts_possible: config.spend_limits?.reserve === 'worst_case',
    /** What the upstream may bill for an attempt, in nano-USD; 0 if it certainly bills nothing. */
    mayBeBilled: (attempt: AttemptRecord) => (isBilled(attempt) ? inputCost(ctx, models, attempt.upstream) : 0),
  };
}

type AttemptPrices = ReturnType<typeof attemptPrices>;

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
function withAttempts(outcome: Outcome, attempts: readonly AttemptRecord[], prices: AttemptPrices): Outcome {
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
export function createAttemptCharges(services: Pick<Services, 'config' | 'models'>, isBilled: MayBeBilled) {
  return {
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
      const ending = billEndingOf(newUsageReading(), circumstances);
      const has_failed = ending === 'failed';
      const is_charged = ending === 'known' || ending === 'unmeasured' || (has_failed && prices.counts_possible);
      const from = aborted ? 'abort' : 'estimate';
      const outcome: Outcome = {
        status: status ?? null,
        aborted,
        tokens: is_charged ? tokens : NO_TOKENS,
        cost_nano_usd: is_charged ? amount_nano_usd : 0,
        provenance: { ...inputFrom(from, from), output: from, cost: is_charged && has_failed ? 'possible' : from },
        ...(has_failed && amount_nano_usd > 0 && { possibly_billed_nano_usd: amount_nano_usd }),
      };
      return withAttempts(outcome, ctx.attempts, prices);
    },
  };
}
