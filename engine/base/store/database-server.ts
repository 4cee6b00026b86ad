import { createSecureContext } from 'node:tls';
import type { GatewayConfig } from '../contract/config.ts';
import type { Log } from '../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { type SecretSource, secretFile, secretHolder, secretIn, secretPlace } from '../kit/secret-names.ts';
import { type DatabaseUrl, DatabaseUrlError, readDatabaseUrl } from './database-url.ts';
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
  env: SecretSource;
  log: Log;
  supervise: boolean;
}): Promise<DatabaseServer> {
  const { postgres, embedded } = options.config.database;
  if (postgres !== undefined) return findOperatorsServer(postgres.url_env, options.env);
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

/**
 * The database of a configuration, and the options of its sessions, such as a search path: what only a restart can change, for
 * connections of one process to two databases would write into both. The user and the password may change. Raises StartError.
 */
export function databasePlace(config: GatewayConfig, env: SecretSource): string {
  const { postgres, embedded } = config.database;
  return postgres === undefined ? (embedded?.data_dir ?? DEFAULT_DATA_DIR) : placeOf(demandUrl(postgres.url_env, env));
}

function placeOf({ label, settings }: DatabaseUrl): string {
  return `${label} ${settings().options ?? ''}`;
}

function findOperatorsServer(url_env: string, env: SecretSource): DatabaseServer {
  let url = demandUrl(url_env, env);
  const { label } = url;
  const place = placeOf(url);
  let text = secretIn(url_env, env);
  let latest = url.settings();

  /** The URL with which new connections are made: another password is another text. */
  function current(): DatabaseUrl {
    const now = secretIn(url_env, env);
    if (now === text) return url;
    text = now;
    const changed = demandUrl(url_env, env);
    if (placeOf(changed) === place) url = changed;
    return url;
  }

  return {
    settings() {
      try {
        latest = current().settings();
      } catch {
        // A certificate that is being replaced: the one before may do, and nobody would catch this here.
      }
      return latest;
    },
    label: () => label,
    remedy: `start it, or correct the URL in ${secretPlace(url_env)}`,
    close: async () => {},
  };
}

/** The URL never appears in an error: it holds the password. */
function demandUrl(url_env: string, env: SecretSource): DatabaseUrl {
  const fail = (what: string): never => {
    throw new StartError(`${what}; expected postgres://user:password@host:5432/database`, {
      exit_code: EXIT_CONFIGURATION,
    });
  };
  const key = secretFile(url_env) === undefined ? 'url_env' : 'url_file';
  const value = secretIn(url_env, env);
  if (value === undefined || value === '') {
    return fail(`${secretHolder(url_env)}, named by database.postgres.${key}, is not set`);
  }
  try {
    const url = readDatabaseUrl(value, env);
    // What is wrong with its certificates is told now; later nobody would catch it.
    const { ssl } = url.settings();
    if (typeof ssl === 'object') createSecureContext(ssl);
    return url;
  } catch (error) {
    if (error instanceof DatabaseUrlError) return fail(`the URL in ${secretPlace(url_env)} ${error.message}`);
    return fail(`the URL in ${secretPlace(url_env)} cannot be used (${(error as Error).message})`);
  }
}
