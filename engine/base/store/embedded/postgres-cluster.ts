import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartError } from '../../contract/start-error.ts';
import { identify } from '../../kit/process/process-identity.ts';
import type { PostgresBinaries } from './postgres-binaries.ts';
import type { PostgresHome } from './postgres-home.ts';
import { readServerState, runAs, runProgram, stopServer } from './postgres-process.ts';
import { damagedCluster, explainOutput } from './postgres-start-errors.ts';

export const USER = 'appscli';
export const DATABASE = 'appscli';
const SUPERUSER = 'postgres';

/** Initial postgresql.conf of a new cluster; operators may change it. */
const MODEST: Readonly<Record<string, string>> = {
  max_connections: '100',
  shared_buffers: '64MB',
  max_wal_size: '256MB',
  io_method: 'sync',
  jit: 'off',
  // Parallel queries need more shared memory than containers usually have.
  max_parallel_workers_per_gather: '0',
  // Error details can contain values of rows.
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
};

/** Set at every start, so that only local processes can connect. */
const LOOPBACK_ONLY: Readonly<Record<string, string>> = { listen_addresses: '127.0.0.1', unix_socket_directories: '' };

const asOptions = (settings: Readonly<Record<string, string>>) =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

/**
 * Creates the cluster with its role, database and password, unless it exists. Creation is atomic (rename); the next attempt removes the
 * rest of an interrupted one. Raises StartError.
 */
export async function createCluster(home: PostgresHome, binaries: PostgresBinaries): Promise<void> {
  if (existsSync(home.cluster)) return checkVersion(home, binaries);
  for (const name of readdirSync(home.directory)) {
    if (name.startsWith('cluster.new-')) rmSync(join(home.directory, name), { recursive: true });
  }
  const staging = `${home.cluster}.new-${randomBytes(4).toString('hex')}`;
  mkdirSync(staging, { mode: 0o700 });
  if (home.account !== undefined) chownSync(staging, home.account.uid, home.account.gid);

  const port = await findFreePort();
  const settings = { ...MODEST, ...LOOPBACK_ONLY, port: String(port) };
  const how = runAs(home.account, home.directory);
  await run(join(binaries.directory, 'bin/initdb'), [
    `--pgdata=${staging}`,
    `--username=${SUPERUSER}`,
    // Only the role below has a password, so a login as the superuser is impossible.
    '--auth-local=reject',
    '--auth-host=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--no-instructions',
    ...asOptions(settings),
  ]);
  const password = randomBytes(24).toString('base64url');
  await run(
    join(binaries.directory, 'bin/postgres'),
    ['--single', '-D', staging, '-c', 'exit_on_error=on', 'postgres'],
    `create role ${USER} login createdb password '${password}'\ncreate database ${DATABASE} owner ${USER}\n`,
  );
  const password_file = `${home.password_file}.new`;
  rmSync(password_file, { force: true });
  writeFileSync(password_file, `${password}\n`, { mode: 0o600, flush: true });
  renameSync(password_file, home.password_file);
  renameSync(staging, home.cluster);

  async function run(program: string, args: readonly string[], input?: string): Promise<void> {
    const { status, output } = await runProgram(program, args, how, input);
    if (status === 0) return;
    throw explainOutput(output, home, 'could not be set up');
  }
}

function checkVersion(home: PostgresHome, binaries: PostgresBinaries): void {
  const file = join(home.cluster, 'PG_VERSION');
  if (!existsSync(file)) throw damagedCluster(home, 'PG_VERSION is missing');
  const made = readFileSync(file, 'utf8').trim();
  const installed = binaries.version.split('.')[0];
  if (made === installed) return;
  throw new StartError(
    `${home.cluster} was made by PostgreSQL ${made}, but PostgreSQL ${installed} is installed; run the version of this program ` +
      'that made it, or set database.embedded.data_dir to a new directory',
  );
}

const START_ATTEMPTS = 5;
const RETRY_MS = 300;
const POLL_MS = 20;
const START_TIMEOUT_MS = 60_000;

/**
 * Starts the stopped server of a cluster and waits until it is ready. `settings` are for this run only.
 * Raises StartError.
 */
export async function startServer(
  home: PostgresHome,
  binaries: PostgresBinaries,
  settings: Readonly<Record<string, string>>,
): Promise<{ pid: number; port: number }> {
  removeForeignPidFile(home);
  let port = await usablePort(home);
  for (let attempt = 1; ; attempt++) {
    const failure = await tryStart(home, binaries, { ...LOOPBACK_ONLY, ...settings, port: String(port) });
    if (typeof failure !== 'string') return { ...failure, port };
    const portTaken = /could not bind|could not create any TCP\/IP sockets/.test(failure);
    // Sessions of a killed server take a moment to end.
    const dying = /pre-existing shared memory block/.test(failure);
    if (attempt === START_ATTEMPTS || !(portTaken || dying)) {
      throw explainOutput(failure, home, 'did not start');
    }
    if (portTaken) port = await findFreePort();
    else await delay(RETRY_MS);
  }
}

/** Resolves with the pid when the server is ready, or with its output if it failed. */
async function tryStart(
  home: PostgresHome,
  binaries: PostgresBinaries,
  settings: Readonly<Record<string, string>>,
): Promise<{ pid: number } | string> {
  const log = openLog(home.log_file);
  const { size } = fstatSync(log);
  const child = spawn(join(binaries.directory, 'bin/postgres'), ['-D', home.cluster, ...asOptions(settings)], {
    ...runAs(home.account, home.directory),
    // Its own process group: Ctrl-C in a terminal must not end the database before the gateway.
    detached: true,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  let failure: Error | undefined;
  child.once('error', (error) => {
    failure = error;
  });
  child.unref();
  for (const end = performance.now() + START_TIMEOUT_MS; performance.now() < end; await delay(POLL_MS)) {
    if (failure !== undefined) throw failure;
    if (child.pid === undefined) continue;
    if (child.exitCode !== null || child.signalCode !== null || identify(child.pid) === undefined) {
      return readFileSync(home.log_file).subarray(size).toString('utf8');
    }
    const state = readServerState(home.cluster);
    if (state.kind === 'running' && state.pid === child.pid && state.ready) return { pid: child.pid };
  }
  if (child.pid !== undefined) await stopServer(child.pid);
  return `it was not ready after ${START_TIMEOUT_MS / 1000} seconds`;
}

const LOG_LIMIT_BYTES = 5_000_000;

function openLog(file: string): number {
  const log = openSync(file, 'a', 0o600);
  if (fstatSync(log).size > LOG_LIMIT_BYTES) ftruncateSync(log);
  return log;
}

/**
 * Removes a stale pid file. PostgreSQL refuses to start while its process id exists, even if an unrelated program got the id after a
 * reboot or container restart.
 */
function removeForeignPidFile(home: PostgresHome): void {
  const state = readServerState(home.cluster);
  if (state.kind !== 'crashed' || identify(state.pid) === undefined) return;
  rmSync(join(home.cluster, 'postmaster.pid'));
}

/** The previous port, so that clients can reconnect; another one if it is taken. */
async function usablePort(home: PostgresHome): Promise<number> {
  const conf = readFileSync(join(home.cluster, 'postgresql.conf'), 'utf8');
  const port = Number([...conf.matchAll(/^port\s*=\s*'?(\d+)/gm)].at(-1)?.[1] ?? 0);
  return findFreePort(port).catch(() => findFreePort());
}

function findFreePort(wanted = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(wanted, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : wanted));
    });
  });
}
