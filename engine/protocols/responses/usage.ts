import { isObject, present } from '../read-json.ts';
import type { ModelUsage } from '../translation/events.ts';
import { readCacheWrites, tokenCount, totalsOf, withoutCached } from '../translation/usage.ts';

/** Token counts of an answer, whose input includes cached tokens; `undefined` where it tells none. */
export function readUsage(value: unknown): ModelUsage | undefined {
  if (!isObject(value)) return undefined;
  const input_details = isObject(value.input_tokens_details) ? value.input_tokens_details : {};
  const output_details = isObject(value.output_tokens_details) ? value.output_tokens_details : {};
  const cached = {
    ...present({ cache_read: tokenCount(input_details.cached_tokens) }),
    ...readCacheWrites(input_details),
  };
  const usage = present({
    input: withoutCached(tokenCount(value.input_tokens), cached),
    output: tokenCount(value.output_tokens),
    ...cached,
    reasoning: tokenCount(output_details.reasoning_tokens),
  });
  return Object.keys(usage).length === 0 ? undefined : usage;
}

/** Token counts as the API says them, input with all cached tokens; `null` where input or output was not told. */
export function writeUsage(usage: ModelUsage): Record<string, unknown> | null {
  if (usage.input === undefined || usage.output === undefined) return null;
  const { input, output, cache_read, cache_write, reasoning, total } = totalsOf(usage);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: total,
  };
}
