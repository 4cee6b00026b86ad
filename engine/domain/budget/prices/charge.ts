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
  return { usage, provenance: { ...inputFrom(input, cache), output, cost } };
}

/** Where the numbers of input come from. */
function inputFrom<From extends Provenance>(input: From, cache: From) {
  return { input, cache_read: cache, cache_write_5m: cache, cache_write_1h: cache };
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

/** Kinds of input, the most expensive first as a rule. */
const INPUT_KINDS = ['cache_write_1h', 'cache_write_5m', 'input', 'cache_read'] as const;

/** What was reported, or where that is impossible the most that is possible: what can't be believed in one number is not believed at all. */
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
  const { models, model, others, route } = charging;
  const served: Served = { ...charging.asked, ...reading.served };
  const { server_tools, audio, ...totals } = usage;
  const usageOf = (tokens: TokenCounts): Usage => ({ ...tokens, served, ...(audio && { audio }) });
  const answeringTo = (name: string | undefined) =>
    name === undefined ? undefined : models.answering(name, route.upstream, model.id);
  const answering = answeringTo(reading.model);
  /** Where nobody says which model a run was of, or nobody knows the name, it has the price of the most expensive that it can have been. */
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
  /** Whether a run with audio has no price of it. */
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

/** A run with the model whose price it has. */
interface Priced {
  readonly model: ModelConfig;
  readonly is_aside?: true;
  readonly tokens: TokenCounts;
}

/** Bounds the runs of the model that was asked for together; those of others each by itself, and in their number. */
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
  return { ...inputFrom('unknown', 'unknown'), output: 'unknown', cost };
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
    { usage, impossible, unpriced_serving, unpriced_audio }: Charged,
    price: EffectivePrice,
  ): Readonly<Record<string, Provenance | PriceNote>> => {
    const notes: Record<string, Provenance | PriceNote> = {};
    const [model, upstream] = [ctx.get('request.model'), ctx.get('route.upstream')];
    const fields = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id, upstream };
    if (reading.unusable)
      log.warn(fields, 'the upstream reported usage that cannot be right; it was left out of the bill');
    if (impossible.length > 0) {
      if (impossible.includes('input')) Object.assign(notes, inputFrom('clamped', 'clamped'));
      if (impossible.includes('output')) notes.output = 'clamped';
      notes.cost = 'clamped';
      const what = 'the upstream reported more usage than is possible; the most that is possible was booked';
      log.warn({ ...fields, impossible }, what);
    }
    if (unpriced_serving) {
      notes.price = 'unknown_tier';
      const { service_tier, speed, inference_geo } = reading.served ?? {};
      const how = { model, service_tier, speed, inference_geo };
      tellOnce(how, 'an answer was served in a way that has no price; it was charged at the most expensive there is');
    }
    if (unpriced_audio) {
      notes.price = 'unknown_audio';
      const what =
        'audio was used that has no price of its own (audio_input, audio_output); it was charged at a multiple of the price of text';
      tellOnce({ model }, what);
    }
    if (price.source === 'prices.unknown_model') {
      notes.price = 'unknown_model';
      tellOnce({ model }, 'a model without a price was charged by prices.unknown_model');
    }
    for (const tool of unpricedTools(price, usage)) {
      notes.server_tools = 'unpriced';
      tellOnce({ model, tool }, 'a tool without a price was used; it cost nothing');
    }
    return notes;
  };
}
