import { createSecureContext } from 'node:tls';
import type { GatewayConfig } from '../contract/config.ts';
import type { Log } from '../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { type SecretSource, secretFile, secretHolder, secretIn, secretPlace } from '../kit/secret-names.ts';
import { type DatabaseUrl, DatabaseUrlError, readDatabaseUrl } from './database-url.ts';
import { openEmbeddedPostgres } from './embedded/embedded-postgres.ts';
import type { PostgresAddress } from './postgres-client.ts';

/** The PostgreSQL server of a configuration. */
export interface DatabaseServer extends PostgresAddress {
  /** What to do if it is unreachable; the end of a sentence. */
  readonly remedy: string;
  /** Stops using it; stops an embedded server without other users. */
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
 * Identity of the database of a configuration, including session options such as the search path. Only a restart can change it,
 * because one process must not write to two databases. User and password may change. Raises StartError.
 */
export function databasePlace(config: GatewayConfig, env: SecretSource): string {
  const { postgres, embedded } = config.database;
  return postgres === undefined ? (embedded?.data_dir ?? DEFAULT_DATA_DIR) : placeOf(requireUrl(postgres.url_env, env));
}

function placeOf({ label, settings }: DatabaseUrl): string {
  return `${label} ${settings().options ?? ''}`;
}

function findOperatorsServer(url_env: string, env: SecretSource): DatabaseServer {
  let url = requireUrl(url_env, env);
  const { label } = url;
  const place = placeOf(url);
  let text = secretIn(url_env, env);
  let latest = url.settings();

  /** The URL for new connections; it follows a changed password. */
  function current(): DatabaseUrl {
    const now = secretIn(url_env, env);
    if (now === text) return url;
    text = now;
    const changed = requireUrl(url_env, env);
    if (placeOf(changed) === place) url = changed;
    return url;
  }

  return {
    settings() {
      try {
        latest = current().settings();
      } catch {
        // A certificate is being replaced: keep the previous settings, because no caller handles an error here.
      }
      return latest;
    },
    label: () => label,
    remedy: `start it, or correct the URL in ${secretPlace(url_env)}`,
    close: async () => {},
  };
}

/** Reads the database URL. Errors never contain it, because it contains the password. */
function requireUrl(url_env: string, env: SecretSource): DatabaseUrl {
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
    // Fail now for bad certificates; later no caller would handle the error.
    const { ssl } = url.settings();
    if (typeof ssl === 'object') createSecureContext(ssl);
    return url;
  } catch (error) {
    if (error instanceof DatabaseUrlError) return fail(`the URL in ${secretPlace(url_env)} ${error.message}`);
    return fail(`the URL in ${secretPlace(url_env)} cannot be used (${(error as Error).message})`);
  }
}
