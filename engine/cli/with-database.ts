import type { GatewayConfig } from '../config.ts';
import { StageError } from '../errors.ts';
import { type Database, openDatabase } from '../services/database.ts';
import { createLog } from '../services/log.ts';
import { describeTrouble, isTrouble } from '../services/postgres-client.ts';
import { EXIT_UNAVAILABLE, StartError } from '../services/start-error.ts';
import type { Log } from '../stage-services.ts';
import { loadToRead } from './load-configuration.ts';
import type { CommandContext } from './program.ts';

/** The log of a command that ends by itself: only trouble, unless APPSCLI_DEBUG=1. */
export function commandLog({ terminal, env }: CommandContext): Log {
  const debug = env.APPSCLI_DEBUG === '1';
  const log = createLog({ write: (line) => terminal.words(line), format: 'readable', debug });
  return debug ? log : { ...log, info() {} };
}

/**
 * Gives a command the configuration and its database, and closes that afterwards. It makes no difference whether a
 * gateway is running. Raises StartError when there is no using the database.
 */
export async function withDatabase<T>(
  context: CommandContext,
  config_file: string,
  use: (opened: { config: GatewayConfig; database: Database; log: Log }) => Promise<T>,
): Promise<T> {
  const { env } = context;
  const log = commandLog(context);
  const config = await loadToRead(config_file, { stages: await context.stages(), env, environment: 'ignored' });
  const database = await openDatabase({ config, env, log, wait: 'until-ready' });
  try {
    return await use({ config, database, log });
  } catch (error) {
    if (error instanceof StartError || error instanceof StageError || !isTrouble(error)) throw error;
    throw new StartError(`lost the database: ${describeTrouble(error)}; run the command again when it is back`, {
      exit_code: EXIT_UNAVAILABLE,
      cause: error,
    });
  } finally {
    await database.close();
  }
}
