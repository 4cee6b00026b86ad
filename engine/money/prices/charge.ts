import type { ModelConfig } from '../../contract/config.ts';
import type {
  AudioTokens,
  Billed,
  CacheLifetime,
  ModelCatalog,
  PricedRoute,
  Provenance,
  Served,
  TokenCounts,
  Usage,
} from '../../contract/services.ts';
import { partsOf, sumOf, type UsedPart } from '../../protocols/usage/parts.ts';
import type { UsageReading } from '../../protocols/usage/reading.ts';
import { isAudioUnpriced } from './audio.ts';
import type { Bill } from './bill.ts';
import { boundUsage, type Possible } from './possible.ts';
import { costOfParts, picoFor } from './prices.ts';
import { billedRates, notableServing, unpricedServing } from './served-prices.ts';

/** What decides the price of an answer beside what it used. */
export interface Charging {
  readonly models: ModelCatalog;
  /** The model that was asked for, and those that the request may use beside it. */
  readonly model: ModelConfig;
  readonly others: readonly ModelConfig[];
  readonly route: PricedRoute;
  /** How the request asked to be served. */
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
  /** Whether it has audio without a price of its own. */
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
