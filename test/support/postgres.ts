import { chmodSync, existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { openEmbeddedPostgres } from '../../engine/store/embedded/embedded-postgres.ts';
import { readServerState, stopServer } from '../../engine/store/embedded/postgres-process.ts';

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
  max_wal_size: '4GB',
  checkpoint_timeout: '1h',
  autovacuum: 'off',
  max_connections: '400',
};

/** A log that nobody reads. */
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Starts a PostgreSQL of its own in a temporary directory. `close` stops it, and any other embedded server below that
 * directory that a killed test left running, and removes everything.
 */
export async function startSuiteServer(): Promise<{ url: string; directory: string; close(): Promise<void> }> {
  const directory = mkdtempSync(join(tmpdir(), 'appscli-tests-'));
  // As root, PostgreSQL runs under another account, which has to get in.
  chmodSync(directory, 0o711);
  const remove = async () => {
    await stopServersBelow(directory);
    rmSync(directory, { recursive: true, force: true });
  };
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
      directory,
      async close() {
        await server.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
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
