import { existsSync, lstatSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { basename, delimiter, dirname, join, relative, resolve, sep } from 'node:path';
import { failFile, makeDirectory } from '../../base/kit/files/user-files.ts';
import { PACKAGE_ROOT } from '../../base/kit/package-root.ts';
import { quoteForSh } from '../client-files/key-helper.ts';
import { usageError } from './commands.ts';

const inTheWay = (paths: readonly string[]) =>
  usageError(`${paths.join(', ')} ${paths.length === 1 ? 'exists' : 'exist'} already; nothing was written`);

export function isTaken(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // An inaccessible directory: writing reports the reason.
    return false;
  }
}

/** Writes new files below a directory: all or none. Raises StartError that names the file. */
export async function writeNewFiles(directory: string, files: Readonly<Record<string, string>>): Promise<void> {
  const written: string[] = [];
  let path = directory;
  try {
    const taken = Object.keys(files)
      .map((name) => join(directory, name))
      .filter(isTaken);
    if (taken.length > 0) throw inTheWay(taken);
    for (const [name, text] of Object.entries(files)) {
      path = join(directory, name);
      makeDirectory(dirname(path), 'everybody');
      await writeFile(path, text, { flag: 'wx' });
      written.push(path);
    }
  } catch (error) {
    await Promise.all(written.map((file) => rm(file, { force: true })));
    // Another program has just written it.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw inTheWay([path]);
    failFile(path, 'written', error);
  }
}

/** The line that puts this program on the PATH; empty if it is there. Never npx, which looks up a public registry. */
export function programPath(
  directory: string,
  env: NodeJS.ProcessEnv,
): { readonly line: string; readonly is_there: boolean } {
  // npm adds such folders only while it runs a script.
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

export function enterDirectory(directory: string): string {
  return directory === '.' ? '' : `  cd ${quoteForSh(directory)}\n`;
}

const OPTIONS = {
  target: 'es2024',
  module: 'nodenext',
  types: ['node'],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  // Node.js runs the files as they are.
  allowImportingTsExtensions: true,
  erasableSyntaxOnly: true,
  verbatimModuleSyntax: true,
};

function typeRoots(root = PACKAGE_ROOT): string | undefined {
  const types = join(root, 'node_modules', '@types');
  if (existsSync(join(types, 'node'))) return types;
  return dirname(root) === root ? undefined : typeRoots(dirname(root));
}

function isInstalledFor(directory: string): boolean {
  const packages = dirname(PACKAGE_ROOT);
  return basename(packages) === 'node_modules' && !relative(dirname(packages), resolve(directory)).startsWith('..');
}

/** A tsconfig.json that resolves the types of `appscli` and Node.js: from a dependency, else from this installation. */
export function stagesTsconfig(directory: string): string {
  const here = (path: string) => {
    const from_here = relative(resolve(directory), path).split(sep).join('/');
    return from_here.startsWith('..') ? from_here : `./${from_here}`;
  };
  const is_checkout = existsSync(join(PACKAGE_ROOT, 'engine', 'api.ts'));
  const [root, ending] = is_checkout ? [PACKAGE_ROOT, '.ts'] : [join(PACKAGE_ROOT, 'dist'), '.d.ts'];
  const types = typeRoots();
  const elsewhere = {
    ...(types !== undefined && { typeRoots: [here(types)] }),
    paths: {
      appscli: [here(join(root, 'engine', `api${ending}`))],
      'appscli/testing': [here(join(root, 'engine/edge/simulate', `index${ending}`))],
    },
  };
  const compilerOptions = { ...OPTIONS, ...(!isInstalledFor(directory) && elsewhere) };
  return `${JSON.stringify({ compilerOptions, include: ['stages'] }, null, 2)}\n`;
}
