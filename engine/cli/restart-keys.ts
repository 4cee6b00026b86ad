import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../config.ts';
import { deepFreeze } from '../load/freeze.ts';

/** What a running gateway can take over of a configuration. */
export interface Adopted {
  /** The new configuration, with the old values where only a restart can change them. */
  readonly config: GatewayConfig;
  /** The keys that kept their old value although the new one differs. */
  readonly needs_restart: readonly string[];
}

/** Merges a new configuration into the one that runs: the socket, its TLS and header limit, and the database stay. */
export function adoptConfig(running: GatewayConfig, wanted: GatewayConfig): Adopted {
  const { listen, tls, limits } = running.server;
  const { tls: wanted_tls, ...wanted_server } = wanted.server;
  // Which certificate is served can change, whether one is served can't.
  const certificate = tls === undefined ? undefined : (wanted_tls ?? tls);
  const differs = {
    'server.listen': listen !== wanted.server.listen,
    'server.tls': (tls === undefined) !== (wanted_tls === undefined),
    'server.limits.header_bytes': limits.header_bytes !== wanted.server.limits.header_bytes,
    database: !isDeepStrictEqual(running.database, wanted.database),
  };
  const config: GatewayConfig = {
    ...wanted,
    server: {
      ...wanted_server,
      listen,
      ...(certificate && { tls: certificate }),
      limits: { ...wanted.server.limits, header_bytes: limits.header_bytes },
    },
    database: running.database,
  };
  return {
    config: deepFreeze(config),
    needs_restart: Object.entries(differs).flatMap(([key, different]) => (different ? [key] : [])),
  };
}
