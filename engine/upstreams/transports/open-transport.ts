import type { UpstreamConfig } from '../../contract/config.ts';
import { createDirectTransport } from './direct-transport.ts';
import { createProxyTransport } from './proxy-transport.ts';
import type { Transport, TransportOptions } from './transport.ts';

/** Creates the transport to an upstream that its entry in gateway.yaml asks for. */
export function openTransport(
  { base_url, transport }: Pick<UpstreamConfig, 'base_url' | 'transport'>,
  options: Omit<TransportOptions, 'url'>,
): Transport {
  const create = transport === 'proxy' ? createProxyTransport : createDirectTransport;
  return create({ ...options, url: new URL(base_url) });
}
