import { createRequire } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Pool } from 'pg';
import type { GatewayConfig } from '../contract/config.ts';
import type { Log } from '../contract/services.ts';
import { StartError } from '../contract/start-error.ts';
import { createRetryPause } from '../kit/retry-pause.ts';
import { type DatabaseServer, findServer } from './database-server.ts';
import { type Lanes, openLanes } from './lanes.ts';
import { createListener } from './listener.ts';
import { migrate } from './migrate.ts';
import {
  createConnections,
  describeTrouble,
  isOutdated,
  isPartitionNew,
  isSchemaMissing,
  isTrouble,
  isWriteTrouble,
  PATIENCE_SECONDS,
  runStatement,
  storeUnavailable,
} from './postgres-client.ts';

export type { Knex } from 'knex';

const require = createRequire(import.meta.url);

/** A knex instance on a pool of ours; whoever made the pool ends it. Reads knex itself when the first is made. */
function createKnex(pool: Pool): Knex {
  const { knex } = require('knex') as typeof import('knex');
  return knex({ client: 'pg', connectionPool: pool, log: SILENT });
}

function ignore() {}

/** Knex would write to the console what it also raises. */
const SILENT = { warn: ignore, error: ignore, deprecate: ignore, debug: ignore };

/** The gateway's PostgreSQL database, its own embedded one or the operator's. */
export interface Database {
  /**
   * Runs a named prepared statement; one name always goes with one text. bigint arrives as a number (RangeError beyond
   * 2^53), `date` as text. Raises store_unavailable when the database can't be reached, is too slow, or not migrated yet.
   */
  query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]>;
  /** For admin commands and reports, not for the path of a request: its errors are pg's own. */
  readonly knex: Knex;
  /**
   * LISTEN on a dedicated connection that reconnects for ever. Resolves after the first attempt, whether it worked or
   * not; `onReconnect` runs when listening begins late or again, since notifications may have been missed.
   */
  listen(channel: string, onMessage: (payload: string) => void, onReconnect: () => void): Promise<void>;
  /** Connections of their own for statements that are sent and not waited for; opened when they are first asked for. */
  lanes(): Lanes;
  /** Whether statements would run now; `detail` says why not, without credentials. */
  check(): Promise<{ ok: boolean; detail?: string }>;
  /** Closes every connection and, when this was its last user, the embedded server. Takes at most 5 seconds. */
  close(): Promise<void>;
}

const DRAIN_MS = 500;
const ADMIN_PATIENCE_SECONDS = 60;
const LISTENERS = 1;
const MAX_LANES = 3;
const DEFAULT_POOL_MAX = 10;

/**
 * Opens the database of a configuration and brings its schema up to date.
 * With 'until-ready' it raises StartError when that fails. With 'in-background' it resolves after the first attempt
 * whatever came of it, and after 5 seconds at the latest; it is then tried again for ever, while `query` raises
 * store_unavailable. Raises StartError either way when the configuration or the embedded server itself is
 * unusable, the schema of another version, or the server too old for it.
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
  const { admins, lane_count, statements } = shareOut(total);
  const pool = connections.createPool(statements, PATIENCE_SECONDS);
  const adminPool = connections.createPool(admins, ADMIN_PATIENCE_SECONDS);
  let knex: Knex | undefined;
  let lanes: Lanes | undefined;
  const listener = createListener(connections);
  const readiness = createReadiness({ server, log, prepare: async () => void (await migrate(connections)) });

  const database: Database = {
    // Many a gateway never needs it, and reading it takes a fifth of a second of the start.
    get knex() {
      knex ??= createKnex(adminPool);
      return knex;
    },
    listen: listener.listen,
    lanes: () => {
      lanes ??= openLanes(connections, lane_count, log);
      return lanes;
    },
    async query<Row>(name: string, text: string, values: readonly unknown[]): Promise<Row[]> {
      let [repeats, renewals] = [0, 0];
      for (;;) {
        await readiness.renewed();
        readiness.demand();
        try {
          const rows = await runStatement<Row>(pool, name, text, values);
          readiness.up();
          return rows;
        } catch (error) {
          // Each connection of the pool may know what is gone, and none but the last can be asked about the tables.
          const is_passing = isOutdated(error) || isPartitionNew(error);
          const again = is_passing ? repeats++ < pool.options.max : isSchemaMissing(error) && renewals++ === 0;
          const judged = readiness.judge(error);
          if (!again) throw judged;
        }
      }
    },
    async check() {
      try {
        await database.query('check', 'select 1', []);
        return { ok: true };
      } catch (error) {
        return { ok: false, detail: readiness.reason() ?? describeTrouble(error) };
      }
    },
    async close() {
      lanes?.close();
      const closed = Promise.allSettled([readiness.close(), listener.close(), adminPool.end(), pool.end()]);
      await Promise.race([closed, delay(DRAIN_MS, undefined, { ref: false })]);
      connections.cut();
      await server.close();
    },
  };

  const prepared =
    wait === 'in-background' ? readiness.prepareForEver().then(readiness.demandHope) : readiness.prepareOnce();
  await prepared.catch(async (error) => {
    await database.close();
    throw error;
  });
  return database;
}

/** What each of the connections is for: of those that requests have, fewer than half are lanes. */
function shareOut(total: number) {
  const admins = total > 3 ? 2 : 1;
  const for_requests = total - admins - LISTENERS;
  const lane_count = Math.min(MAX_LANES, Math.floor((for_requests - 1) / 2));
  return { admins, lane_count, statements: for_requests - lane_count };
}

/** Knows whether the database can be used, and says so in the log once per change. */
function createReadiness(options: { server: DatabaseServer; log: Log; prepare: () => Promise<void> }) {
  const { server, log, prepare } = options;
  const retry = createRetryPause();
  let prepared = false;
  let preparing: Promise<void> | undefined;
  let renewing: Promise<void> | undefined;
  let trouble: string | undefined;
  let hopeless: StartError | undefined;

  const unusable = (error: unknown, remedy: string, exit_code?: number) =>
    new StartError(`cannot use the database at ${server.label()}: ${explain(error)}${remedy}`, {
      ...(exit_code !== undefined && { exit_code }),
    });
  const down = (reason: string) => {
    if (trouble === undefined && !retry.over)
      log.warn({ database: server.label(), reason }, 'the database cannot be used');
    trouble = reason;
  };
  const up = () => {
    if (trouble !== undefined) log.info({ database: server.label() }, 'the database can be used again');
    trouble = undefined;
  };

  const keepPreparing = async (attempted: () => void) => {
    retry.reset();
    while (!retry.over) {
      try {
        await prepare();
        prepared = true;
        return up();
      } catch (error) {
        if (error instanceof StartError) hopeless = error;
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
    await Promise.race([attempt.promise, delay(PATIENCE_SECONDS * 1000, undefined, { ref: false })]);
  };

  return {
    up,
    /** Resolves after the first attempt, or when that takes too long. */
    prepareForEver,
    /** Resolves when tables that were missing are there again, or could not be made; at once when none were. */
    renewed: () => renewing,
    /** Raises store_unavailable while the schema is not known to be up to date. */
    demand(): void {
      if (!prepared) throw storeUnavailable('it is not ready yet');
    },
    /** The error to raise for one that a statement raised. */
    judge(error: unknown): unknown {
      if (isSchemaMissing(error)) {
        // Somebody replaced the database by another: it gets its tables like the first one did.
        if (prepared) down(explain(error));
        prepared = false;
        renewing ??= prepareForEver().finally(() => {
          renewing = undefined;
        });
        return storeUnavailable('its tables are missing', error);
      }
      if (!isTrouble(error)) return error;
      const reason = describeTrouble(error);
      // It goes on reading, so it is not away.
      if (!isWriteTrouble(error)) down(reason);
      return storeUnavailable(reason, error);
    },
    /** Why statements can't run; undefined when they can, as far as is known. */
    reason: (): string | undefined => trouble ?? (prepared ? undefined : 'it is not ready yet'),
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
    /** Raises StartError when no waiting helps. */
    demandHope(): void {
      if (hopeless !== undefined) throw unusable(hopeless, '', hopeless.exit_code);
    },
    async close(): Promise<void> {
      retry.end();
      await preparing;
    },
  };
}

/** Why the database can't be used, in one line for the operator. */
function explain(error: unknown): string {
  if (error instanceof StartError) return error.message;
  const reason = describeTrouble(error);
  // Knex puts the whole statement before the server's words.
  const message = error instanceof Error ? (error.message.split(' - ').at(-1) ?? '').replace(/\s+/g, ' ') : '';
  return message === '' || message.includes(reason) ? reason : `${reason} (${message})`;
}
