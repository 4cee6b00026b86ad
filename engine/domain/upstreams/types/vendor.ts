import type { UpstreamType } from './upstream-type.ts';

/** A server of the Messages API. */
export const vendor: UpstreamType = {
  summary: 'Messages',
  protocols: ['messages'],
  selectable_protocols: [],
  counts_tokens: true,
  versioned_base_url: false,
  request_path: /^https?:\/\/[^/]+.*?(\/v1(?:\/messages|\/chat\/completions|\/responses)?)\/?$/,
  keyHeaders: (key) => ({ 'x-api-key': key }),
  tokenHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  models: { path: '/v1/models', query: { limit: '1000' }, after: 'after_id' },
  init: { speaks: 'Messages' },
};
