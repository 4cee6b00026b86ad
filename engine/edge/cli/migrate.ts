import { resolve } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { secretInFile } from '../../base/kit/secret-names.ts';
import { findServer } from '../../base/store/database-server.ts';
import { migrate } from '../../base/store/migrate.ts';
import { createConnections, describeTrouble } from '../../base/store/postgres-client.ts';
import { loadToRead } from '../gateway/reload.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { configurationError, EXIT_OK } from './exit-codes.ts';
import { option } from './options.ts';
import { showReport } from './show.ts';
import { commandLog } from './with-database.ts';

interface MigrateOptions {
  readonly config: string;
  readonly urlEnv?: string;
  readonly urlFile?: string;
  readonly json?: true;
}

/** `appscli migrate`: applies the migrations that a database lacks. */
async function migrateDatabase(context: CommandContext, given: MigrateOptions): Promise<number> {
  const { env } = context;
  const loaded = await loadToRead(given.config, { stages: await context.stages(), env, environment: 'ignored' });
  const config = withUrl(loaded, given);
  const server = await findServer({ config, env, log: commandLog(context), supervise: false });
  const connections = createConnections(server);
  try {
    const applied = await migrate(connections, { secures: true });
    showReport(context, given.json, { applied }, () => [
      ...applied.map((name) => `Applied ${name}.`),
      'The tables are up to date.',
    ]);
    return EXIT_OK;
  } catch (error) {
    const where = `cannot migrate the database at ${server.label()}`;
    if (error instanceof StartError) {
      throw new StartError(`${where}: ${error.message}`, { exit_code: error.exit_code });
    }
    const why = describeTrouble(error);
    throw new StartError(`${where}: ${why}; ${server.remedy}`, { cause: error });
  } finally {
    connections.cut();
    await server.close();
  }
}

function withUrl(config: GatewayConfig, { urlEnv, urlFile }: MigrateOptions): GatewayConfig {
  const url_env = urlFile === undefined ? urlEnv : secretInFile(resolve(urlFile));
  if (url_env === undefined) return config;
  const { postgres } = config.database;
  if (postgres === undefined) {
    throw configurationError('the configuration names no database of yours, so it has no URL (database.postgres)');
  }
  return { ...config, database: { ...config.database, postgres: { ...postgres, url_env } } };
}

/** `appscli migrate`. */
export const commands: readonly CommandRow[] = [
  {
    about:
      'bring the tables of the database up to date, as the role that owns them; a gateway does that itself where its role may. Gateways of this version and of the one before may run',
    options: [
      option('--url-env <name>', 'variable with the database URL of the owner; else that of the configuration'),
      option('--url-file <path>', 'file with that URL').conflicts('urlEnv'),
    ],
    place: 'configuration',
    json: 'print the migrations that were applied as JSON',
    examples: ['appscli migrate --config gateway.yaml --url-env OWNER_DATABASE_URL'],
    run: migrateDatabase,
  },
];
