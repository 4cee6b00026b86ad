import type { GatewayConfig } from '../contract/config.ts';
import type { Services } from '../contract/services.ts';
import { goesOnWithoutStore } from '../money/spool/without-store.ts';
import type { Database } from '../store/database.ts';
import { databaseAddress } from '../store/database-server.ts';
import { type OpenUpstreamStates, openUpstreamStates } from '../upstreams/states/open-upstream-states.ts';
import { configInForce } from './config-in-force.ts';
import type { Reloader } from './reload.ts';

/**
 * Opens what a gateway knows of its upstreams. Which of them are drained is kept on disk as well where something can be served
 * without the database.
 */
export function openGatewayStates(
  given: Pick<Services, 'clock' | 'log'> & {
    readonly config: GatewayConfig;
    readonly env: NodeJS.ProcessEnv;
    /** Until there is one, the configuration of the start is in force. */
    reloader(): Reloader | undefined;
  },
  database: Database,
): OpenUpstreamStates {
  const { env, clock, log } = given;
  const { upstreams } = given.config;
  const inForce = configInForce(given.config, given.reloader);
  const directory = () => (goesOnWithoutStore(inForce()) ? inForce().spend_limits?.spool_dir : undefined);
  const database_address = databaseAddress(given.config, env);
  return openUpstreamStates({ upstreams, database, clock, log, database_address, directory });
}
