import type { ModelConfig } from '../../contract/config.ts';
import { NO_MODEL } from '../../contract/no-model.ts';
import type {
  AudioTokens,
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
} from '../../contract/services.ts';
import type { StageContext } from '../../contract/stage.ts';
import { createOnceLog } from '../../kit/once-log.ts';
import { cacheTokens, partsOf, relayedOutput, sumOf, type UsageReading, type UsedPart } from '../../protocols/usage.ts';

import { type Ending, settleUnknown } from '../ledger/ending.ts';
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

/** What a forwarded request used and where each number came from. */
export interface Bill {
  readonly usage: Usage;
  readonly provenance: Readonly<Record<keyof TokenCounts | 'cost', Provenance>> & {
    readonly server_tools?: Provenance;
  };
  /** Whether nothing was used by the upstream's word, whatever its answer says beside. */
  readonly is_empty?: true;
}

/** How a forwarded request ended, and what is known of it beside its response. */
export interface Circumstances {
  readonly ending: Ending;
  readonly aborted: boolean;
  readonly input_estimate: number;
  readonly output_max: number;
  readonly cache_asked: CacheLifetime;
  readonly relayed_bytes: number;
  /** Tools that cost something when they are used, by name. */
  readonly fees: EffectivePrice['server_tools_pico'];
}

/** The bill of a request that used nothing, by the upstream's word. */
export function emptyBill(): Bill {
  return { ...billOf(NO_TOKENS, 'upstream', 'upstream', 'upstream'), is_empty: true };
}

/** Decides what a forwarded request used. Every number the upstream did not report is an estimate, never nothing. */
export function billFor(reading: UsageReading, { ending, aborted, ...request }: Circumstances): Bill {
  const guess = aborted ? 'abort' : 'estimate';
  if (ending === 'refused') return emptyBill();
  const { reported, seen, complete, deltas } = reading;
  // Nothing that a model said: nothing to charge.
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

/** Deltas that one token can be cut into at most: there are servers that send letter by letter. */
const DELTAS_PER_TOKEN = 20;

/** Whether a final count can be one: every delta was a token, or one before it was; a count from the start need not be final. */
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

/** Input that was not cached; while the upstream has not said how much, what the estimate leaves of it. */
export function inputTokens(
  { input }: UsageReading['reported'],
  { cache_read, cache_write_5m, cache_write_1h }: ReturnType<typeof cacheTokens>,
  estimate: number,
): number {
  return input ?? Math.max(0, estimate - cache_read - cache_write_5m - cache_write_1h);
}

/** Tokens with what of them the upstream counted as audio. Audio has no discount for what is cached. */
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
  return {
    usage,
    provenance: { input, output, cache_read: cache, cache_write_5m: cache, cache_write_1h: cache, cost },
  };
}

/** The most tokens that a request can have used. */
export interface Possible {
  /** What it was found to need before it was forwarded, every run of the model counted. */
  readonly input: number;
  readonly output: number;
  /** What no answer can pass, whatever was asked for: the window of the model for every run. */
  readonly input_limit: number;
  /** How often each model can have been run that the request names beside its own. */
  readonly other_runs: number;
}

/** What was reported, or where that is impossible the most that is possible, and which of the two numbers it was. */
export interface Bounded {
  readonly tokens: TokenCounts;
  readonly impossible: readonly ('input' | 'output')[];
}

/** Where nothing was reserved, nobody has looked at what the request can take. */
const UNBOUNDED: Possible = { input: Infinity, output: Infinity, input_limit: Infinity, other_runs: Infinity };

/** Most bytes of UTF-8 for one of the characters that JavaScript counts. */
const UTF8_PER_CHAR = 3;

/**
 * The most tokens that an answer can have used, from what was found before. Where nothing is hidden from the client, that is
 * no more than the bytes it was sent: no tokenizer makes more tokens of a text.
 */
export function possibleFor(
  most: Possible = UNBOUNDED,
  { context_window, supports }: Pick<ModelConfig, 'context_window' | 'supports'>,
  chars: number,
): Possible {
  const is_open = supports.thinking === 'none' && most.input_limit <= context_window && chars > 0;
  return is_open ? { ...most, output: Math.min(most.output, UTF8_PER_CHAR * chars) } : most;
}

const NOTHING: Bounded['impossible'] = Object.freeze([]);

/** Kinds of input, the most expensive first as a rule. */
const INPUT_KINDS = ['cache_write_1h', 'cache_write_5m', 'input', 'cache_read'] as const;

/** Bounds what an upstream reported by what is possible. What can't be believed in one number is not believed at all. */
function boundUsage(tokens: TokenCounts, { input, output, input_limit }: Omit<Possible, 'other_runs'>): Bounded {
  const all_input = tokens.input + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
  if (all_input <= input_limit && tokens.output <= output) return { tokens, impossible: NOTHING };
  const impossible: ('input' | 'output')[] = [];
  let bounded = tokens;
  if (all_input > input_limit) {
    impossible.push('input');
    bounded = { ...bounded, ...inputUpTo(tokens, input) };
  }
  if (tokens.output > output) {
    impossible.push('output');
    bounded = { ...bounded, output };
  }
  return { tokens: bounded, impossible };
}

function inputUpTo(tokens: TokenCounts, most: number): Pick<TokenCounts, (typeof INPUT_KINDS)[number]> {
  let left = most;
  const counts = INPUT_KINDS.map((kind) => {
    const count = Math.min(tokens[kind], left);
    left -= count;
    return [kind, count] as const;
  });
  return Object.fromEntries(counts) as Pick<TokenCounts, (typeof INPUT_KINDS)[number]>;
}

/** What decides the price of an answer beside what it used. */
export interface Charging {
  readonly models: ModelCatalog;
  /** The model that was asked for, and those that the request may use beside it. */
  readonly model: ModelConfig;
  readonly others: readonly ModelConfig[];
  readonly route: PricedRoute;
  readonly asked: Served;
  readonly cache_asked: CacheLifetime;
  readonly possible: Possible;
}

/** What an answer costs and how that came about. */
export interface Charged {
  /** In nano-USD. */
  readonly cost: number;
  /** All runs together, as far as they are possible. */
  readonly usage: Usage;
  /** `undefined` where it is billed as the model that was asked for, in the ordinary way. */
  readonly billed: Billed | undefined;
  /** What was reported beyond what is possible. */
  readonly impossible: readonly ('input' | 'output')[];
  /** Whether it was served in a way that has no price, so that the most expensive counts. */
  readonly unpriced_serving: boolean;
  readonly unpriced_audio: boolean;
}

/** Prices what an answer used: every run by the model that did it, in the way in which the upstream says that it served it. */
export function chargeFor(reading: UsageReading, { usage }: Bill, charging: Charging): Charged {
  const { models, model, route, asked } = charging;
  const served: Served = { ...asked, ...reading.served };
  const { server_tools, audio, ...totals } = usage;
  const usageOf = (tokens: TokenCounts): Usage => ({ ...tokens, served, ...(audio && { audio }) });
  const answering = reading.model === undefined ? undefined : answeringFor(reading.model, charging);
  const runs = partsOf(reading, totals, charging.cache_asked);
  const parts = (runs ?? [{ tokens: totals }]).map((part) => priced(part, answering, usageOf, charging));
  const bounded = boundParts(parts, answering, charging);
  const used = sumOf(bounded.parts);
  const heard = audio && { input: Math.min(audio.input, used.input), output: Math.min(audio.output, used.output) };
  return {
    cost: costOfParts(
      model.id,
      bounded.parts.map((part) => ({ model: part.model.id, tokens: part.tokens })),
      server_tools,
      (id, tokens) => models.cost(models.find(id)!, { ...tokens, ...usageOf(tokens) }, route),
    ),
    usage: { ...used, ...(server_tools && { server_tools }), ...(heard && { audio: heard }) },
    billed: billedAs(reading, { runs, served, answering, model, parts: bounded.parts, audio: heard }),
    impossible: bounded.impossible,
    unpriced_serving: isUnpriced(parts, served, charging),
    unpriced_audio:
      audio !== undefined && bounded.parts.some((part) => isUnheard(part, usageOf(part.tokens), charging)),
  };
}

/** Where the numbers come from that were reported beyond what is possible. */
export function clampedNumbers(impossible: Charged['impossible']): Readonly<Record<string, Provenance>> {
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

function isUnpriced(parts: readonly Priced[], served: Served, { models, route }: Charging): boolean {
  if (Object.keys(served).length === 0) return false;
  return parts.some((part) => unpricedServing(models.price(part.model, route), served).length > 0);
}

/** Whether a run with audio has no price of it. */
function isUnheard({ model }: Priced, usage: Usage, { models, route }: Charging): boolean {
  const rates = billedRates(models.price(model, route), usage.served ?? {});
  return rates.some((each) => isAudioUnpriced(picoFor(each, usage), usage.audio!));
}

interface Priced {
  readonly model: ModelConfig;
  readonly is_aside?: true;
  readonly tokens: TokenCounts;
}

function answeringFor(name: string, { models, model, route }: Charging): ModelConfig | undefined {
  return models.answering(name, route.upstream, model.id);
}

/**
 * A run with the model whose price it has. Where nobody says which model it was, or nobody knows the name, it has the price
 * of the most expensive that it can have been.
 */
function priced(
  part: UsedPart,
  answering: ModelConfig | undefined,
  usageOf: (tokens: TokenCounts) => Usage,
  charging: Charging,
): Priced {
  const { models, model, others, route } = charging;
  if (part.model === undefined && (answering === undefined || answering === model)) return { ...part, model };
  const named = part.model === undefined ? undefined : answeringFor(part.model, charging);
  const { model: _, ...rest } = part;
  if (named !== undefined) return { ...rest, model: named };
  const candidates = [model, ...(answering ? [answering] : []), ...(part.model === undefined ? [] : others)];
  const cost = (each: ModelConfig) => models.cost(each, usageOf(part.tokens), route);
  const most_expensive = candidates.reduce((most, each) => (cost(each) > cost(most) ? each : most));
  return { ...rest, model: most_expensive };
}

/** Bounds the runs of the model that was asked for together; those of others each by itself, and in their number. */
function boundParts(
  parts: readonly Priced[],
  answering: ModelConfig | undefined,
  { model, others, possible }: Charging,
): { readonly parts: readonly Priced[]; readonly impossible: readonly ('input' | 'output')[] } {
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

function billedAs(
  reading: UsageReading,
  about: {
    readonly runs: readonly UsedPart[] | undefined;
    readonly served: Served;
    readonly answering: ModelConfig | undefined;
    readonly model: ModelConfig;
    readonly parts: readonly Priced[];
    readonly audio: AudioTokens | undefined;
  },
): Billed | undefined {
  const { runs, served, answering, model, parts, audio } = about;
  const billed: Billed = {
    ...notableServing(served),
    ...(audio && { audio }),
    ...(reading.model !== undefined && answering !== model && { model: reading.model }),
    ...(runs !== undefined &&
      parts.length > 1 && { parts: parts.map((part) => ({ model: part.model.id, ...part.tokens })) }),
    ...(runs !== undefined && parts.length === 1 && parts[0]!.model !== model && { model: parts[0]!.model.id }),
  };
  return Object.keys(billed).length === 0 ? undefined : billed;
}

// What requests cost to APIs beside those for models, whose answers need not say what they used.

/** What is known of the cost of such a request, in nano-USD. */
export interface OtherCosts {
  readonly model: string;
  /** What the operator says that one request costs. */
  readonly per_request: number | undefined;
  /** The most it can cost by the price of its model. */
  readonly most: number;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/** A charge of which nobody knows the tokens. */
export interface OtherCharge extends Pick<Outcome, 'provenance' | 'possibly_billed_nano_usd'> {
  readonly usage: TokenCounts;
  readonly cost: number;
}

/** Whether an answer tells what the request used, in tokens that have a price. */
export function tellsUsage(reading: UsageReading, model: string): boolean {
  return model !== NO_MODEL.id && reading.seen;
}

/**
 * The charge of a request whose answer does not tell its usage: what the operator says, else the most its model can cost, else
 * nothing. Tokens are never made up.
 */
export function chargeUnknown(ending: Exclude<Ending, 'refused'>, costs: OtherCosts): OtherCharge {
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
  const unknown = 'unknown';
  return {
    input: unknown,
    output: unknown,
    cache_read: unknown,
    cache_write_5m: unknown,
    cache_write_1h: unknown,
    cost,
  };
}

type OddContext = Pick<StageContext<'request.id' | 'request.model' | 'route.upstream', never, never>, 'get' | 'trace'>;

/**
 * Makes what logs the odd things about a charge and says what its provenance notes of them; what has no price is told once for each
 * model and tool.
 */
export function createOddities(log: Log) {
  const tellOnce = createOnceLog(log);
  return (
    ctx: OddContext,
    reading: UsageReading,
    charged: Charged,
    price: EffectivePrice,
  ): Readonly<Record<string, Provenance | PriceNote>> => {
    const { usage, impossible, unpriced_serving, unpriced_audio } = charged;
    const request = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id };
    const fields = { ...request, upstream: ctx.get('route.upstream') };
    const model = ctx.get('request.model');
    if (reading.unusable)
      log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
    if (impossible.length > 0) {
      const what = 'the upstream reported more usage than is possible; the most that is possible was booked';
      log.warn({ ...fields, impossible }, what);
    }
    if (unpriced_serving) {
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model, service_tier, speed, inference_geo };
      tellOnce(how, 'an answer was served in a way that has no price; it was charged at the most expensive there is');
    }
    if (unpriced_audio) {
      const what =
        'audio was used that has no price of its own (audio_input, audio_output); it was charged at a multiple of the price of text';
      tellOnce({ model }, what);
    }
    const unknown_model = price.source === 'prices.unknown_model';
    if (unknown_model) tellOnce({ model }, 'a model without a price was charged by prices.unknown_model');
    const unpriced = usage.server_tools === undefined ? [] : unpricedTools(price, usage);
    for (const tool of unpriced) tellOnce({ model, tool }, 'a tool without a price was used; it cost nothing');
    return {
      ...clampedNumbers(impossible),
      ...(unpriced_serving && { price: 'unknown_tier' as const }),
      ...(unpriced_audio && { price: 'unknown_audio' as const }),
      ...(unknown_model && { price: 'unknown_model' as const }),
      ...(unpriced.length > 0 && { server_tools: 'unpriced' as const }),
    };
  };
}
