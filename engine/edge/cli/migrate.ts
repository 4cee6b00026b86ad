import { resolve } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { secretInFile } from '../../base/kit/secret-names.ts';
import { findServer } from '../../base/store/database.ts';
import { migrate } from '../../base/store/migrate.ts';
import { createConnections, describeOutage } from '../../base/store/postgres-client.ts';
import { type CommandContext, type CommandRow, configurationError, EXIT_OK, option } from './commands.ts';
import { showReport } from './output.ts';
import { commandLog, readConfig } from './with-database.ts';

interface MigrateOptions {
  readonly config: string;
  readonly urlEnv?: string;
  readonly urlFile?: string;
  readonly json?: true;
}

async function migrateDatabase(context: CommandContext, options: MigrateOptions): Promise<number> {
  const { env } = context;
  const config = withUrl(await readConfig(context, options.config), options);
  const server = await findServer({ config, env, log: commandLog(context), supervise: false });
  const connections = createConnections(server);
  try {
    const applied = await migrate(connections, { secures: true });
    showReport(context, options.json, { applied }, () => [
      ...applied.map((name) => `Applied ${name}.`),
      'The schema is up to date.',
    ]);
    return EXIT_OK;
  } catch (error) {
    const where = `cannot migrate the database at ${server.label()}`;
    if (error instanceof StartError) {
      throw new StartError(`${where}: ${error.message}`, { exit_code: error.exit_code });
    }
    const why = describeOutage(error);
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
    throw configurationError('--url-env and --url-file need an external database (database.postgres)');
  }
  return { ...config, database: { ...config.database, postgres: { ...postgres, url_env } } };
}

export const commands: readonly CommandRow[] = [
  {
    about:
      'apply pending migrations as the owner of the tables, if the role of the gateway may not; gateways of this and the previous version may run meanwhile',
    options: [
      option('--url-env <name>', "variable with the owner's database URL (default: the configured one)"),
      option('--url-file <path>', 'file with this URL').conflicts('urlEnv'),
    ],
    place: 'configuration',
    json: 'print the applied migrations as JSON',
    examples: ['appscli migrate --config gateway.yaml --url-env OWNER_DATABASE_URL'],
    run: migrateDatabase,
  },
];
