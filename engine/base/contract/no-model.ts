import type { ModelConfig } from './config.ts';

/** Placeholder model of a request that names none, such as an upload: free, shown in ledger and reports, not for clients. */
export const NO_MODEL: ModelConfig = Object.freeze<ModelConfig>({
  id: '(none)',
  aliases: [],
  group_aliases: [],
  context_window: 0,
  max_output_tokens: 0,
  default_output_tokens: 0,
  assumed: [],
  upstream_ids: {},
  supports: { tools: false, images: false, thinking: 'none', sampling: false, prompt_cache_1h: false },
});
