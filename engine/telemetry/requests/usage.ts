import type { EndedRequest } from '../../contract/telemetry.ts';
import type { ModelUsage } from '../conventions.ts';

/** What the answer of the last attempt used, as the conventions count it; `undefined` where nothing was metered. */
export function usageOf(request: EndedRequest): ModelUsage | undefined {
  const output = request.peek('usage.output_tokens');
  if (output === undefined) return undefined;
  const cache_read = request.peek('usage.cache_read_input_tokens') ?? 0;
  const cache_write =
    (request.peek('usage.cache_write_5m_input_tokens') ?? 0) + (request.peek('usage.cache_write_1h_input_tokens') ?? 0);
  const input = (request.peek('usage.input_tokens') ?? 0) + cache_read + cache_write;
  return { input, output, cache_read, cache_write };
}
