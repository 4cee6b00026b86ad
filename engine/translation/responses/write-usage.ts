import type { ModelUsage } from '../events.ts';

/** Token counts as the API says them, input with all cached tokens; `null` where nothing was told. */
export function writeUsage(usage: ModelUsage): Record<string, unknown> | null {
  if (Object.keys(usage).length === 0) return null;
  const { input = 0, output = 0, cache_read = 0, reasoning = 0 } = usage;
  const cache_write = usage.cache_write ?? (usage.cache_write_5m ?? 0) + (usage.cache_write_1h ?? 0);
  const input_tokens = input + cache_read + cache_write;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input_tokens + output,
  };
}
