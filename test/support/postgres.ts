import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statfsSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { openEmbeddedPostgres, readServerState, stopServer } from '../../engine/base/store/embedded-postgres.ts';
import { SEARCH_PATH } from './suite-clock.ts';

/**
 * Durability is not what the tests test, and fsync is most of what they would wait for. Nothing is replicated, so the log
 * can be short. Vacuum would come at a moment of its own, and only the superuser may end it.
 */
const FAST = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '1GB',
  checkpoint_timeout: '1h',
  autovacuum: 'off',
  max_connections: '400',
  search_path: SEARCH_PATH,
};

/** A silent log. */
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Files in memory, on Linux. */
const MEMORY = '/dev/shm';
/** Several times a suite's need, and so more than a machine has that would miss it. */
const NEEDED_BYTES = 8 * 1024 ** 3;
const PREFIX = 'appscli-tests-';

/**
 * Where the files of a suite are: a database for a test is a copy of 300 files, for which a disk takes up to a second, and
 * memory a fiftieth of that.
 */
function placeOfFiles(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
    const options = mounts.map((line) => line.split(' ')).find(([, place]) => place === MEMORY)?.[3] ?? 'noexec';
    // Tests install packages, and run their programs.
    const runs_programs = !options.split(',').includes('noexec');
    return runs_programs && bavail * bsize >= NEEDED_BYTES ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Removes what killed suites left in memory, where it would stay unnoticed. */
async function removeLeftBehind(): Promise<void> {
  if (!existsSync(MEMORY)) return;
  for (const name of readdirSync(MEMORY)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !isRunning(Number(pid))) await removeSuiteDirectory(join(MEMORY, name));
  }
}

/** Removes the directory of a suite, after the servers that run below it have been stopped. */
export async function removeSuiteDirectory(directory: string): Promise<void> {
  if (!existsSync(directory)) return;
  await stopServersBelow(directory);
  rmSync(directory, { recursive: true, force: true });
}

/** Makes a directory for the files of a suite. */
export async function makeSuiteDirectory(): Promise<string> {
  // Another user's files are theirs to remove.
  await removeLeftBehind().catch(() => {});
  const directory = mkdtempSync(join(placeOfFiles(), `${PREFIX}${process.pid}-`));
  // As root, PostgreSQL runs under another account, which has to get in.
  chmodSync(directory, 0o711);
  return directory;
}

/**
 * Starts a PostgreSQL of its own in the directory of a suite. `close` stops it, and any other embedded server below that
 * directory that a killed test left running, and removes everything.
 */
export async function startSuiteServer(directory: string): Promise<{ url: string; close(): Promise<void> }> {
  try {
    const server = await openEmbeddedPostgres({
      data_dir: join(directory, 'postgres'),
      log: quiet,
      supervise: false,
      settings: FAST,
    });
    const { user, password, host, port, database } = server.settings();
    return {
      url: `postgres://${user}:${password}@${host}:${port}/${database}`,
      async close() {
        await server.close();
        await removeSuiteDirectory(directory);
      },
    };
  } catch (error) {
    await removeSuiteDirectory(directory);
    throw error;
  }
}

async function stopServersBelow(directory: string): Promise<void> {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.name === 'postmaster.pid') await stopServerOf(dirname(path));
    if (entry.name !== 'moved-to' || !entry.isSymbolicLink()) continue;
    const home = readlinkSync(path);
    if (existsSync(join(home, 'cluster'))) await stopServerOf(join(home, 'cluster'));
    rmSync(home, { recursive: true, force: true });
  }
}

async function stopServerOf(cluster: string): Promise<void> {
  const state = readServerState(cluster);
  if (state.kind === 'running') await stopServer(state.pid);
}
