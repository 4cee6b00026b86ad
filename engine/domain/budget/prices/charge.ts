import type { ModelConfig } from '../../../base/contract/config.ts';
import { NO_MODEL } from '../../../base/contract/no-model.ts';
import type {
  Billed,
  CacheLifetime,
  EffectivePrice,
  Log,
  ModelCatalog,
  Outcome,
  PricedRoute,
  PriceNote,
  Provenance,
  Served,
  TokenCounts,
  Usage,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { createOnceLog } from '../../../base/kit/once-log.ts';
import { cacheTokens, partsOf, relayedOutput, sumOf, type UsageReading, type UsedPart } from '../../protocols/index.ts';
import {
  billedRates,
  costOfParts,
  isAudioUnpriced,
  NO_TOKENS,
  notableServing,
  picoFor,
  unpricedServing,
  unpricedTools,
} from './prices.ts';

/**
 * How well the bill of a forwarded request is known. `known`: reported by the response. `refused`: the upstream rejected the
 * request and bills nothing. `unmeasured`: incomplete, because the client disconnected or the response could not be read.
 * `failed`: incomplete or unknown, because the upstream or the gateway failed.
 */
export type BillEnding = 'known' | 'refused' | 'unmeasured' | 'failed';

interface Bill {
  readonly usage: Usage;
  readonly provenance: Readonly<Record<keyof TokenCounts | 'cost', Provenance>> & {
    readonly server_tools?: Provenance;
  };
  readonly is_empty?: true;
}

/** The end of a forwarded request, with what is known beside its response. */
export interface Circumstances {
  readonly ending: BillEnding;
  readonly aborted: boolean;
  readonly input_estimate: number;
  readonly output_max: number;
  readonly cache_asked: CacheLifetime;
  readonly relayed_bytes: number;
  readonly fees: EffectivePrice['server_tools_pico'];
}

/** The bill of a request that the upstream reports as free. */
export function emptyBill(): Bill {
  return { ...billOf(NO_TOKENS, 'upstream', 'upstream', 'upstream'), is_empty: true };
}

/** Determines the usage of a forwarded request. A number that the upstream did not report is estimated, never 0. */
export function billFor(reading: UsageReading, { ending, aborted, ...request }: Circumstances): Bill {
  const guess = aborted ? 'abort' : 'estimate';
  if (ending === 'refused') return emptyBill();
  const { reported, seen, complete, deltas } = reading;
  // Without output of a model there is no charge.
  if (ending === 'failed' && !seen && deltas === 0)
    return { ...billOf(NO_TOKENS, 'estimate', 'estimate', 'estimate'), is_empty: true };

  const cache = cacheTokens(reported, request.cache_asked);
  const input = inputTokens(reported, cache, request.input_estimate);
  const final = complete && reported.output !== undefined && isCredible(reading);
  const output = final
    ? reported.output!
    : Math.max(reported.output ?? 0, Math.min(request.output_max, relayedOutput(reading, request.relayed_bytes)));
  const bill = billOf(
    withAudio({ input, output, ...cache }, reported),
    reported.input === undefined ? guess : 'upstream',
    final ? 'upstream' : guess,
    seen ? 'upstream' : guess,
  );
  const server_tools = toolsUsed(reading, final, request.fees);
  if (server_tools === undefined) return bill;
  return {
    usage: { ...bill.usage, server_tools },
    provenance: { ...bill.provenance, server_tools: final ? 'upstream' : guess },
  };
}

/** Most deltas per token: some servers send letter by letter. */
const DELTAS_PER_TOKEN = 20;

/** Whether a final count is plausible given the deltas; a count from the start of the stream need not be final. */
function isCredible({ reported, counted, deltas }: UsageReading): boolean {
  const { output = 0 } = reported;
  return output >= deltas || (counted && output * DELTAS_PER_TOKEN >= deltas);
}

/**
 * Uses of tools by name; `undefined` without any. Before the final count, uses that began count as well where they cost
 * something.
 */
export function toolsUsed(
  { server_tools: reported, tools_begun: begun }: UsageReading,
  final: boolean,
  fees: EffectivePrice['server_tools_pico'],
): Record<string, number> | undefined {
  if (reported === undefined && (final || begun === undefined)) return undefined;
  const used: Record<string, number> = {};
  for (const tool in reported) if (reported[tool]! > 0) used[tool] = reported[tool]!;
  if (!final) {
    for (const tool in begun) if (tool in fees) used[tool] = Math.max(reported?.[tool] ?? 0, begun[tool]!);
  }
  return Object.keys(used).length === 0 ? undefined : used;
}

/** Uncached input; without a report of the upstream the rest of the estimate. */
export function inputTokens(
  { input }: UsageReading['reported'],
  { cache_read, cache_write_5m, cache_write_1h }: ReturnType<typeof cacheTokens>,
  estimate: number,
): number {
  return input ?? Math.max(0, estimate - cache_read - cache_write_5m - cache_write_1h);
}

/** Tokens with their audio part. Cached audio has no discount. */
export function withAudio(tokens: TokenCounts, reported: UsageReading['reported']): Usage {
  const { audio_input = 0, audio_output = 0 } = reported;
  if (audio_input === 0 && audio_output === 0) return tokens;
  const heard = Math.min(audio_input, tokens.input + tokens.cache_read);
  const input = Math.max(tokens.input, heard);
  return {
    ...tokens,
    input,
    cache_read: tokens.cache_read - (input - tokens.input),
    audio: { input: heard, output: Math.min(audio_output, tokens.output) },
  };
}

function billOf(usage: Usage, input: Provenance, output: Provenance, cache: Provenance): Bill {
  const all = [input, output, cache];
  const cost = all.includes('abort') ? 'abort' : all.includes('estimate') ? 'estimate' : 'upstream';
  return { usage, provenance: { ...inputFrom(input, cache), output, cost } };
}

/** The provenance of input, and of its cached kinds. */
export function inputFrom<From extends Provenance>(input: From, cache: From) {
  return { input, cache_read: cache, cache_write_5m: cache, cache_write_1h: cache };
}

/** Upper bounds of the tokens that a request used. */
export interface Possible {
  /** Bound from before forwarding, all runs included. */
  readonly input: number;
  readonly output: number;
  /** Absolute bound: the context window for each run. */
  readonly input_limit: number;
  /** Most runs of each other model that the request names. */
  readonly other_runs: number;
}

const UNBOUNDED: Possible = { input: Infinity, output: Infinity, input_limit: Infinity, other_runs: Infinity };

const UTF8_PER_CHAR = 3;

/**
 * Upper bounds of the tokens of a response. Where the client sees all output, they are at most the bytes sent: no tokenizer makes
 * more tokens than bytes.
 */
export function possibleFor(
  most: Possible = UNBOUNDED,
  { context_window, supports }: Pick<ModelConfig, 'context_window' | 'supports'>,
  chars: number,
): Possible {
  const is_open = supports.thinking === 'none' && most.input_limit <= context_window && chars > 0;
  return is_open ? { ...most, output: Math.min(most.output, UTF8_PER_CHAR * chars) } : most;
}

/** Kinds of input, the most expensive first as a rule. */
const INPUT_KINDS = ['cache_write_1h', 'cache_write_5m', 'input', 'cache_read'] as const;

/** Clamps reported counts to what is possible. If one number is impossible, none of its kind is trusted. */
function boundUsage(
  tokens: TokenCounts,
  { input, output, input_limit }: Omit<Possible, 'other_runs'>,
): Pick<Charged, 'impossible'> & { readonly tokens: TokenCounts } {
  const is_beyond = INPUT_KINDS.reduce((sum, kind) => sum + tokens[kind], 0) > input_limit;
  const bounded: Record<keyof TokenCounts, number> = { ...tokens, output: Math.min(tokens.output, output) };
  let left = is_beyond ? input : Infinity;
  for (const kind of INPUT_KINDS) left -= bounded[kind] = Math.min(tokens[kind], left);
  return {
    tokens: bounded,
    impossible: [...(is_beyond ? (['input'] as const) : []), ...(tokens.output > output ? (['output'] as const) : [])],
  };
}

interface Charging {
  readonly models: ModelCatalog;
  /** The requested model, and others that the request may use. */
  readonly model: ModelConfig;
  readonly others: readonly ModelConfig[];
  readonly route: PricedRoute;
  readonly asked: Served;
  readonly cache_asked: CacheLifetime;
  readonly possible: Possible;
}

/** The charge of a response. */
export interface Charged {
  readonly cost: number;
  readonly usage: Usage;
  /** `undefined` for the requested model at its ordinary price. */
  readonly billed: Billed | undefined;
  readonly impossible: readonly ('input' | 'output')[];
  /** Whether it was served in an unpriced way, so that the most expensive price applies. */
  readonly unpriced_serving: boolean;
  readonly unpriced_audio: boolean;
}

/** Prices the usage of a response: each run by its model, and by the tier, speed and region that the upstream reports. */
export function chargeFor(reading: UsageReading, { usage }: Bill, charging: Charging): Charged {
  const { models, model, others, route } = charging;
  const served: Served = { ...charging.asked, ...reading.served };
  const { server_tools, audio, ...totals } = usage;
  const usageOf = (tokens: TokenCounts): Usage => ({ ...tokens, served, ...(audio && { audio }) });
  const answeringTo = (name: string | undefined) =>
    name === undefined ? undefined : models.answering(name, route.upstream, model.id);
  const answering = answeringTo(reading.model);
  /** A run of an unknown model has the most expensive possible price. */
  const modelOf = ({ model: name, tokens }: UsedPart): ModelConfig => {
    const named = answeringTo(name);
    if (named !== undefined) return named;
    const candidates = new Set([model, answering ?? model, ...(name === undefined ? [] : others)]);
    if (candidates.size === 1) return model;
    const cost = (each: ModelConfig) => models.cost(each, usageOf(tokens), route);
    return [...candidates].reduce((most, each) => (cost(each) > cost(most) ? each : most));
  };
  const runs = partsOf(reading, totals, charging.cache_asked);
  const priced = (runs ?? [{ tokens: totals }]).map((part): Priced => ({ ...part, model: modelOf(part) }));
  const { parts, impossible } = boundParts(priced, answering, charging);
  const used = sumOf(parts);
  const heard = audio && { input: Math.min(audio.input, used.input), output: Math.min(audio.output, used.output) };
  const billed: Billed = {
    ...notableServing(served),
    ...(heard && { audio: heard }),
    ...(reading.model !== undefined && answering !== model && { model: reading.model }),
    ...(parts.length > 1 && { parts: parts.map((part) => ({ model: part.model.id, ...part.tokens })) }),
    ...(runs !== undefined && parts.length === 1 && parts[0]!.model !== model && { model: parts[0]!.model.id }),
  };
  const isUnheard = (part: Priced) =>
    billedRates(models.price(part.model, route), served).some((rates) =>
      isAudioUnpriced(picoFor(rates, part.tokens), audio!),
    );
  return {
    cost: costOfParts(
      model.id,
      parts.map((part) => ({ model: part.model.id, tokens: part.tokens })),
      server_tools,
      (id, tokens) => models.cost(models.find(id)!, { ...tokens, ...usageOf(tokens) }, route),
    ),
    usage: { ...used, ...(server_tools && { server_tools }), ...(heard && { audio: heard }) },
    billed: Object.keys(billed).length === 0 ? undefined : billed,
    impossible,
    unpriced_serving: priced.some((part) => unpricedServing(models.price(part.model, route), served).length > 0),
    unpriced_audio: audio !== undefined && parts.some(isUnheard),
  };
}

interface Priced {
  readonly model: ModelConfig;
  readonly is_aside?: true;
  readonly tokens: TokenCounts;
}

/** Clamps the runs of the requested model together, and runs of other models each by itself and in number. */
function boundParts(
  parts: readonly Priced[],
  answering: ModelConfig | undefined,
  { model, others, possible }: Charging,
): Pick<Charged, 'impossible'> & { readonly parts: readonly Priced[] } {
  const isAnswering = (id: ModelConfig) => id === model || (id === answering && !others.includes(id));
  const isOwn = (part: Priced) => part.is_aside !== true && isAnswering(part.model);
  const own = parts.filter(isOwn);
  const window = Math.max(1, (answering?.context_window ?? 0) / model.context_window);
  const whole = boundUsage(sumOf(own), { ...possible, input_limit: possible.input_limit * window });
  const impossible = new Set(whole.impossible);
  const runs = Math.max(1, possible.other_runs);
  const asides = parts.filter((part) => !isOwn(part));
  const most_asides = runs * Math.max(1, others.length);
  if (asides.length > most_asides) impossible.add('input');
  const bounded = asides.slice(0, most_asides).map((part) => {
    const { context_window, max_output_tokens } = part.model;
    const times = part.is_aside === true ? 1 : runs;
    const output = Math.max(context_window, max_output_tokens) * times;
    const input = context_window * times;
    const { tokens, impossible: beyond } = boundUsage(part.tokens, { input, output, input_limit: input });
    for (const kind of beyond) impossible.add(kind);
    return { ...part, tokens };
  });
  const kept = whole.impossible.length === 0 ? own : [{ model: own[0]!.model, tokens: whole.tokens }];
  return { parts: [...kept, ...bounded], impossible: [...impossible] };
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
export function settleUnknown(ending: 'unmeasured' | 'failed', bounds: CostBounds): Settled {
  const { most, usual, counts_possible } = bounds;
  const known = Math.min(bounds.known, most);
  const likely = Math.max(known, Math.min(usual ?? most, most));
  if (ending === 'unmeasured') {
    const by = likely === known ? undefined : usual === undefined || usual >= most ? 'most' : 'learned';
    return { cost_nano_usd: likely, possibly_billed_nano_usd: 0, by };
  }
  const possibly_billed_nano_usd = likely - known;
  if (!counts_possible || possibly_billed_nano_usd === 0)
    return { cost_nano_usd: known, possibly_billed_nano_usd, by: undefined };
  return { cost_nano_usd: likely, possibly_billed_nano_usd, by: 'possible' };
}

// Requests to other APIs than those for models: their responses need not report usage.

export interface OtherCosts {
  readonly model: string;
  readonly per_request: number | undefined;
  readonly most: number;
  /** Whether possibly billed amounts count against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/** Whether a response reports usage in tokens with a price. */
export function reportsUsage(reading: UsageReading, model: string): boolean {
  return model !== NO_MODEL.id && reading.seen;
}

/**
 * The charge of a response without reported usage: the configured price, else the highest cost of its model, else 0. Tokens are
 * never invented.
 */
export function chargeUnknown(ending: Exclude<BillEnding, 'refused'>, costs: OtherCosts) {
  const { model, per_request, most, counts_possible } = costs;
  const [amount, by] =
    per_request !== undefined
      ? ([per_request, 'per_request'] as const)
      : model === NO_MODEL.id
        ? ([0, 'unknown'] as const)
        : ([most, 'most'] as const);
  if (ending !== 'failed') return { usage: NO_TOKENS, provenance: unknownBy(by), cost: amount };
  const bounds = { known: 0, most: amount, usual: undefined, counts_possible };
  const { cost_nano_usd, possibly_billed_nano_usd, by: found } = settleUnknown('failed', bounds);
  return { usage: NO_TOKENS, provenance: unknownBy(found ?? 'unknown'), cost: cost_nano_usd, possibly_billed_nano_usd };
}

function unknownBy(cost: Outcome['provenance'][string]): Outcome['provenance'] {
  return { ...inputFrom('unknown', 'unknown'), output: 'unknown', cost };
}

type AnomalyContext = Pick<
  StageContext<'request.id' | 'request.model' | 'route.upstream', never, never>,
  'get' | 'trace'
>;

/**
 * Creates the function that logs usage anomalies of a charge, and returns their notes for its provenance. Missing prices are logged
 * once per model and tool.
 */
export function createUsageAnomalies(log: Log) {
  const logOnce = createOnceLog(log);
  return (
    ctx: AnomalyContext,
    reading: UsageReading,
    { usage, impossible, unpriced_serving, unpriced_audio }: Charged,
    price: EffectivePrice,
  ): Readonly<Record<string, Provenance | PriceNote>> => {
    const notes: Record<string, Provenance | PriceNote> = {};
    const [model, upstream] = [ctx.get('request.model'), ctx.get('route.upstream')];
    const fields = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id, upstream };
    if (reading.unusable) log.warn(fields, 'ignored impossible usage that the upstream reported');
    if (impossible.length > 0) {
      if (impossible.includes('input')) Object.assign(notes, inputFrom('clamped', 'clamped'));
      if (impossible.includes('output')) notes.output = 'clamped';
      notes.cost = 'clamped';
      const what = 'the upstream reported more usage than possible; booked the possible maximum';
      log.warn({ ...fields, impossible }, what);
    }
    if (unpriced_serving) {
      notes.price = 'unknown_tier';
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model, service_tier, speed, inference_geo };
      logOnce(how, 'the response was served in an unpriced way; charged at the most expensive price');
    }
    if (unpriced_audio) {
      notes.price = 'unknown_audio';
      const what = 'audio has no price (audio_input, audio_output); charged at a multiple of the price of text';
      logOnce({ model }, what);
    }
    if (price.source === 'prices.unknown_model') {
      notes.price = 'unknown_model';
      logOnce({ model }, 'the model has no price; charged by prices.unknown_model');
    }
    for (const tool of unpricedTools(price, usage)) {
      notes.server_tools = 'unpriced';
      logOnce({ model, tool }, 'the tool has no price; charged nothing');
    }
    return notes;
  };
}
