import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import type { Knex } from 'knex';
import type { GatewayConfig } from '../contract/config.ts';
import type { Log } from '../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { createRetryPause } from '../kit/retry-pause.ts';
import { type SecretSource, secretFile, secretHolder, secretIn, secretPlace } from '../kit/secret-names.ts';
import { type DatabaseUrl, DatabaseUrlError, readDatabaseUrl } from './database-url.ts';
import { openEmbeddedPostgres } from './embedded-postgres.ts';
import { migrate } from './migrate.ts';
import {
  createConnections,
  createListener,
  describeOutage,
  isOutage,
  isOutdated,
  isPartitionNew,
  isSchemaMissing,
  isWriteOutage,
  openPipelinedConnections,
  type PipelinedConnections,
  type PostgresAddress,
  runStatement,
  STATEMENT_TIMEOUT_SECONDS,
  storeUnavailable,
} from './postgres-client.ts';

export type { Knex } from 'knex';

const require = createRequire(import.meta.url);

/** Knex would also print the errors that it raises. */
const SILENT = { warn() {}, error() {}, deprecate() {}, debug() {} };

/** The PostgreSQL database of the gateway, embedded or the operator's. */
export interface Database {
  /**
   * Runs a named prepared statement; a name always has the same text. bigint becomes a number (RangeError beyond 2^53), `date` a text.
   * Raises store_unavailable if the database is unreachable, too slow, or not migrated.
   */
  query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]>;
  /** For admin commands and reports, not for requests; raises errors of pg. */
  readonly knex: Knex;
  /**
   * LISTEN on a dedicated connection that always reconnects. Resolves after the first attempt, successful or not. `onReconnect` runs
   * when listening starts late or again, because notifications may have been missed.
   */
  listen(channel: string, onMessage: (payload: string) => void, onReconnect: () => void): Promise<void>;
  /** Pipelined connections for statements without a waiting caller; opened at the first use. */
  lanes(): PipelinedConnections;
  /** Whether the database is available; `detail` has the reason if not, without credentials. */
  check(): Promise<{ ok: boolean; detail?: string }>;
  /** Closes all connections, and an embedded server without other users. Takes at most 5 seconds. */
  close(): Promise<void>;
}

const CLOSE_TIMEOUT_MS = 500;
const ADMIN_TIMEOUT_SECONDS = 60;
const LISTENERS = 1;
const MAX_LANES = 3;
const DEFAULT_POOL_MAX = 10;

/**
 * Opens the database of a configuration and migrates its schema.
 * - `until-ready`: raises StartError on failure.
 * - `in-background`: resolves after the first attempt, at the latest after 5 seconds, and retries for ever; until then `query` raises
 *   store_unavailable.
 *
 * Always raises StartError if retrying cannot help: an unusable configuration or embedded server, the schema of another version, or a
 * server that is too old.
 */
export async function openDatabase(options: {
  config: GatewayConfig;
  env: NodeJS.ProcessEnv;
  log: Log;
  wait: 'until-ready' | 'in-background';
}): Promise<Database> {
  const { config, env, log, wait } = options;
  const server = await findServer({ config, env, log, supervise: wait === 'in-background' });
  const connections = createConnections(server);
  const total = config.database.postgres?.pool_max ?? DEFAULT_POOL_MAX;
  const { admins, lane_count, statements } = splitPool(total);
  const pool = connections.createPool(statements, STATEMENT_TIMEOUT_SECONDS);
  const adminPool = connections.createPool(admins, ADMIN_TIMEOUT_SECONDS);
  let knex: Knex | undefined;
  let lanes: PipelinedConnections | undefined;
  const listener = createListener(connections);
  const readiness = createReadiness({ server, log, prepare: async () => void (await migrate(connections)) });

  const database: Database = {
    // Lazy: many gateways never need it, and loading it takes 0.2 seconds.
    get knex() {
      knex ??= (require('knex') as typeof import('knex')).knex({
        client: 'pg',
        connectionPool: adminPool,
        log: SILENT,
      });
      return knex;
    },
    listen: listener.listen,
    lanes: () => {
      lanes ??= openPipelinedConnections(connections, lane_count, log);
      return lanes;
    },
    async query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]> {
      let [repeats, renewals] = [0, 0];
      for (;;) {
        await readiness.renewed();
        readiness.assertReady();
        try {
          const rows = await runStatement<Row>(pool, name, text, values);
          readiness.up();
          return rows;
        } catch (error) {
          // Each connection of the pool may have outdated metadata, so retry up to once per connection.
          const is_passing = isOutdated(error) || isPartitionNew(error);
          const again = is_passing ? repeats++ < pool.options.max : isSchemaMissing(error) && renewals++ === 0;
          const classified = readiness.classify(error);
          if (!again) throw classified;
        }
      }
    },
    async check() {
      try {
        await database.query('check', 'select 1', []);
        return { ok: true };
      } catch (error) {
        return { ok: false, detail: readiness.reason() ?? describeOutage(error) };
      }
    },
    async close() {
      lanes?.close();
      const closed = Promise.allSettled([readiness.close(), listener.close(), adminPool.end(), pool.end()]);
      await Promise.race([closed, delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
      connections.cut();
      await server.close();
    },
  };

  const prepared =
    wait === 'in-background' ? readiness.prepareForEver().then(readiness.assertRetryable) : readiness.prepareOnce();
  await prepared.catch(async (error) => {
    await database.close();
    throw error;
  });
  return database;
}

/** Divides the connections: fewer than half of those for requests are pipelined. */
function splitPool(total: number) {
  const admins = total > 3 ? 2 : 1;
  const for_requests = total - admins - LISTENERS;
  const lane_count = Math.min(MAX_LANES, Math.floor((for_requests - 1) / 2));
  return { admins, lane_count, statements: for_requests - lane_count };
}

function createReadiness(options: { server: DatabaseServer; log: Log; prepare: () => Promise<void> }) {
  const { server, log, prepare } = options;
  const retry = createRetryPause();
  let prepared = false;
  let preparing: Promise<void> | undefined;
  let renewing: Promise<void> | undefined;
  let outage: string | undefined;
  let permanent: StartError | undefined;

  const unusable = (error: unknown, remedy: string, exit_code?: number) =>
    new StartError(`cannot use the database at ${server.label()}: ${explain(error)}${remedy}`, {
      ...(exit_code !== undefined && { exit_code }),
    });
  const down = (reason: string) => {
    if (outage === undefined && !retry.over)
      log.warn({ database: server.label(), reason }, 'the database cannot be used');
    outage = reason;
  };
  const up = () => {
    if (outage !== undefined) log.info({ database: server.label() }, 'the database can be used again');
    outage = undefined;
  };

  const keepPreparing = async (attempted: () => void) => {
    retry.reset();
    while (!retry.over) {
      try {
        await prepare();
        prepared = true;
        return up();
      } catch (error) {
        if (error instanceof StartError) permanent = error;
        down(explain(error));
      } finally {
        attempted();
      }
      await retry.wait();
    }
  };
  const prepareForEver = async () => {
    const attempt = Promise.withResolvers<void>();
    preparing ??= keepPreparing(attempt.resolve).finally(() => {
      preparing = undefined;
      attempt.resolve();
    });
    await Promise.race([attempt.promise, delay(STATEMENT_TIMEOUT_SECONDS * 1000, undefined, { ref: false })]);
  };

  return {
    up,
    prepareForEver,
    /** Resolves when a running re-creation of missing tables has ended; at once without one. */
    renewed: () => renewing,
    assertReady(): void {
      if (!prepared) throw storeUnavailable('it is not ready yet');
    },
    /** The error to raise for an error of a statement; records an outage. */
    classify(error: unknown): unknown {
      if (isSchemaMissing(error)) {
        // The database was replaced by an empty one: create the tables again.
        if (prepared) down(explain(error));
        prepared = false;
        renewing ??= prepareForEver().finally(() => {
          renewing = undefined;
        });
        return storeUnavailable('its tables are missing', error);
      }
      if (!isOutage(error)) return error;
      const reason = describeOutage(error);
      // A database that can be read is not down.
      if (!isWriteOutage(error)) down(reason);
      return storeUnavailable(reason, error);
    },
    reason: (): string | undefined => outage ?? (prepared ? undefined : 'it is not ready yet'),
    async prepareOnce(): Promise<void> {
      try {
        await prepare();
        prepared = true;
      } catch (error) {
        throw error instanceof StartError
          ? unusable(error, '', error.exit_code)
          : unusable(error, `; ${server.remedy}`);
      }
    },
    assertRetryable(): void {
      if (permanent !== undefined) throw unusable(permanent, '', permanent.exit_code);
    },
    async close(): Promise<void> {
      retry.end();
      await preparing;
    },
  };
}

function explain(error: unknown): string {
  if (error instanceof StartError) return error.message;
  const reason = describeOutage(error);
  // Knex puts the whole statement before the message of the server.
  const message = error instanceof Error ? (error.message.split(' - ').at(-1) ?? '').replace(/\s+/g, ' ') : '';
  return message === '' || message.includes(reason) ? reason : `${reason} (${message})`;
}

interface DatabaseServer extends PostgresAddress {
  /** What to do if it is unreachable; the end of a sentence. */
  readonly remedy: string;
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
