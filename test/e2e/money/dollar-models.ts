import { answerJson, message } from '../../support/model-provider/scripted-upstream.ts';

/** Tokens of output that cost a dollar. */
export const DOLLAR_TOKENS = 1000;

/** A model of gateway.yaml of which only the output has a price, so that the most a request can cost is known. */
export function dollarModel(id: string) {
  const pricing = { input: 0, output: 1_000_000 / DOLLAR_TOKENS, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };
  return { id, context_window: 200_000, max_output_tokens: 64_000, pricing };
}

/** A response that costs a dollar. */
export const answerDollar = answerJson(message({ input_tokens: 5, output_tokens: DOLLAR_TOKENS }));
