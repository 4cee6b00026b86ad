import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientConfig } from 'pg';
import type { Log } from '../../contract/services.ts';
import { StartError } from '../../contract/start-error.ts';
import { countLeases, type Lease, takeLease, withLock } from '../../kit/files/file-lock.ts';
import { findBinaries, prepareBinaries } from './postgres-binaries.ts';
import { createCluster, DATABASE, startServer, USER } from './postgres-cluster.ts';
import { findHome, type PostgresHome } from './postgres-home.ts';
import { readServerState, stopServer } from './postgres-process.ts';
import { explainFileError } from './postgres-start-errors.ts';

/** A PostgreSQL server of our own, shared by all processes that opened the same data directory. */
export interface EmbeddedPostgres {
  /** How to connect now; the port may change when the server is started again. */
  settings(): ClientConfig & { host: string; port: number; user: string; password: string; database: string };
  readonly log_file: string;
  close(): Promise<void>;
}

/** PostgreSQL settings for a run of the server, on top of those in its postgresql.conf. */
export type ServerSettings = Readonly<Record<string, string>>;

/**
 * What pg would otherwise take from PGSSLMODE, PGSSLNEGOTIATION, PGOPTIONS, PGREPLICATION and PGCLIENT_ENCODING, which whoever starts
 * the gateway has set for another server. An empty text would count as none.
 */
const OWN_WORDS = {
  ssl: false,
  sslnegotiation: 'postgres',
  options: ' ',
  replication: 'false',
  client_encoding: 'UTF8',
} as const;

const START_PATIENCE_SECONDS = 120;
const CLOSE_PATIENCE_SECONDS = 0.5;
const STATE_PATIENCE_SECONDS = 30;
const STATE_POLL_MS = 20;

/**
 * Starts the server of a data directory, making it first if need be, or joins the one that runs. With `supervise` a
 * server that dies is started again; one that somebody stopped is left alone and found again when it is back.
 * Raises StartError.
 */
export async function openEmbeddedPostgres(options: {
  data_dir: string;
  log: Log;
  supervise: boolean;
  settings?: ServerSettings;
}): Promise<EmbeddedPostgres> {
  const { log, supervise, settings = {} } = options;
  const data_dir = resolve(options.data_dir);
  try {
    const home = findHome(data_dir, log);
    const { lease, port } = await enter(home, settings);
    try {
      return shareServer({ home, lease, port, log, supervise, settings });
    } catch (error) {
      await leave(home, lease);
      throw error;
    }
  } catch (error) {
    throw explainFileError(error, data_dir);
  }
}

const guardOf = (home: PostgresHome) => join(home.directory, 'lock');
const leasesOf = (home: PostgresHome) => join(home.directory, 'leases');

async function enter(home: PostgresHome, settings: ServerSettings): Promise<{ lease: Lease; port: number }> {
  return withLock(guardOf(home), START_PATIENCE_SECONDS, async () => {
    const lease = takeLease(leasesOf(home));
    try {
      return { lease, port: await ensureRunning(home, settings) };
    } catch (error) {
      lease.release();
      throw error;
    }
  });
}

/** Resolves with the port of the running server, which it starts when there is none. Hold the lock. */
async function ensureRunning(home: PostgresHome, settings: ServerSettings): Promise<number> {
  for (const end = performance.now() + STATE_PATIENCE_SECONDS * 1000; ; await delay(STATE_POLL_MS)) {
    const state = readServerState(home.cluster);
    if (state.kind !== 'running') {
      const binaries = prepareBinaries(findBinaries(), home.directory, home.account);
      await createCluster(home, binaries);
      return (await startServer(home, binaries, settings)).port;
    }
    if (state.ready) return state.port;
    if (performance.now() > end) {
      throw new StartError(
        `the embedded PostgreSQL (process ${state.pid}) has been starting or stopping for more than ` +
          `${STATE_PATIENCE_SECONDS} seconds; see ${home.log_file}`,
      );
    }
  }
}

async function leave(home: PostgresHome, lease: Lease): Promise<void> {
  const stopIfLast = async () => {
    lease.release();
    if (countLeases(leasesOf(home)) > 0) return;
    const state = readServerState(home.cluster);
    if (state.kind === 'running') await stopServer(state.pid);
  };
  // Whoever keeps the lock for longer is starting the server, and will be the last to leave.
  await withLock(guardOf(home), CLOSE_PATIENCE_SECONDS, stopIfLast).catch(() => lease.release());
}

function shareServer(options: {
  home: PostgresHome;
  lease: Lease;
  port: number;
  log: Log;
  supervise: boolean;
  settings: ServerSettings;
}): EmbeddedPostgres {
  const { home, lease, log, supervise, settings } = options;
  const readPassword = () => readFileSync(home.password_file, 'utf8').trim();
  let current = { port: options.port, password: readPassword() };
  const supervisor = supervise
    ? superviseServer(home, settings, log, (port) => {
        if (port !== current.port) current = { port, password: readPassword() };
      })
    : undefined;
  return {
    settings: () => ({ ...OWN_WORDS, host: '127.0.0.1', ...current, user: USER, database: DATABASE }),
    log_file: home.log_file,
    async close() {
      await supervisor?.close();
      await leave(home, lease);
    },
  };
}

const WATCH_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const RESTART_PATIENCE_MS = 500;

/** Looks after a running server about once a second, and reports the port it is found at. */
function superviseServer(home: PostgresHome, settings: ServerSettings, log: Log, onPort: (port: number) => void) {
  const closing = new AbortController();
  let away = false;

  const look = async (): Promise<'well' | 'trouble'> => {
    const state = readServerState(home.cluster);
    if (state.kind === 'crashed') {
      log.warn({ pid: state.pid, log_file: home.log_file }, 'the embedded PostgreSQL died; starting it again');
      away = true;
      onPort(await withLock(guardOf(home), START_PATIENCE_SECONDS, () => ensureRunning(home, settings)));
      return 'trouble';
    }
    if (state.kind === 'stopped' && !away) {
      // It removed its pid file, so somebody stopped it and will have had a reason.
      log.warn({}, 'the embedded PostgreSQL was stopped; waiting for its return');
      away = true;
    }
    if (state.kind === 'running' && state.ready) {
      if (away) log.info({}, 'the embedded PostgreSQL runs again');
      away = false;
      onPort(state.port);
    }
    return 'well';
  };

  const watch = async () => {
    for (let pause = WATCH_MS; ; ) {
      await delay(pause, undefined, { signal: closing.signal, ref: false }).catch(() => {});
      if (closing.signal.aborted) return;
      const result = await look().catch((error) => {
        const { message } = explainFileError(error, home.directory) as Error;
        log.error({ reason: message }, 'the embedded PostgreSQL could not be started again');
        return 'trouble' as const;
      });
      pause = result === 'well' ? WATCH_MS : Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  };

  const watching = watch();
  return {
    async close() {
      closing.abort();
      await Promise.race([watching, delay(RESTART_PATIENCE_MS, undefined, { ref: false })]);
    },
  };
}
