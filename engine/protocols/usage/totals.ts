import { asObject, isCount, TOKENS_MAX, type UsageReading } from './reading.ts';

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

/** Lays one `usage` object over what was reported before; one that tells the input tells all about it. */
export function overlayTotals(reading: UsageReading, value: unknown, names: TotalNames): void {
  const usage = asObject(value);
  if (usage === undefined) return;
  reading.seen = true;
  const take = (found: unknown): number | undefined => {
    if (isCount(found, TOKENS_MAX)) return found;
    if (found !== undefined && found !== null) reading.unusable = true;
    return undefined;
  };
  const { reported } = reading;
  const input = take(usage[names.input]);
  const details = asObject(usage[names.input_details]);
  const read = take(details?.cached_tokens ?? usage.prompt_cache_hit_tokens) ?? 0;
  const split = asObject(details?.cache_write_tokens_details);
  const short = take(split?.ttl_30m_tokens) ?? 0;
  const long = take(split?.ttl_12h_tokens) ?? 0;
  const written = Math.max(take(details?.cache_write_tokens) ?? 0, short + long);
  if (input !== undefined) {
    // More from the cache than there was in all can't be; without it nothing is cheaper than it was.
    const is_part = read + written <= input;
    reading.unusable ||= !is_part;
    reported.input_tokens = is_part ? input - read - written : input;
    reported.cache_read_input_tokens = is_part ? read : 0;
    reported.cache_creation_input_tokens = is_part ? written : 0;
    reported.ephemeral_5m_input_tokens = is_part ? short : 0;
    reported.ephemeral_1h_input_tokens = is_part ? long : 0;
  }
  const output = take(usage[names.output]);
  if (output === undefined) return;
  const reasoning = take(asObject(usage[names.output_details])?.reasoning_tokens) ?? 0;
  const total = take(usage.total_tokens);
  // Some upstreams leave reasoning out of the output; their total gives them away.
  const left_out = input !== undefined && reasoning > 0 && total === input + output + reasoning;
  reported.output_tokens = left_out ? output + reasoning : output;
}
