import { isObject, present } from '../read-json.ts';
import type { ModelUsage } from '../translation/events.ts';
import { readCacheWrites, tokenCount, totalsOf, withoutCached } from '../translation/usage.ts';

function countIn(object: unknown, key: string): number | undefined {
  return isObject(object) ? tokenCount(object[key]) : undefined;
}

/** Reads a `usage` object; `undefined` for anything else. Totals there include cached tokens. */
export function readUsage(usage: unknown): ModelUsage | undefined {
  if (!isObject(usage)) return undefined;
  const details = usage.prompt_tokens_details;
  const prompt = tokenCount(usage.prompt_tokens);
  const cache_read = countIn(details, 'cached_tokens') ?? tokenCount(usage.prompt_cache_hit_tokens);
  const written = readCacheWrites(details);
  const input = withoutCached(prompt, { ...present({ cache_read }), ...written });
  const completion = tokenCount(usage.completion_tokens);
  const reasoning = countIn(usage.completion_tokens_details, 'reasoning_tokens');
  const output = completion === undefined ? undefined : completion + uncounted(usage, prompt, completion, reasoning);
  return { ...present({ input, output, cache_read, reasoning }), ...written };
}

/** Reasoning tokens that some upstreams leave out of their completion tokens, but not of their total. */
function uncounted(
  usage: Readonly<Record<string, unknown>>,
  prompt: number | undefined,
  completion: number,
  reasoning: number | undefined,
): number {
  if (reasoning === undefined || prompt === undefined) return 0;
  return tokenCount(usage.total_tokens) === prompt + completion + reasoning ? reasoning : 0;
}

/** Writes a `usage` object; `undefined` where the upstream did not tell what went in or what came out. */
export function writeUsage(usage: ModelUsage | undefined): Record<string, unknown> | undefined {
  if (usage?.input === undefined || usage?.output === undefined) return undefined;
  const { input, output, cache_read, cache_write, reasoning, total } = totalsOf(usage);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: total,
    prompt_tokens_details: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}
