import { existsSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { PACKAGE_ROOT } from '../kit/package-root.ts';

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

/** Where packages beside this one, or in it, have their types. */
function typeRoots(root = PACKAGE_ROOT): string | undefined {
  const types = join(root, 'node_modules', '@types');
  if (existsSync(join(types, 'node'))) return types;
  return dirname(root) === root ? undefined : typeRoots(dirname(root));
}

/** Whether TypeScript finds this package from a directory as Node.js does. */
function isInstalledFor(directory: string): boolean {
  const packages = dirname(PACKAGE_ROOT);
  return basename(packages) === 'node_modules' && !relative(dirname(packages), resolve(directory)).startsWith('..');
}

/**
 * A tsconfig.json with which editors and `tsc` find the types of `appscli` and of Node.js from stages below a directory: as a
 * dependency, else at this installation.
 */
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
      'appscli/testing': [here(join(root, 'engine', 'simulate', `index${ending}`))],
    },
  };
  const compilerOptions = { ...OPTIONS, ...(!isInstalledFor(directory) && elsewhere) };
  return `${JSON.stringify({ compilerOptions, include: ['stages'] }, null, 2)}\n`;
}
