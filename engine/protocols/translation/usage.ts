import { isObject, present } from '../read-json.ts';
import type { ModelUsage } from './events.ts';

/** A number of tokens that an upstream told; `undefined` for what cannot be one. */
export function tokenCount(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/**
 * Tokens written to the cache, as chat completions and Responses tell them in the details of the input: those that are kept for
 * half an hour count as short, for half a day as long.
 */
export function readCacheWrites(details: unknown): ModelUsage {
  if (!isObject(details)) return {};
  const split = isObject(details.cache_write_tokens_details) ? details.cache_write_tokens_details : {};
  const cache_write_5m = tokenCount(split.ttl_30m_tokens);
  const cache_write_1h = tokenCount(split.ttl_12h_tokens);
  const counts = [tokenCount(details.cache_write_tokens), cache_write_5m, cache_write_1h];
  if (counts.every((count) => count === undefined)) return {};
  const [told = 0, short = 0, long = 0] = counts;
  // As they are billed: no less than the parts.
  return present({ cache_write: Math.max(told, short + long), cache_write_5m, cache_write_1h });
}

/** Tokens that were not cached, of an input that includes cached ones. */
export function withoutCached(
  total: number | undefined,
  { cache_read = 0, cache_write = 0 }: ModelUsage,
): number | undefined {
  return total === undefined ? undefined : Math.max(0, total - cache_read - cache_write);
}

/** The counts as APIs say them whose input includes cached tokens; those that nobody told are 0. */
export function totalsOf(usage: ModelUsage): {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
  readonly reasoning: number;
  readonly total: number;
} {
  const { output = 0, cache_read = 0, reasoning = 0 } = usage;
  const cache_write = cacheWritten(usage);
  const input = (usage.input ?? 0) + cache_read + cache_write;
  return { input, output, cache_read, cache_write, reasoning, total: input + output };
}

/** All tokens written to the cache, also where only the split by lifetime was told. */
export function cacheWritten({ cache_write, cache_write_5m = 0, cache_write_1h = 0 }: ModelUsage): number {
  return cache_write ?? cache_write_5m + cache_write_1h;
}
