import type { GatewayConfig } from '../contract/config.ts';
import type { Reloader } from './reload.ts';

/**
 * The configuration in force, for what lives as long as the process: that of the start until there is a reloader, and then it is let
 * go of.
 */
export function configInForce(config: GatewayConfig, reloader: () => Reloader | undefined): () => GatewayConfig {
  let of_start: GatewayConfig | undefined = config;
  return () => {
    const now = reloader()?.config();
    if (now !== undefined) of_start = undefined;
    return now ?? of_start!;
  };
}
