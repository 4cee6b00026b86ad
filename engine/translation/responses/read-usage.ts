import type { ModelUsage } from '../events.ts';
import { isObject, present } from '../read-json.ts';

const count = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;

/** Token counts of an answer, whose input includes cached tokens; `undefined` where it tells none. */
export function readUsage(value: unknown): ModelUsage | undefined {
  if (!isObject(value)) return undefined;
  const total = count(value.input_tokens);
  const details = isObject(value.input_tokens_details) ? value.input_tokens_details : {};
  const cache_read = count(details.cached_tokens);
  const cache_write = count(details.cache_write_tokens);
  const output_details = isObject(value.output_tokens_details) ? value.output_tokens_details : {};
  const usage = present({
    input: total === undefined ? undefined : Math.max(0, total - (cache_read ?? 0) - (cache_write ?? 0)),
    output: count(value.output_tokens),
    cache_read,
    cache_write,
    reasoning: count(output_details.reasoning_tokens),
  });
  return Object.keys(usage).length === 0 ? undefined : usage;
}
