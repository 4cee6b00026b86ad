import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartError } from '../../contract/start-error.ts';
import { identify, isRunning } from '../process/process-identity.ts';

const POLL_MS = 20;

/**
 * Runs a task under an exclusive lock, across processes; takes over the lock of a dead one. Raises StartError if a living process
 * holds the lock for longer than `timeout_seconds`.
 */
export async function withLock<T>(path: string, timeout_seconds: number, run: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + timeout_seconds * 1000;
  while (!tryLock(path)) {
    const holder = holderOf(path);
    if (holder === undefined) continue;
    if (!isRunning(holder)) {
      // Without a second lock, the slower of two processes would remove the new lock of the faster one.
      await withLock(`${path}.stale`, timeout_seconds, async () => {
        if (holderOf(path) === holder) unlinkSync(path);
      });
      continue;
    }
    if (performance.now() > deadline) {
      throw new StartError(
        `process ${Number.parseInt(holder, 10)} has held the lock ${path} for more than ${timeout_seconds} seconds; wait for the process or end it`,
      );
    }
    await delay(POLL_MS);
  }
  try {
    return await run();
  } finally {
    rmSync(path, { force: true });
  }
}

/** A symbolic link is created atomically with its target, so a lock always names its holder. */
function tryLock(path: string): boolean {
  try {
    symlinkSync(identify(process.pid) ?? String(process.pid), path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function holderOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file that marks this process as a user of a shared resource; stale once the process has ended. */
export interface ProcessMarker {
  remove(): void;
}

let markers = 0;

/** Adds a marker of this process to a directory. The caller holds the lock of the directory. */
export function addProcessMarker(directory: string): ProcessMarker {
  mkdirSync(directory, { recursive: true });
  markers++;
  const path = join(directory, `${identify(process.pid)}.${markers}`);
  writeFileSync(path, '');
  return { remove: () => rmSync(path, { force: true }) };
}

/** Counts the markers of living processes and removes the others. The caller holds the lock of the directory. */
export function countProcessMarkers(directory: string): number {
  let living = 0;
  for (const name of readdirSync(directory)) {
    if (isRunning(name.slice(0, name.lastIndexOf('.')))) living++;
    else rmSync(join(directory, name), { force: true });
  }
  return living;
}
