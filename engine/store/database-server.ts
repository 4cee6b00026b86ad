import pg from 'pg';
import type { GatewayConfig } from '../contract/config.ts';
import type { Log } from '../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { openEmbeddedPostgres } from './embedded/embedded-postgres.ts';
import type { PostgresAddress } from './postgres-client.ts';

/** The PostgreSQL server a configuration means. */
export interface DatabaseServer extends PostgresAddress {
  /** What to do when it can't be reached; ends a sentence. */
  readonly remedy: string;
  /** Leaves it; stops it when it is embedded and nobody else uses it. */
  close(): Promise<void>;
}

const DEFAULT_DATA_DIR = '.appscli/postgres';

/** Finds the operator's server or starts the embedded one. Raises StartError. */
export async function findServer(options: {
  config: GatewayConfig;
  env: NodeJS.ProcessEnv;
  log: Log;
  supervise: boolean;
}): Promise<DatabaseServer> {
  const { postgres, embedded } = options.config.database;
  if (postgres !== undefined) return findOperatorsServer(postgres.url_env, options.env[postgres.url_env]);
  const server = await openEmbeddedPostgres({
    data_dir: embedded?.data_dir ?? DEFAULT_DATA_DIR,
    log: options.log,
    supervise: options.supervise,
  });
  return {
    settings: server.settings,
    label: () => `${server.settings().host}:${server.settings().port}/${server.settings().database}`,
    remedy: `see ${server.log_file}`,
    close: server.close,
  };
}

/** Where the database of a configuration is, without credentials: what stays the same while it is away. Raises StartError. */
export function databaseAddress({ database: { postgres, embedded } }: GatewayConfig, env: NodeJS.ProcessEnv): string {
  if (postgres !== undefined) return findOperatorsServer(postgres.url_env, env[postgres.url_env]).label();
  return embedded?.data_dir ?? DEFAULT_DATA_DIR;
}

function findOperatorsServer(url_env: string, value: string | undefined): DatabaseServer {
  const { url, text } = parseUrl(url_env, value);
  const label = `${url.host || url.searchParams.get('host') || 'localhost'}${url.pathname}`;
  return {
    settings: () => ({ connectionString: text }),
    label: () => label,
    remedy: `start it, or correct the URL in ${url_env}`,
    close: async () => {},
  };
}

/** The URL never appears in an error: it holds the password. */
function parseUrl(url_env: string, value: string | undefined): { url: URL; text: string } {
  const fail = (what: string): never => {
    throw new StartError(`${what}; expected postgres://user:password@host:5432/database`, {
      exit_code: EXIT_CONFIGURATION,
    });
  };
  if (value === undefined || value === '') {
    return fail(`the environment variable ${url_env}, named by database.postgres.url_env, is not set`);
  }
  if (!URL.canParse(value)) return fail(`the environment variable ${url_env} does not hold a URL`);
  const url = new URL(value);
  if (!/^postgres(ql)?:$/.test(url.protocol)) return fail(`the URL in ${url_env} is not a PostgreSQL URL`);
  // An unescaped / ? or # ends the authority early, and the rest of a password would pass for a host or a database.
  if (/@/.test(url.pathname + url.hash)) {
    return fail(`the URL in ${url_env} has a password with characters that must be percent-encoded`);
  }
  if (url.pathname.length < 2) return fail(`the URL in ${url_env} names no database`);
  try {
    // Reads what options like sslrootcert name; later it would throw where nobody catches.
    new pg.Client({ connectionString: value });
  } catch (error) {
    return fail(`the URL in ${url_env} cannot be used (${(error as Error).message})`);
  }
  return { url, text: value };
}
