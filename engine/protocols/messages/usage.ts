import type { ModelUsage } from '../translation/events.ts';
import { cacheWritten } from '../translation/usage.ts';

/**
 * A usage object. Cached tokens that nobody told are left out: the protocol knows null for them, but one client takes a null for
 * unreadable. Other counts are 0, as every answer has them.
 */
export function writeUsage(usage: ModelUsage): Record<string, unknown> {
  const { cache_write_5m, cache_write_1h, reasoning } = usage;
  const split = cache_write_5m !== undefined || cache_write_1h !== undefined;
  // Upstreams that tell one of them have no other.
  const has_cache = split || usage.cache_read !== undefined || usage.cache_write !== undefined;
  return {
    input_tokens: usage.input ?? 0,
    ...(has_cache && {
      cache_creation_input_tokens: cacheWritten(usage),
      cache_read_input_tokens: usage.cache_read ?? 0,
    }),
    ...(split && {
      cache_creation: {
        ephemeral_5m_input_tokens: cache_write_5m ?? 0,
        ephemeral_1h_input_tokens: cache_write_1h ?? 0,
      },
    }),
    output_tokens: usage.output ?? 0,
    ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
  };
}
