import type { ModelUsage } from '../events.ts';
import { isObject, present } from '../read-json.ts';

function count(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

function countIn(object: unknown, key: string): number | undefined {
  return isObject(object) ? count(object[key]) : undefined;
}

/** Reads a `usage` object; `undefined` for anything else. Totals there include cached tokens. */
export function readUsage(usage: unknown): ModelUsage | undefined {
  if (!isObject(usage)) return undefined;
  const details = usage.prompt_tokens_details;
  const prompt = count(usage.prompt_tokens);
  const cache_read = countIn(details, 'cached_tokens') ?? count(usage.prompt_cache_hit_tokens);
  const cache_write = countIn(details, 'cache_write_tokens');
  const input = prompt === undefined ? undefined : Math.max(0, prompt - (cache_read ?? 0) - (cache_write ?? 0));
  const completion = count(usage.completion_tokens);
  const reasoning = countIn(usage.completion_tokens_details, 'reasoning_tokens');
  const output = completion === undefined ? undefined : completion + uncounted(usage, prompt, completion, reasoning);
  return present({ input, output, cache_read, cache_write, reasoning });
}

/** Reasoning tokens that some upstreams leave out of their completion tokens, but not of their total. */
function uncounted(
  usage: Readonly<Record<string, unknown>>,
  prompt: number | undefined,
  completion: number,
  reasoning: number | undefined,
): number {
  if (reasoning === undefined || prompt === undefined) return 0;
  return count(usage.total_tokens) === prompt + completion + reasoning ? reasoning : 0;
}

/** Writes a `usage` object; `undefined` where the upstream told no count. */
export function writeUsage(usage: ModelUsage | undefined): Record<string, unknown> | undefined {
  if (usage?.input === undefined && usage?.output === undefined) return undefined;
  const { input = 0, output = 0, cache_read = 0, cache_write = 0, reasoning = 0 } = usage;
  const prompt_tokens = input + cache_read + cache_write;
  return {
    prompt_tokens,
    completion_tokens: output,
    total_tokens: prompt_tokens + output,
    prompt_tokens_details: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}
