import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../contract/config.ts';
import { deepFreeze } from '../kit/freeze.ts';

/** What a running gateway can take over of a configuration. */
export interface Adopted {
  /** The new configuration, with the old values where only a restart can change them. */
  readonly config: GatewayConfig;
  /** The keys that kept their old value although the new one differs. */
  readonly needs_restart: readonly string[];
}

/** Merges a new configuration into the one that runs: the socket, its TLS and header limit, the database and the spool stay. */
export function adoptConfig(running: GatewayConfig, wanted: GatewayConfig): Adopted {
  const { listen, tls, limits } = running.server;
  const { tls: wanted_tls, ...wanted_server } = wanted.server;
  const { retention: _, ...database } = running.database;
  const { retention, ...wanted_database } = wanted.database;
  const spool_dir = running.spend_limits?.spool_dir;
  const wanted_spool = wanted.spend_limits?.spool_dir;
  // Which certificate is served can change, whether one is served can't.
  const certificate = tls === undefined ? undefined : (wanted_tls ?? tls);
  const differs = {
    'server.listen': listen !== wanted.server.listen,
    'server.tls': (tls === undefined) !== (wanted_tls === undefined),
    'server.limits.header_bytes': limits.header_bytes !== wanted.server.limits.header_bytes,
    database: !isDeepStrictEqual(database, wanted_database),
    'spend_limits.spool_dir': spool_dir !== undefined && wanted_spool !== undefined && spool_dir !== wanted_spool,
  };
  const config: GatewayConfig = {
    ...wanted,
    server: {
      ...wanted_server,
      listen,
      ...(certificate && { tls: certificate }),
      limits: { ...wanted.server.limits, header_bytes: limits.header_bytes },
    },
    database: { ...database, ...(retention && { retention }) },
    ...(wanted.spend_limits && spool_dir !== undefined && { spend_limits: { ...wanted.spend_limits, spool_dir } }),
  };
  return {
    config: deepFreeze(config),
    needs_restart: Object.entries(differs).flatMap(([key, different]) => (different ? [key] : [])),
  };
}
