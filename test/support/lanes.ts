import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const TESTS = join(import.meta.dirname, '..');

/**
 * Folders whose tests need no server and change nothing of their process, and so run in one: starting a process for each
 * file took longer than the tests. They have no `beforeEach` or `afterEach` outside a `describe`, for it would hold for all.
 */
export const PURE_FOLDERS = [
  'bodies',
  'diagnostics',
  'diff',
  'forwarding',
  'golden',
  'json',
  'limits',
  'load',
  'policies',
  'rules',
  'run',
  'schemas',
  'testing',
  'translation',
] as const;

/** The tests of a folder, as a pattern. */
export function testsBelow(folder: string): string {
  return `test/${folder}/**/*.test.ts`;
}

/** Patterns of all tests that have a process for each file. */
export function everythingButPure(): string[] {
  const pure: readonly string[] = PURE_FOLDERS;
  const folders = readdirSync(TESTS, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return ['test/*.test.ts', ...folders.filter(({ name }) => !pure.includes(name)).map(({ name }) => testsBelow(name))];
}
