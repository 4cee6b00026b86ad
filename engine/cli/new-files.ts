import { lstatSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, relative, resolve } from 'node:path';
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

/**
 * The line that lets a shell find this program by its name, once it stands in a directory; nothing where it finds it anyway.
 * `is_there`: whether it is installed there or above. Nobody is told to have npx look for it, which asks a registry for a name that
 * anybody can take.
 */
export function programPath(
  directory: string,
  env: NodeJS.ProcessEnv,
): { readonly line: string; readonly is_there: boolean } {
  // npm adds folders like this one for as long as it runs something.
  const lasting = (env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  if (lasting.some((folder) => isTaken(join(folder, 'appscli')))) return { line: '', is_there: true };
  const above = folderWithProgram(resolve(directory));
  const bin = join(relative(resolve(directory), above ?? resolve(directory)), 'node_modules', '.bin');
  return { line: `  export PATH="$PWD/${bin}:$PATH"\n`, is_there: above !== undefined };
}

function folderWithProgram(directory: string): string | undefined {
  if (directory === PACKAGE_ROOT || isTaken(join(directory, 'node_modules', '.bin', 'appscli'))) return directory;
  return dirname(directory) === directory ? undefined : folderWithProgram(dirname(directory));
}

/** The line that takes a shell to a directory, ready to paste; nothing for the current one. */
export function enterDirectory(directory: string): string {
  return directory === '.' ? '' : `  cd ${shellWord(directory)}\n`;
}

/** A path as a shell takes it for one word. */
export function shellWord(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
