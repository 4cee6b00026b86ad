import {
  asObject,
  CountFinder,
  isCount,
  objectsOf,
  type ReportedUsage,
  reportOf,
  TOKENS_MAX,
  type UsageField,
  type UsageReport,
} from './reading.ts';

type Fields = Readonly<Record<string, unknown>>;

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
  // OpenAI; LiteLLM; Qwen.
  cache_split: ['cache_write_tokens_details', 'cache_creation_token_details', 'cache_creation'],
  cache_write_5m: ['ttl_30m_tokens', 'ephemeral_5m_input_tokens'],
  cache_write_1h: ['ttl_12h_tokens', 'ephemeral_1h_input_tokens'],
  // SGLang and Perplexity have them at the top.
  reasoning: ['reasoning_tokens'],
  audio: ['audio_tokens'],
  total: ['total_tokens'],
} as const;

/** Names of the Messages protocol, whose input leaves out what is cached, and of a proxy that counts as it does (new-api). */
const BESIDE_INPUT = ['cache_read_input_tokens', 'cache_creation_input_tokens', 'cached_creation_tokens'] as const;

/**
 * Reads the `usage` object of chat completions, Responses and the APIs beside them. `undefined` for anything that reports nothing.
 * Servers differ in whether the input includes cached tokens and the output reasoning: the total decides.
 */
export function readTotals(value: unknown): UsageReport | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const finder = new CountFinder();
  const input_details = objectsIn([usage], NAMES.input_details);
  const output_details = objectsIn([usage], NAMES.output_details);
  const inputs = [usage, ...input_details];
  const splits = objectsIn(inputs, NAMES.cache_split);
  const reported = {
    input: finder.highest([usage], NAMES.input),
    output: finder.highest([usage], NAMES.output),
    total: finder.highest([usage], NAMES.total),
    read: finder.highest(inputs, NAMES.cache_read),
    written: finder.highest(inputs, NAMES.cache_write),
    short: finder.highest(splits, NAMES.cache_write_5m),
    long: finder.highest(splits, NAMES.cache_write_1h),
    reasoning: finder.highest([usage, ...output_details], NAMES.reasoning),
    heard: finder.highest(input_details, NAMES.audio),
    spoken: finder.highest(output_details, NAMES.audio),
  };
  const { read = 0, written = 0, short = 0, long = 0 } = reported;
  // As they are billed: no less than the parts.
  const cached = read + Math.max(written, short + long);
  const { input, output, heard } = completed(inputs, reported, cached);
  // More from the cache than there was in all can't be; without it nothing is cheaper than it was.
  const is_part = input === undefined || cached <= input;
  finder.unusable ||= !is_part;
  const uncached = input && input - (is_part ? cached : 0);
  return reportOf(
    {
      input_tokens: uncached,
      ...(is_part && {
        cache_read_input_tokens: reported.read,
        cache_creation_input_tokens: reported.written,
        ephemeral_5m_input_tokens: reported.short,
        ephemeral_1h_input_tokens: reported.long,
      }),
      audio_input_tokens: heard,
      output_tokens: output,
      reasoning_tokens: reported.reasoning,
      audio_output_tokens: reported.spoken,
    },
    finder.unusable,
  );
}

interface Told {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly total: number | undefined;
  readonly read: number | undefined;
  readonly written: number | undefined;
  readonly reasoning: number | undefined;
  readonly heard: number | undefined;
}

/** All input and output: what the total has beyond the two belongs to one of them, and so does what it has beyond one alone. */
function completed(inputs: readonly Fields[], told: Told, cached: number): Pick<Told, 'input' | 'output' | 'heard'> {
  const { input, output, total, read, reasoning, heard } = told;
  if (input === undefined || output === undefined) {
    const known = input ?? output;
    const rest = total === undefined || known === undefined || total <= known ? undefined : total - known;
    return { input: input ?? rest, output: output ?? rest, heard };
  }
  const rest = total === undefined ? 0 : total - input - output;
  if (rest <= 0) return { input: isBeside(inputs, input, cached, total) ? input + cached : input, output, heard };
  // Portkey and others tell cached tokens beside the input, all or some of them.
  const is_cached = rest !== reasoning && [cached, read, cached - (read ?? 0)].includes(rest);
  if (is_cached) return { input: input + rest, output, heard };
  // Mistral has the tokens of a recording in the total alone.
  if (inputs[0]!.prompt_audio_seconds) return { input: input + rest, output, heard: (heard ?? 0) + rest };
  // Gemini and xAI have reasoning in the total alone.
  return { input, output: output + rest, heard };
}

/** Whether cached tokens are told beside the input where no total says so: as all names are those of the Messages protocol. */
function isBeside(inputs: readonly Fields[], input: number, cached: number, total: number | undefined): boolean {
  if (!inputs.some((place) => BESIDE_INPUT.some((name) => isCount(place[name], TOKENS_MAX)))) return false;
  const usage = inputs[0]!;
  return cached > input || (total === undefined && usage.prompt_tokens == null && usage.input_tokens_details == null);
}

function objectsIn(places: readonly Fields[], names: readonly string[]): Fields[] {
  return places.flatMap((place) => objectsOf(names.map((name) => place[name])));
}

const OUTPUT_FIELDS: ReadonlySet<string> = new Set<UsageField>([
  'output_tokens',
  'reasoning_tokens',
  'audio_output_tokens',
]);

/**
 * Lays a report of `readTotals` over what was reported before: one that tells the input, or the output, tells all about it. Once
 * the answer is complete, one with less of it is not taken, and one with nothing of it never is.
 */
export function overlayTotals(before: ReportedUsage, now: ReportedUsage, is_complete: boolean): ReportedUsage {
  const isKept = (now_has: number | undefined, had: number) =>
    now_has === undefined || (now_has < had && (is_complete || now_has === 0));
  const input = now.input_tokens === undefined ? undefined : inputIn(now);
  const keeps_input = isKept(input, inputIn(before));
  const keeps_output = isKept(now.output_tokens, before.output_tokens ?? 0);
  const keeps = (field: string) => (OUTPUT_FIELDS.has(field) ? keeps_output : keeps_input);
  return Object.fromEntries([
    ...Object.entries(before).filter(([field]) => keeps(field)),
    ...Object.entries(now).filter(([field]) => !keeps(field) || !(field in before)),
  ]);
}

/** All input, whether cached or not. */
function inputIn({ input_tokens = 0, cache_read_input_tokens = 0, ...usage }: ReportedUsage): number {
  const { cache_creation_input_tokens = 0, ephemeral_5m_input_tokens = 0, ephemeral_1h_input_tokens = 0 } = usage;
  const written = Math.max(cache_creation_input_tokens, ephemeral_5m_input_tokens + ephemeral_1h_input_tokens);
  return input_tokens + cache_read_input_tokens + written;
}
