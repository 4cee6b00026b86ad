import { isObject, present } from '../read-json.ts';
import type { TotalNames } from '../usage/totals.ts';
import type { ModelUsage } from './events.ts';

/** A number of tokens that an upstream told; `undefined` for what cannot be one. */
export function tokenCount(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** Reads a `usage` object whose input includes cached tokens; `undefined` for anything else and where it tells nothing. */
export function readTotals(usage: unknown, names: TotalNames): ModelUsage | undefined {
  if (!isObject(usage)) return undefined;
  const details = objectIn(usage, names.input_details);
  const total = tokenCount(usage[names.input]);
  const cache_read = tokenCount(details.cached_tokens) ?? tokenCount(usage.prompt_cache_hit_tokens);
  const written = readCacheWrites(details);
  const input = total && Math.max(0, total - (cache_read ?? 0) - (written.cache_write ?? 0));
  const output = tokenCount(usage[names.output]);
  const reasoning = tokenCount(objectIn(usage, names.output_details).reasoning_tokens);
  const read = { ...present({ input, output, cache_read, reasoning }), ...written };
  // Some upstreams leave reasoning out of the output, but not out of their total.
  if (total !== undefined && output !== undefined && reasoning !== undefined) {
    if (usage.total_tokens === total + output + reasoning) read.output = output + reasoning;
  }
  return Object.keys(read).length === 0 ? undefined : read;
}

function objectIn(usage: Readonly<Record<string, unknown>>, key: string): Readonly<Record<string, unknown>> {
  const value = usage[key];
  return isObject(value) ? value : {};
}

/** Tokens written to the cache: those that are kept for half an hour count as short, for half a day as long. */
function readCacheWrites(details: Readonly<Record<string, unknown>>): ModelUsage {
  const split = objectIn(details, 'cache_write_tokens_details');
  const cache_write_5m = tokenCount(split.ttl_30m_tokens);
  const cache_write_1h = tokenCount(split.ttl_12h_tokens);
  const counts = [tokenCount(details.cache_write_tokens), cache_write_5m, cache_write_1h];
  if (counts.every((count) => count === undefined)) return {};
  const [told = 0, short = 0, long = 0] = counts;
  // As they are billed: no less than the parts.
  return present({ cache_write: Math.max(told, short + long), cache_write_5m, cache_write_1h });
}

/** Writes a `usage` object whose input includes cached tokens; `undefined` where input or output was not told. */
export function writeTotals(usage: ModelUsage, names: TotalNames): Record<string, unknown> | undefined {
  const { input: uncached, output, cache_read = 0, reasoning = 0 } = usage;
  if (uncached === undefined || output === undefined) return undefined;
  const cache_write = cacheWritten(usage);
  const input = uncached + cache_read + cache_write;
  return {
    [names.input]: input,
    [names.output]: output,
    total_tokens: input + output,
    [names.input_details]: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    [names.output_details]: { reasoning_tokens: reasoning },
  };
}

/** All tokens written to the cache, also where only the split by lifetime was told. */
export function cacheWritten({ cache_write, cache_write_5m = 0, cache_write_1h = 0 }: ModelUsage): number {
  return cache_write ?? cache_write_5m + cache_write_1h;
}
