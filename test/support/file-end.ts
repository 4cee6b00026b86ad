import { join } from 'node:path';
import { after, type TestContext } from 'node:test';

const at_file_end: (() => unknown)[] = [];
const at_process_end: (() => unknown)[] = [];

/**
 * Runs something at the end of every test file of this process, for modules that several of them import: a hook of such a
 * module would belong to the first.
 */
export function atFileEnd(callback: () => unknown): void {
  at_file_end.push(callback);
}

/** Runs something after the last test file of this process, for shared resources. The last registered runs first. */
export function atProcessEnd(callback: () => unknown): void {
  at_process_end.unshift(callback);
}

/**
 * Takes what is to be done at the end of a test, and does the last of it first. `after` hooks run in the order they were given, and
 * none runs after one that failed: what a gateway uses would go before the gateway.
 */
export function lastFirst(t: TestContext): (end: () => unknown) => void {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends.toReversed()) await end();
  });
  return (end) => void ends.push(end);
}

/** Runs the tasks at the end of a file. */
export async function endFile(): Promise<void> {
  for (const callback of at_file_end) await callback();
}

/** Runs the tasks after the last file. */
export async function endProcess(): Promise<void> {
  for (const callback of at_process_end.splice(0)) await callback();
}

// A file that is run by hand is the only one of its process. Where there are more, Node.js runs this after the first.
if (process.argv[1] !== join(import.meta.dirname, 'worker.ts')) {
  after(async () => {
    await endFile();
    await endProcess();
  });
}
