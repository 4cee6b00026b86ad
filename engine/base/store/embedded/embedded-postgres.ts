import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientConfig } from 'pg';
import type { Log } from '../../contract/services.ts';
import { StartError } from '../../contract/start-error.ts';
import { addProcessMarker, countProcessMarkers, type ProcessMarker, withLock } from '../../kit/files/file-lock.ts';
import { findBinaries, prepareBinaries } from './postgres-binaries.ts';
import { createCluster, DATABASE, startServer, USER } from './postgres-cluster.ts';
import { findHome, type PostgresHome } from './postgres-home.ts';
import { readServerState, stopServer } from './postgres-process.ts';
import { explainFileError } from './postgres-start-errors.ts';

/** An embedded PostgreSQL server, shared by all processes that use its data directory. */
export interface EmbeddedPostgres {
  /** Current connection settings; the port may change when the server restarts. */
  settings(): ClientConfig & { host: string; port: number; user: string; password: string; database: string };
  readonly log_file: string;
  close(): Promise<void>;
}

/** PostgreSQL settings for one run of the server, in addition to its postgresql.conf. */
type ServerSettings = Readonly<Record<string, string>>;

/**
 * Overrides PGSSLMODE, PGSSLNEGOTIATION, PGOPTIONS, PGREPLICATION and PGCLIENT_ENCODING, which the environment may set for another
 * server. pg ignores an empty text, hence the space.
 */
const FIXED_SETTINGS = {
  ssl: false,
  sslnegotiation: 'postgres',
  options: ' ',
  replication: 'false',
  client_encoding: 'UTF8',
} as const;

const START_TIMEOUT_SECONDS = 120;
const CLOSE_TIMEOUT_SECONDS = 0.5;
const STATE_TIMEOUT_SECONDS = 30;
const STATE_POLL_MS = 20;

/**
 * Starts the server of a data directory, creating it if needed, or joins a running one. `supervise` restarts a crashed server, and
 * reconnects to a stopped one when it runs again. Raises StartError.
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
    const { marker, port } = await enter(home, settings);
    try {
      return shareServer({ home, marker, port, log, supervise, settings });
    } catch (error) {
      await leave(home, marker);
      throw error;
    }
  } catch (error) {
    throw explainFileError(error, data_dir);
  }
}

const guardOf = (home: PostgresHome) => join(home.directory, 'lock');
const markersOf = (home: PostgresHome) => join(home.directory, 'processes');

async function enter(home: PostgresHome, settings: ServerSettings): Promise<{ marker: ProcessMarker; port: number }> {
  return withLock(guardOf(home), START_TIMEOUT_SECONDS, async () => {
    const marker = addProcessMarker(markersOf(home));
    try {
      return { marker, port: await ensureRunning(home, settings) };
    } catch (error) {
      marker.remove();
      throw error;
    }
  });
}

/** Starts the server unless it runs, and resolves with its port. The caller holds the lock. */
async function ensureRunning(home: PostgresHome, settings: ServerSettings): Promise<number> {
  for (const end = performance.now() + STATE_TIMEOUT_SECONDS * 1000; ; await delay(STATE_POLL_MS)) {
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
          `${STATE_TIMEOUT_SECONDS} seconds; see ${home.log_file}`,
      );
    }
  }
}

async function leave(home: PostgresHome, marker: ProcessMarker): Promise<void> {
  const stopIfLast = async () => {
    marker.remove();
    if (countProcessMarkers(markersOf(home)) > 0) return;
    const state = readServerState(home.cluster);
    if (state.kind === 'running') await stopServer(state.pid);
  };
  // A process that holds the lock for longer is starting the server, and will be its last user.
  await withLock(guardOf(home), CLOSE_TIMEOUT_SECONDS, stopIfLast).catch(() => marker.remove());
}

function shareServer(options: {
  home: PostgresHome;
  marker: ProcessMarker;
  port: number;
  log: Log;
  supervise: boolean;
  settings: ServerSettings;
}): EmbeddedPostgres {
  const { home, marker, log, supervise, settings } = options;
  const readPassword = () => readFileSync(home.password_file, 'utf8').trim();
  let current = { port: options.port, password: readPassword() };
  const supervisor = supervise
    ? superviseServer(home, settings, log, (port) => {
        if (port !== current.port) current = { port, password: readPassword() };
      })
    : undefined;
  return {
    settings: () => ({ ...FIXED_SETTINGS, host: '127.0.0.1', ...current, user: USER, database: DATABASE }),
    log_file: home.log_file,
    async close() {
      await supervisor?.close();
      await leave(home, marker);
    },
  };
}

const WATCH_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const RESTART_TIMEOUT_MS = 500;

/** Supervises a server about once a second, and reports its port. */
function superviseServer(home: PostgresHome, settings: ServerSettings, log: Log, onPort: (port: number) => void) {
  const closing = new AbortController();
  let is_down = false;

  const check = async (): Promise<'well' | 'failed'> => {
    const state = readServerState(home.cluster);
    if (state.kind === 'crashed') {
      log.warn({ pid: state.pid, log_file: home.log_file }, 'the embedded PostgreSQL died; starting it again');
      is_down = true;
      onPort(await withLock(guardOf(home), START_TIMEOUT_SECONDS, () => ensureRunning(home, settings)));
      return 'failed';
    }
    if (state.kind === 'stopped' && !is_down) {
      // It removed its pid file, so it was stopped on purpose.
      log.warn({}, 'the embedded PostgreSQL was stopped; waiting until it runs again');
      is_down = true;
    }
    if (state.kind === 'running' && state.ready) {
      if (is_down) log.info({}, 'the embedded PostgreSQL runs again');
      is_down = false;
      onPort(state.port);
    }
    return 'well';
  };

  const watch = async () => {
    for (let pause = WATCH_MS; ; ) {
      await delay(pause, undefined, { signal: closing.signal, ref: false }).catch(() => {});
      if (closing.signal.aborted) return;
      const result = await check().catch((error) => {
        const { message } = explainFileError(error, home.directory) as Error;
        log.error({ reason: message }, 'the embedded PostgreSQL could not be started again');
        return 'failed' as const;
      });
      pause = result === 'well' ? WATCH_MS : Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  };

  const watching = watch();
  return {
    async close() {
      closing.abort();
      await Promise.race([watching, delay(RESTART_TIMEOUT_MS, undefined, { ref: false })]);
    },
  };
}
