import type { ReportedUsage, UsageField } from '../usage/reading.ts';
import type { ModelUsage } from './events.ts';

/** What the counts that an upstream reports are called in the events of an answer. */
const FIELDS: Readonly<Record<UsageField, keyof ModelUsage>> = {
  input_tokens: 'input',
  output_tokens: 'output',
  cache_read_input_tokens: 'cache_read',
  cache_creation_input_tokens: 'cache_write',
  ephemeral_5m_input_tokens: 'cache_write_5m',
  ephemeral_1h_input_tokens: 'cache_write_1h',
  reasoning_tokens: 'reasoning',
  audio_input_tokens: 'audio_input',
  audio_output_tokens: 'audio_output',
};

/** The counts of an answer as its bill has them; `undefined` where the upstream has reported none. */
export function modelUsage({ reported }: { readonly reported: ReportedUsage }): ModelUsage | undefined {
  const counts = Object.entries(reported).map(([field, count]) => [FIELDS[field as UsageField], count] as const);
  return counts.length === 0 ? undefined : Object.fromEntries(counts);
}

/** What a protocol calls the totals of its `usage` object, whose input includes cached tokens. */
export interface TotalNames {
  readonly input: string;
  readonly output: string;
  readonly input_details: string;
  readonly output_details: string;
}

/** The names of chat completions. */
export const CHAT_TOTALS: TotalNames = {
  input: 'prompt_tokens',
  output: 'completion_tokens',
  input_details: 'prompt_tokens_details',
  output_details: 'completion_tokens_details',
};

/** The names of Responses. */
export const RESPONSES_TOTALS: TotalNames = {
  input: 'input_tokens',
  output: 'output_tokens',
  input_details: 'input_tokens_details',
  output_details: 'output_tokens_details',
};

/** Writes a `usage` object whose input includes cached tokens; `undefined` where input or output was not told. */
export function writeTotals(usage: ModelUsage, names: TotalNames): Record<string, unknown> | undefined {
  const { input: uncached, output, cache_read = 0, reasoning = 0, audio_input, audio_output } = usage;
  if (uncached === undefined || output === undefined) return undefined;
  const cache_write = cacheWritten(usage);
  const input = uncached + cache_read + cache_write;
  return {
    [names.input]: input,
    [names.output]: output,
    total_tokens: input + output,
    [names.input_details]: {
      cached_tokens: cache_read,
      cache_write_tokens: cache_write,
      ...(audio_input !== undefined && { audio_tokens: audio_input }),
    },
    [names.output_details]: {
      reasoning_tokens: reasoning,
      ...(audio_output !== undefined && { audio_tokens: audio_output }),
    },
  };
}

/** All tokens written to the cache: as they are billed, no less than the parts by lifetime. */
export function cacheWritten({ cache_write = 0, cache_write_5m = 0, cache_write_1h = 0 }: ModelUsage): number {
  return Math.max(cache_write, cache_write_5m + cache_write_1h);
}
