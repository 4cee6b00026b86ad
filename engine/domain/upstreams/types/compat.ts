import { protocolsOf, type UpstreamType } from './upstream-type.ts';

const SPOKEN = protocolsOf('compat');

/** A server of chat completions, of Responses, or of both. */
export const compat: UpstreamType = {
  protocols: SPOKEN,
  selectable_protocols: SPOKEN,
  counts_tokens: false,
  versioned_base_url: true,
  // Servers read the key from one of the two headers.
  keyHeaders: (key) => ({ authorization: `Bearer ${key}`, 'x-api-key': key }),
  tokenHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  // Some servers reject unknown query parameters, such as a page size.
  models: { path: '/v1/models', query: {}, after: 'after_id' },
};
