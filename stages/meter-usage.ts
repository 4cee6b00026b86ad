import {
  defineStage,
  type Provenance,
  type ResponseEvent,
  type Services,
  type Settlement,
  type StageContext,
  type TokenCounts,
} from '../engine/api.ts';

interface MeterUsageOptions {
  readonly charge: 'full' | 'nothing';
}

const TOTALS = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'] as const;
const SPLIT = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'] as const;

type UsageField = (typeof TOTALS)[number] | (typeof SPLIT)[number];

/** What is remembered of one response: numbers, never text. */
interface Reading {
  /** Usage as the upstream reported it; a field is absent until a usable number arrives. */
  readonly reported: Partial<Record<UsageField, number>>;
  /** Whether any usage was reported. */
  seen: boolean;
  /** Whether the upstream said that its output was complete. */
  complete: boolean;
  /** Whether the upstream reported an error inside a successful response. */
  failed: boolean;
  /** Whether a number was reported that can't be one. */
  unusable: boolean;
  /** Whether the response is a stream of events. */
  streamed: boolean;
  deltas: number;
  delta_chars: number;
}

type CacheLifetime = 'none' | '5m' | '1h';

/** What a forwarded request used and where each number came from. */
interface Bill {
  readonly tokens: TokenCounts;
  readonly provenance: Readonly<Record<keyof TokenCounts | 'cost', Provenance>>;
}

const NOTHING: TokenCounts = { input: 0, output: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

/** No response can use this many tokens; a larger number is a fault, and priced it would leave the exact integers. */
const TOKENS_MAX = 100_000_000;

/** Characters of JSON text that one output token is taken for when the upstream's count never came. */
const CHARS_PER_TOKEN = 4;

/** What surrounds the text in the data of a delta event. */
const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

function newReading(): Reading {
  const flags = { seen: false, complete: false, failed: false, unusable: false, streamed: false };
  return { reported: {}, ...flags, deltas: 0, delta_chars: 0 };
}

function asObject(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function isTokenCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= TOKENS_MAX;
}

/** Lays one `usage` object over what was reported before: the last usable number of each field counts. */
function overlay(reading: Reading, value: unknown): void {
  const usage = asObject(value);
  if (usage === undefined) return;
  reading.seen = true;
  const take = (field: UsageField, found: unknown) => {
    if (isTokenCount(found)) reading.reported[field] = found;
    else if (found !== undefined && found !== null) reading.unusable = true;
  };
  for (const field of TOTALS) take(field, usage[field]);
  const split = asObject(usage.cache_creation);
  for (const field of SPLIT) take(field, split?.[field]);
}

function countDelta(reading: Reading, data: string): void {
  reading.deltas++;
  reading.delta_chars += Math.max(0, data.length - DELTA_FRAME_CHARS);
}

/** Takes in a document, or an event whose own `type` says what it is. */
function readMessage(reading: Reading, message: Record<string, unknown> | undefined, data: string): void {
  switch (message?.type) {
    case 'message_start':
      reading.streamed = true;
      overlay(reading, asObject(message.message)?.usage);
      break;
    case 'message_delta':
      overlay(reading, message.usage);
      // An upstream may send several; only the one with the stop reason carries the final counts.
      if (asObject(message.delta)?.stop_reason != null) reading.complete = true;
      break;
    case 'content_block_delta':
      countDelta(reading, data);
      break;
    case 'error':
      reading.failed = true;
      break;
    case 'message':
      overlay(reading, message.usage);
      reading.complete = true;
      break;
  }
}

/** Takes in one observed event. Only the few that carry usage are parsed: deltas are most of a stream. */
function readEvent(reading: Reading, { name, data }: ResponseEvent): void {
  if (name !== undefined) reading.streamed = true;
  if (name === 'content_block_delta') countDelta(reading, data);
  else if (name === 'error') reading.failed = true;
  else if (name === undefined || name === 'message_start' || name === 'message_delta') {
    readMessage(reading, parseObject(data), data);
  }
}

/**
 * Splits cache writes by lifetime. What the upstream's split leaves open is counted at the longest lifetime the request
 * asked for, so that a one-hour write is never priced as a five-minute one; a split larger than the total stands.
 */
function cacheTokens(reported: Reading['reported'], asked: CacheLifetime): Omit<TokenCounts, 'input' | 'output'> {
  const short = reported.ephemeral_5m_input_tokens ?? 0;
  const long = reported.ephemeral_1h_input_tokens ?? 0;
  const open = Math.max(0, (reported.cache_creation_input_tokens ?? 0) - short - long);
  return {
    cache_read: reported.cache_read_input_tokens ?? 0,
    cache_write_5m: asked === '1h' ? short : short + open,
    cache_write_1h: asked === '1h' ? long + open : long,
  };
}

/** Output tokens that were relayed, judged by size: every delta is at least one token. */
function relayedOutput(reading: Reading, relayed_bytes: number): number {
  if (!reading.streamed) return Math.ceil(relayed_bytes / CHARS_PER_TOKEN);
  return Math.max(reading.deltas, Math.ceil(reading.delta_chars / CHARS_PER_TOKEN));
}

interface Circumstances {
  readonly status: number | undefined;
  readonly aborted: boolean;
  readonly input_estimate: number;
  readonly output_max: number;
  readonly cache_asked: CacheLifetime;
  readonly relayed_bytes: number;
}

function billOf(tokens: TokenCounts, input: Provenance, output: Provenance, cache: Provenance): Bill {
  const all = [input, output, cache];
  const cost = all.includes('abort') ? 'abort' : all.includes('estimate') ? 'estimate' : 'upstream';
  return {
    tokens,
    provenance: { input, output, cache_read: cache, cache_write_5m: cache, cache_write_1h: cache, cost },
  };
}

/** Decides what a forwarded request used. Every number the upstream did not report is an estimate, never nothing. */
function decide(reading: Reading, { status, aborted, ...request }: Circumstances): Bill {
  const guess = aborted ? 'abort' : 'estimate';
  if (status === undefined) return billOf({ ...NOTHING, input: request.input_estimate }, guess, guess, guess);
  const succeeded = status >= 200 && status < 300;
  if (!succeeded || (reading.failed && !reading.seen)) return billOf(NOTHING, 'upstream', 'upstream', 'upstream');

  const { reported, seen, complete } = reading;
  const cache = cacheTokens(reported, request.cache_asked);
  const cached = cache.cache_read + cache.cache_write_5m + cache.cache_write_1h;
  const input = reported.input_tokens ?? Math.max(0, request.input_estimate - cached);
  const final = complete && reported.output_tokens !== undefined;
  const output = final
    ? reported.output_tokens!
    : Math.max(
        reported.output_tokens ?? 0,
        Math.min(request.output_max, relayedOutput(reading, request.relayed_bytes)),
      );
  return billOf(
    { input, output, ...cache },
    reported.input_tokens === undefined ? guess : 'upstream',
    final ? 'upstream' : guess,
    seen ? 'upstream' : guess,
  );
}

type MeterContext = StageContext<(typeof READS)[number], (typeof READS_IF_SET)[number], (typeof WRITES)[number]>;

const READS = [
  'request.id',
  'request.surface',
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
  'principal.team',
  'principal.project',
  'spend.reserved_nano_usd',
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
  'usage.cost_nano_usd',
  'usage.provenance',
] as const;

/** A guess never costs more than was held for the request: what was held is the most it can cost. */
function atMostHeld(ctx: MeterContext, { provenance }: Bill, cost: number): number {
  return provenance.cost === 'upstream' ? cost : Math.min(cost, ctx.get('spend.reserved_nano_usd') ?? cost);
}

function writeFacts(ctx: MeterContext, { tokens, provenance }: Bill, cost: number): void {
  ctx.set('usage.input_tokens', tokens.input);
  ctx.set('usage.output_tokens', tokens.output);
  ctx.set('usage.cache_read_input_tokens', tokens.cache_read);
  ctx.set('usage.cache_write_5m_input_tokens', tokens.cache_write_5m);
  ctx.set('usage.cache_write_1h_input_tokens', tokens.cache_write_1h);
  ctx.set('usage.cost_nano_usd', cost);
  ctx.set('usage.provenance', provenance);
}

/** Hands the ledger row over. It is not waited for: the ledger keeps and retries what it cannot write yet. */
function settle(ctx: MeterContext, { ledger, log }: Services, { tokens, provenance }: Bill, cost: number): void {
  const request_id = ctx.get('request.id');
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
    reserved: ctx.get('spend.reserved_nano_usd') !== undefined,
  };
  ledger.settle(settlement).catch((error: unknown) => {
    log.error({ err: error, request_id }, 'a request could not be settled');
  });
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
    function billFor(ctx: MeterContext): Bill {
      if (charge === 'nothing') return billOf(NOTHING, 'upstream', 'upstream', 'upstream');
      const reading = (ctx.state as Reading | undefined) ?? newReading();
      if (reading.unusable) {
        const fields = { request_id: ctx.get('request.id'), upstream: ctx.get('route.upstream') };
        services.log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
      }
      const model = services.models.find(ctx.get('request.model'))!;
      return decide(reading, {
        status: ctx.get('upstream.status'),
        aborted: ctx.get('outcome.aborted') ?? false,
        input_estimate: Math.min(ctx.get('request.input_tokens_estimate'), model.context_window),
        output_max: ctx.get('request.max_tokens') ?? model.max_output_tokens,
        cache_asked: ctx.get('request.cache.ttl') as CacheLifetime,
        relayed_bytes: ctx.relayed_bytes,
      });
    }

    return {
      ...(charge === 'full' && {
        event(ctx: MeterContext, event: ResponseEvent) {
          ctx.state ??= newReading();
          readEvent(ctx.state as Reading, event);
        },
      }),
      finish(ctx) {
        if (!ctx.get('upstream.attempts')) return;
        const bill = billFor(ctx);
        const model = services.models.find(ctx.get('request.model'))!;
        const cost = charge === 'nothing' ? 0 : atMostHeld(ctx, bill, services.models.cost(model, bill.tokens));
        writeFacts(ctx, bill, cost);
        settle(ctx, services, bill, cost);
      },
    };
  },
});
