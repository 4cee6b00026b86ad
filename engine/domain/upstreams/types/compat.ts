import type { UpstreamType } from './upstream-type.ts';

/** A server of chat completions, of Responses, or of both. */
export const compat: UpstreamType = {
  summary: 'chat completions or Responses',
  protocols: ['chat', 'responses'],
  selectable_protocols: ['chat', 'responses'],
  counts_tokens: false,
  versioned_base_url: true,
  request_path: /^https?:\/\/[^/]+.*?(\/chat\/completions|\/responses)\/?$/,
  // Servers read the key from one of the two headers.
  keyHeaders: (key) => ({ authorization: `Bearer ${key}`, 'x-api-key': key }),
  tokenHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  // Some servers reject unknown query parameters, such as a page size.
  models: { path: '/v1/models', query: {}, after: 'after_id' },
  init: {
    speaks: 'chat completions',
    protocols: ['chat'],
    response:
      '{ object: chat.completion, choices: [{ index: 0, message: { role: assistant, content: Hi }, finish_reason: stop }], usage: { prompt_tokens: 10, completion_tokens: 5 } }',
  },
};
