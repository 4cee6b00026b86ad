import { protocolsOf, type UpstreamType } from './upstream-type.ts';

/** A server of the Messages API. */
export const vendor: UpstreamType = {
  protocols: protocolsOf('vendor'),
  selectable_protocols: [],
  counts_tokens: true,
  versioned_base_url: false,
  keyHeaders: (key) => ({ 'x-api-key': key }),
  tokenHeaders: (token) => ({ authorization: `Bearer ${token}` }),
  models: { path: '/v1/models', query: { limit: '1000' }, after: 'after_id' },
};
