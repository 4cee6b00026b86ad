import { after } from 'node:test';

const callbacks: (() => unknown)[] = [];

/**
 * Runs something at the end of every test file of this process, for modules that several of them import: a hook of such a
 * module would belong to the first.
 */
export function atFileEnd(callback: () => unknown): void {
  callbacks.push(callback);
}

/** Runs what is due at the end of a file. */
export async function endFile(): Promise<void> {
  for (const callback of callbacks) await callback();
}

// A file that is run by hand is the only one of its process.
after(endFile);
