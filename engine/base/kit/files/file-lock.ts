import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StartError } from '../../contract/start-error.ts';
import { identify, isRunning } from '../process/process-identity.ts';

const POLL_MS = 20;

/**
 * Runs something while no other process (nor another call in this one) holds the same lock. The lock of a process that
 * died is taken over. Raises StartError when a living one keeps it for longer than `patience_seconds`.
 */
export async function withLock<T>(path: string, patience_seconds: number, run: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + patience_seconds * 1000;
  while (!tryLock(path)) {
    const holder = holderOf(path);
    if (holder === undefined) continue;
    if (!isRunning(holder)) {
      await removeStale(path, holder, patience_seconds);
      continue;
    }
    if (performance.now() > deadline) {
      throw new StartError(
        `process ${Number.parseInt(holder, 10)} has held ${path} for more than ${patience_seconds} seconds; wait for it or end it`,
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

/** A symbolic link is made with its content in one step, so no one ever sees a lock without a holder. */
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

/**
 * Two processes may find the same dead holder. Without a second lock the slower one would remove the lock that the
 * faster one has just taken.
 */
async function removeStale(path: string, holder: string, patience_seconds: number): Promise<void> {
  await withLock(`${path}.stale`, patience_seconds, async () => {
    if (holderOf(path) === holder) unlinkSync(path);
  });
}

/** Says that this process uses something shared; it ends with the process. */
export interface Lease {
  release(): void;
}

let leases = 0;

/** Takes a lease in a directory. Hold the lock that guards the directory. */
export function takeLease(directory: string): Lease {
  mkdirSync(directory, { recursive: true });
  leases++;
  const path = join(directory, `${identify(process.pid)}.${leases}`);
  writeFileSync(path, '');
  return { release: () => rmSync(path, { force: true }) };
}

/** Counts the leases of living processes and forgets the others. Hold the lock that guards the directory. */
export function countLeases(directory: string): number {
  let living = 0;
  for (const name of readdirSync(directory)) {
    if (isRunning(name.slice(0, name.lastIndexOf('.')))) living++;
    else rmSync(join(directory, name), { force: true });
  }
  return living;
}
