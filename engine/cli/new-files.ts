import { lstatSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { StartError } from '../contract/start-error.ts';
import { failFile, makeDirectory } from '../kit/files/user-files.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import { usageError } from './exit-codes.ts';

function inTheWay(paths: readonly string[]): StartError {
  const exist = paths.length === 1 ? 'exists' : 'exist';
  return usageError(`${paths.join(', ')} ${exist} already; nothing was written`);
}

/** Whether something stands at a path, be it a link to nothing. */
export function isTaken(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Not even its directory can be looked at; writing there says why.
    return false;
  }
}

/**
 * Writes files that are all new, by their path below a directory: either every one or none. Raises StartError that names
 * the file that is in the way or can't be written.
 */
export async function writeNewFiles(directory: string, files: Readonly<Record<string, string>>): Promise<void> {
  const written: string[] = [];
  let path = directory;
  try {
    const taken = Object.keys(files).filter((name) => isTaken(join(directory, name)));
    if (taken.length > 0) throw inTheWay(taken.map((name) => join(directory, name)));
    for (const [name, text] of Object.entries(files)) {
      path = join(directory, name);
      makeDirectory(dirname(path), 'everybody');
      await writeFile(path, text, { flag: 'wx' });
      written.push(path);
    }
  } catch (error) {
    await Promise.all(written.map((file) => rm(file, { force: true })));
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw inTheWay([path]);
    failFile(path, 'written', error);
  }
}

/** How to call this program in text to paste: `npx appscli` when that is how it was called. */
export function ownName(env: NodeJS.ProcessEnv): string {
  return env.npm_command === 'exec' ? 'npx appscli' : 'appscli';
}

/** Whether `npx appscli` in a directory runs this program: npx looks there and in those above, and else in the registry. */
export function isFoundByNpx(directory: string): boolean {
  if (directory === PACKAGE_ROOT || isTaken(join(directory, 'node_modules', '.bin', 'appscli'))) return true;
  return dirname(directory) !== directory && isFoundByNpx(dirname(directory));
}

/** The line that takes a shell to a directory, ready to paste; nothing for the current one. */
export function enterDirectory(directory: string): string {
  return directory === '.' ? '' : `  cd ${shellWord(directory)}\n`;
}

/** A path as a shell takes it for one word. */
export function shellWord(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
