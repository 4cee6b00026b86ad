import { type CacheLifetime, SERVED_FIELDS, type Served, type TokenCounts } from '../../base/contract/services.ts';
import type { ResponseConverter, ResponseEvent } from '../../base/contract/stage.ts';
import { outlineOf } from '../../base/kit/json/outline.ts';
import { WholeEvents } from '../../base/kit/net/whole-events.ts';
import { TOOL_USES_MAX } from './body/fields.ts';
import { jsonIn, present } from './read-json.ts';
import type { Json, ModelUsage } from './translation/conversation.ts';

export interface UsageReport {
  readonly counts: ModelUsage;
  readonly unusable: boolean;
}

interface Iteration {
  /** `message`, `compaction`, `advisor_message`, `fallback_message`, or another name of the upstream. */
  readonly type: string;
  readonly model?: string;
  readonly reported: ModelUsage;
}

/** Reads one event or document of the upstream. Ignores malformed ones. */
export type UsageReader = (reading: UsageReading, event: ResponseEvent) => void;

/** Gives a reader the outline of an event that is too large to parse. */
export function ofOutline(read: UsageReader): UsageReader {
  return (reading, event) => {
    const { name, large } = event;
    read(reading, large === undefined ? event : { name, data: large.outline });
  };
}

/** No response uses more tokens; a larger number is an error, and its price would exceed exact integers. */
const TOKENS_MAX = 100_000_000;

const TOOLS_MAX = 32;

/** Characters of JSON text per output token, for estimates without a count of the upstream. */
const CHARS_PER_TOKEN = 4;

/** Texts up to this length are parsed completely. */
const SMALL_CHARS_MAX = 65_536;

/** Data kept of one response: counts, and names of tools, models and tiers, never text. Initially before its first byte. */
export function newUsageReading() {
  return {
    reported: {} as ModelUsage,
    /** Service tier, speed and region as the upstream reports them. */
    served: undefined as Served | undefined,
    model: undefined as string | undefined,
    iterations: undefined as readonly Iteration[] | undefined,
    /** Reported uses of the upstream's tools, by name; `undefined` until the upstream reports them. */
    server_tools: undefined as Record<string, number> | undefined,
    tools_begun: undefined as Record<string, number> | undefined,
    seen: false,
    /** Whether the upstream reported the end of its output. */
    complete: false,
    /** Whether output was counted after its start; an earlier count may be only the initial one. */
    counted: false,
    /** Whether the upstream reported an error inside a successful response. */
    failed: false,
    unusable: false,
    streamed: false,
    deltas: 0,
    delta_chars: 0,
    /** Characters of all events, or of the document. */
    chars: 0,
  };
}

/** Data kept of one response: counts, and names of tools, models and tiers, never text. */
export type UsageReading = ReturnType<typeof newUsageReading>;

/** Estimates the relayed output tokens by size: every delta is at least one token. */
export function relayedOutput(reading: UsageReading, relayed_bytes: number): number {
  if (!reading.streamed) return Math.ceil(relayed_bytes / CHARS_PER_TOKEN);
  return Math.max(reading.deltas, Math.ceil(reading.delta_chars / CHARS_PER_TOKEN));
}

export function countTool(reading: UsageReading, tool: string): void {
  reading.tools_begun ??= Object.create(null) as Record<string, number>;
  if (!hasRoomFor(reading.tools_begun, tool)) return;
  reading.tools_begun[tool] = Math.min(TOOL_USES_MAX, (reading.tools_begun[tool] ?? 0) + 1);
}

export function hasRoomFor(tools: Record<string, number>, tool: string): boolean {
  return tool in tools || Object.keys(tools).length < TOOLS_MAX;
}

/** Whether a reported number can be a count. */
export function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

/** Finds the highest usable count among several names in several objects, and records impossible counts. */
export class CountFinder {
  unusable = false;

  highest(places: readonly Json[], names: readonly string[]): number | undefined {
    let count: number | undefined;
    for (const place of places) {
      for (const name of names) {
        const found = place[name];
        if (isCount(found, TOKENS_MAX)) count = Math.max(count ?? 0, found);
        else if (found !== undefined && found !== null) this.unusable = true;
      }
    }
    return count;
  }
}

/** A report of the counts found; `undefined` without any. */
export function reportOf(
  counts: Readonly<Partial<Record<keyof ModelUsage, number | undefined>>>,
  unusable: boolean,
): UsageReport | undefined {
  const found: ModelUsage = present(counts);
  return Object.keys(found).length === 0 && !unusable ? undefined : { counts: found, unusable };
}

export function highestOf(before: ModelUsage, now: ModelUsage): ModelUsage {
  const highest: Partial<Record<keyof ModelUsage, number>> = { ...before };
  for (const field in now) {
    const count = now[field as keyof ModelUsage]!;
    if (!(highest[field as keyof ModelUsage]! >= count)) highest[field as keyof ModelUsage] = count;
  }
  return highest;
}

/** The counts of a response for its bill; `undefined` where the upstream has reported none. */
export function usageIn({ reported }: UsageReading): ModelUsage | undefined {
  return Object.keys(reported).length === 0 ? undefined : reported;
}

export function asObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null ? (value as Json) : undefined;
}

/** The object in a JSON text, as an outline if the text is long; `undefined` if there is none. */
export function parseObject(text: string): Json | undefined {
  const shown = text.length > SMALL_CHARS_MAX ? outlineOf(text) : text;
  return shown === undefined ? undefined : asObject(jsonIn(shown));
}

const MODEL_NAME = /^[\w.:@/+-]{1,200}$/;

const SERVED_NAME = /^[a-z][a-z0-9_-]{0,31}$/;

function modelName(value: unknown): string | undefined {
  return typeof value === 'string' && MODEL_NAME.test(value) ? value : undefined;
}

export function noteModel(reading: UsageReading, value: unknown): void {
  const name = modelName(value);
  if (name !== undefined) reading.model = name;
}

/** Records service tier, speed and region; the last valid value counts, until the response is complete. */
export function noteServed(reading: UsageReading, said: Json): void {
  for (const field of SERVED_FIELDS) {
    const name = said[field];
    if (name === undefined || name === null) continue;
    if (reading.complete && reading.served?.[field] !== undefined) continue;
    const plain = typeof name === 'string' ? name.toLowerCase() : '';
    // An invalid name stays unknown, which is billed at the highest price.
    reading.served = { ...reading.served, [field]: SERVED_NAME.test(plain) ? plain : 'unreadable' };
  }
}

/** Records model and tier: some upstreams report the tier beside the usage, others in it. */
export function noteAnswer(reading: UsageReading, { model, usage, service_tier }: Json): void {
  noteModel(reading, model);
  noteServed(reading, { ...asObject(usage), ...(service_tier != null && { service_tier }) });
}

const ITERATIONS_MAX = 128;

const TYPE_MAX = 64;

/**
 * Reads `usage.iterations` of the Messages protocol: usage of each run. A later list replaces an earlier one, because it repeats
 * the runs.
 * @param readCounts the reader of the protocol's `usage` objects, which have the same counts as a run.
 */
export function readIterations(
  reading: UsageReading,
  value: unknown,
  readCounts: (run: Json) => UsageReport | undefined,
): void {
  if (value === undefined || value === null) return;
  if (!Array.isArray(value)) {
    reading.unusable = true;
    return;
  }
  const iterations: Iteration[] = [];
  for (const item of value) {
    const run = asObject(item);
    if (run === undefined) reading.unusable = true;
    else keep(iterations, readIteration(reading, run, readCounts(run)));
  }
  // After the end of the response, no run is removed.
  if (reading.complete && tokensOf(iterations) < tokensOf(reading.iterations ?? [])) return;
  reading.iterations = iterations.length === 0 ? undefined : iterations;
}

function tokensOf(iterations: readonly Iteration[]): number {
  const counts = iterations.flatMap(({ reported }) => Object.values(reported));
  return counts.reduce((sum, count) => sum + count, 0);
}

function readIteration(reading: UsageReading, run: Json, report: UsageReport | undefined): Iteration {
  reading.unusable ||= report?.unusable === true;
  const model = modelName(run.model);
  const type = typeof run.type === 'string' ? run.type.slice(0, TYPE_MAX) : '';
  return { type, reported: report?.counts ?? {}, ...(model !== undefined && { model }) };
}

function keep(iterations: Iteration[], run: Iteration): void {
  const same =
    iterations.length < ITERATIONS_MAX
      ? -1
      : iterations.findLastIndex(({ type, model }) => type === run.type && model === run.model);
  if (same < 0) {
    // Beyond the bound, each new type and model is kept once.
    if (iterations.length < 2 * ITERATIONS_MAX) iterations.push(run);
    return;
  }
  const before = iterations[same]!;
  const reported: Partial<Record<keyof ModelUsage, number>> = { ...before.reported };
  for (const name in run.reported) {
    const field = name as keyof ModelUsage;
    reported[field] = Math.min((reported[field] ?? 0) + run.reported[field]!, TOKENS_MAX);
  }
  iterations[same] = { ...before, reported };
}

const QUOTE = '"';
const BACKSLASH = 92;

/** Counts texts in JSON as output, at least one token each; `pattern` matches up to the opening quote. */
export function countTexts(
  reading: UsageReading,
  json: string,
  pattern: RegExp,
  from: number,
  most = Infinity,
  to = Infinity,
): void {
  pattern.lastIndex = from;
  for (let count = 0; count < most && pattern.test(json) && pattern.lastIndex < to; count++) {
    reading.deltas++;
    reading.delta_chars += textLength(json, pattern.lastIndex);
  }
}

function textLength(json: string, start: number): number {
  let end = json.indexOf(QUOTE, start);
  while (end >= 0 && isEscaped(json, start, end)) end = json.indexOf(QUOTE, end + 1);
  return (end < 0 ? json.length : end) - start;
}

function isEscaped(json: string, start: number, at: number): boolean {
  let backslashes = 0;
  while (at - backslashes > start && json.charCodeAt(at - backslashes - 1) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}

/** What servers call the counts of a `usage` object. Where several names of one count are there, the highest counts. */
const NAMES = {
  input: ['prompt_tokens', 'input_tokens'],
  output: ['completion_tokens', 'output_tokens'],
  input_details: ['prompt_tokens_details', 'input_tokens_details', 'input_token_details'],
  output_details: ['completion_tokens_details', 'output_tokens_details', 'output_token_details'],
  // In the details: OpenAI, Azure, vLLM, SGLang, xAI, Qwen; at the top: Moonshot, Together; then DeepSeek; then LiteLLM, Databricks;
  // then Mistral; then xAI.
  cache_read: [
    ...['cached_tokens', 'prompt_cache_hit_tokens', 'cache_read_input_tokens'],
    ...['num_cached_tokens', 'cached_prompt_text_tokens'],
  ],
  // OpenAI, OpenRouter; LiteLLM; Qwen in the details, LiteLLM, Databricks, Portkey at the top; new-api; Requesty.
  cache_write: [
    ...['cache_write_tokens', 'cache_creation_tokens', 'cache_creation_input_tokens'],
    ...['cached_creation_tokens', 'caching_tokens'],
  ],
  cache_split: ['cache_write_tokens_details', 'cache_creation_token_details', 'cache_creation'],
  cache_write_5m: ['ttl_30m_tokens', 'ephemeral_5m_input_tokens'],
  cache_write_1h: ['ttl_12h_tokens', 'ephemeral_1h_input_tokens'],
  // SGLang and Perplexity have them at the top.
  reasoning: ['reasoning_tokens'],
  audio: ['audio_tokens'],
  total: ['total_tokens'],
} as const;

/** Names of the Messages protocol, whose input excludes cached tokens, and of a proxy that counts alike (new-api). */
const BESIDE_INPUT = ['cache_read_input_tokens', 'cache_creation_input_tokens', 'cached_creation_tokens'] as const;

/** Reads the `usage` of compat APIs. Servers differ in what input and output include: the total decides. */
export function readTotals(value: unknown): UsageReport | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const finder = new CountFinder();
  const input_details = objectsUnder([usage], NAMES.input_details);
  const output_details = objectsUnder([usage], NAMES.output_details);
  const inputs = [usage, ...input_details];
  const splits = objectsUnder(inputs, NAMES.cache_split);
  const cache: ModelUsage = present({
    cache_read: finder.highest(inputs, NAMES.cache_read),
    cache_write: finder.highest(inputs, NAMES.cache_write),
    cache_write_5m: finder.highest(splits, NAMES.cache_write_5m),
    cache_write_1h: finder.highest(splits, NAMES.cache_write_1h),
  });
  const reported = {
    input: finder.highest([usage], NAMES.input),
    output: finder.highest([usage], NAMES.output),
    total: finder.highest([usage], NAMES.total),
    read: cache.cache_read,
    reasoning: finder.highest([usage, ...output_details], NAMES.reasoning),
    audio: finder.highest(input_details, NAMES.audio),
  };
  const cached = (cache.cache_read ?? 0) + cacheWritten(cache);
  const { input, output, audio } = completed(inputs, reported, cached);
  // Cached tokens cannot exceed the input; ignoring them never lowers the cost.
  const is_part = input === undefined || cached <= input;
  finder.unusable ||= !is_part;
  const counts = {
    input: input && input - (is_part ? cached : 0),
    ...(is_part && cache),
    audio_input: audio,
    output,
    reasoning: reported.reasoning,
    audio_output: finder.highest(output_details, NAMES.audio),
  };
  return reportOf(counts, finder.unusable);
}

type Reported = Readonly<Record<'input' | 'output' | 'total' | 'read' | 'reasoning' | 'audio', number | undefined>>;

/** All input and output: what the total has beyond the two belongs to one of them, and so does what it has beyond one alone. */
function completed(
  inputs: readonly Json[],
  reported: Reported,
  cached: number,
): Pick<Reported, 'input' | 'output' | 'audio'> {
  const { input, output, total, read, reasoning, audio } = reported;
  if (input === undefined || output === undefined) {
    const known = input ?? output;
    const rest = total === undefined || known === undefined || total <= known ? undefined : total - known;
    return { input: input ?? rest, output: output ?? rest, audio };
  }
  const rest = total === undefined ? 0 : total - input - output;
  if (rest <= 0) return { input: isBeside(inputs, input, cached, total) ? input + cached : input, output, audio };
  // Portkey and others report cached tokens beside the input, all or some of them.
  const is_cached = rest !== reasoning && [cached, read, cached - (read ?? 0)].includes(rest);
  if (is_cached) return { input: input + rest, output, audio };
  // Mistral reports the tokens of a recording only in the total.
  if (inputs[0]!.prompt_audio_seconds) return { input: input + rest, output, audio: (audio ?? 0) + rest };
  // Gemini and xAI report reasoning only in the total.
  return { input, output: output + rest, audio };
}

/** Whether cached tokens are beside the input, for usage without a total: if all names are those of the Messages protocol. */
function isBeside(inputs: readonly Json[], input: number, cached: number, total: number | undefined): boolean {
  if (!inputs.some((place) => BESIDE_INPUT.some((name) => isCount(place[name], TOKENS_MAX)))) return false;
  const usage = inputs[0]!;
  return cached > input || (total === undefined && usage.prompt_tokens == null && usage.input_tokens_details == null);
}

export function objectsUnder(places: readonly Json[], names: readonly string[]): Json[] {
  return places.flatMap((place) => names.map((name) => asObject(place[name])).filter((value) => value !== undefined));
}

const OUTPUT_FIELDS: ReadonlySet<string> = new Set<keyof ModelUsage>(['output', 'reasoning', 'audio_output']);

/** Merges a report: input or output replace that part; after the end smaller ones are ignored. */
function overlayTotals(before: ModelUsage, now: ModelUsage, is_complete: boolean): ModelUsage {
  const isKept = (now_has: number | undefined, had: number) =>
    now_has === undefined || (now_has < had && (is_complete || now_has === 0));
  const input = now.input === undefined ? undefined : inputIn(now);
  const keeps_input = isKept(input, inputIn(before));
  const keeps_output = isKept(now.output, before.output ?? 0);
  const keeps = (field: string) => (OUTPUT_FIELDS.has(field) ? keeps_output : keeps_input);
  return Object.fromEntries([
    ...Object.entries(before).filter(([field]) => keeps(field)),
    ...Object.entries(now).filter(([field]) => !keeps(field) || !(field in before)),
  ]);
}

export function takeTotals(reading: UsageReading, { counts, unusable }: UsageReport): void {
  reading.seen = true;
  reading.unusable ||= unusable;
  reading.reported = overlayTotals(reading.reported, counts, reading.complete);
}

function inputIn(usage: ModelUsage): number {
  return (usage.input ?? 0) + (usage.cache_read ?? 0) + cacheWritten(usage);
}

/** All tokens written to the cache, at least the sum of the parts by lifetime, as providers bill them. */
export function cacheWritten({ cache_write = 0, cache_write_5m = 0, cache_write_1h = 0 }: ModelUsage): number {
  return Math.max(cache_write, cache_write_5m + cache_write_1h);
}

/** Names of input and output in a `usage` object whose input includes cached tokens: those of each compat protocol. */
export const CHAT_TOTALS = ['prompt_tokens', 'completion_tokens'] as const;
export const RESPONSES_TOTALS = ['input_tokens', 'output_tokens'] as const;

/** Writes such a `usage` object; `undefined` where input or output is unknown. */
export function writeTotals(
  usage: ModelUsage,
  [input_name, output_name]: typeof CHAT_TOTALS | typeof RESPONSES_TOTALS,
): Json | undefined {
  const { input: uncached, output, cache_read = 0, reasoning = 0, audio_input, audio_output } = usage;
  if (uncached === undefined || output === undefined) return undefined;
  const cache_write = cacheWritten(usage);
  const input = uncached + cache_read + cache_write;
  return {
    [input_name]: input,
    [output_name]: output,
    total_tokens: input + output,
    [`${input_name}_details`]: {
      cached_tokens: cache_read,
      cache_write_tokens: cache_write,
      ...(audio_input !== undefined && { audio_tokens: audio_input }),
    },
    [`${output_name}_details`]: {
      reasoning_tokens: reasoning,
      ...(audio_output !== undefined && { audio_tokens: audio_output }),
    },
  };
}

/** Reads the usage of embeddings, images, audio: only tokens count, and the last report wins. */
export function readOtherUsage(reading: UsageReading, { name, data, large }: ResponseEvent): void {
  if (name !== undefined) {
    reading.streamed = true;
    if (name === 'error') reading.failed = true;
    if (!data.includes('"usage"')) return;
  }
  const said = parseObject(large?.outline ?? data);
  if (said === undefined) return;
  if (name === undefined && said.error != null) reading.failed = true;
  noteModel(reading, said.model);
  readTokens(reading, asObject(said.usage));
}

function readTokens(reading: UsageReading, usage: Json | undefined): void {
  if (usage === undefined) return;
  // Cached input is not part of the input here, and has other prices.
  if (usage.cache_creation_input_tokens || usage.cache_read_input_tokens) return;
  const { counts, unusable } = readTotals(usage) ?? { counts: {}, unusable: false };
  const total = isCount(usage.total_tokens, TOKENS_MAX) ? usage.total_tokens : undefined;
  const { output = 0, cache_read = 0 } = counts;
  const input = counts.input ?? (counts.output === undefined ? total : undefined);
  // Ignores contradictory numbers.
  reading.unusable ||= unusable || (total !== undefined && total < (input ?? 0) + cache_read);
  if (reading.unusable || input === undefined) return;
  reading.reported = { ...counts, input, output };
  reading.seen = true;
  reading.counted = true;
  reading.complete = true;
}

/** Usage of one model run. */
export interface UsedPart {
  /** The upstream's name of the model; absent: the model of the response. */
  readonly model?: string;
  readonly tokens: TokenCounts;
  /** Whether it is an intermediate run, of another model or of the same one. */
  readonly is_aside?: true;
}

/** Types of main runs, and of compactions; all others are intermediate. */
const OF_ANSWER: ReadonlySet<string> = new Set(['message', 'fallback_message', 'compaction']);

/** Runs whose tokens the totals include; tokens of all other runs are additional. */
const IN_TOTALS: ReadonlySet<string> = new Set(['message', 'fallback_message']);

/** Usage of each reported run, and last the surplus of the totals, which may omit runs. */
export function partsOf(
  { iterations }: UsageReading,
  totals: TokenCounts,
  requested: CacheLifetime,
): readonly UsedPart[] | undefined {
  if (iterations === undefined) return undefined;
  const parts = iterations.map(({ type, model, reported }) => {
    const { input = 0, output = 0 } = reported;
    const tokens: TokenCounts = { input, output, ...cacheTokens(reported, requested) };
    const is_aside = !OF_ANSWER.has(type);
    return { type, part: { tokens, ...(model !== undefined && { model }), ...(is_aside && { is_aside }) } };
  });
  const counted = sumOf(parts.filter(({ type }) => IN_TOTALS.has(type)).map(({ part }) => part));
  const rest = eachKind((kind) => Math.max(0, totals[kind] - counted[kind]));
  const used = parts.map(({ part }) => part).filter(({ tokens }) => tokenSum(tokens) > 0);
  return tokenSum(rest) === 0 ? used : [...used, { tokens: rest }];
}

/** All tokens of some parts. */
export function sumOf(parts: readonly Pick<UsedPart, 'tokens'>[]): TokenCounts {
  if (parts.length === 1) return parts[0]!.tokens;
  return eachKind((kind) => parts.reduce((sum, { tokens }) => sum + tokens[kind], 0));
}

function eachKind(count: (kind: keyof TokenCounts) => number): TokenCounts {
  return {
    input: count('input'),
    output: count('output'),
    cache_read: count('cache_read'),
    cache_write_5m: count('cache_write_5m'),
    cache_write_1h: count('cache_write_1h'),
  };
}

function tokenSum(tokens: TokenCounts): number {
  return Object.values(tokens).reduce((sum, count) => sum + count, 0);
}

/** Splits cache writes by lifetime; without one reported, the longest requested, which costs most. */
export function cacheTokens(reported: ModelUsage, requested: CacheLifetime): Omit<TokenCounts, 'input' | 'output'> {
  const short = reported.cache_write_5m ?? 0;
  const long = reported.cache_write_1h ?? 0;
  const open = Math.max(0, (reported.cache_write ?? 0) - short - long);
  return {
    cache_read: reported.cache_read ?? 0,
    cache_write_5m: requested === '1h' ? short : short + open,
    cache_write_1h: requested === '1h' ? long + open : long,
  };
}

/** The end of an event: two ends of line in a row, of any of the three kinds. */
const EVENT_END = /(?:\r\n|\n|\r(?!\n)){2}/g;

const NO_CHOICES = /"choices"\s*:\s*\[\s*\]/;

function isUsageChunk(event: string): boolean {
  if (!NO_CHOICES.test(event)) return false;
  const data = event.split(/\r\n|\n|\r/).flatMap((line) => /^data:(.*)$/.exec(line)?.[1] ?? []);
  const { choices, usage } = asObject(jsonIn(data.join('\n'))) ?? {};
  return Array.isArray(choices) && choices.length === 0 && asObject(usage) !== undefined;
}

function withoutChunk(events: Buffer): Buffer {
  const text = events.toString('latin1');
  if (!NO_CHOICES.test(text)) return events;
  const passed: Buffer[] = [];
  const ends = [...text.matchAll(EVENT_END)].map(({ index, 0: blank }) => index + blank.length);
  let start = 0;
  for (const end of [...ends, text.length]) {
    if (!isUsageChunk(text.slice(start, end))) passed.push(events.subarray(start, end));
    start = end;
  }
  return Buffer.concat(passed);
}

/**
 * Takes the extra chunk with the usage out of a stream of chat completions, and leaves every other byte. What is no complete
 * event yet waits for the rest of it, unless it is so long that it is passed on unseen.
 */
export function withoutUsageChunk(): ResponseConverter {
  let passed: Buffer[] = [];
  const events = new WholeEvents((bytes) => passed.push(bytes as Buffer));
  const take = (move: () => void) => {
    const was_inside = events.inside;
    move();
    const bytes = passed.length === 1 ? passed[0]! : Buffer.concat(passed);
    passed = [];
    return was_inside || events.inside ? bytes : withoutChunk(bytes);
  };
  return { write: (chunk) => take(() => events.push(chunk)), end: () => take(() => events.end()) };
}
