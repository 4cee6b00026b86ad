import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function findPackageRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('The installation is incomplete: package.json is missing.');
    directory = parent;
  }
  return directory;
}

/** Directory with `pipelines/` and `schemas/`: the repository, or the installed package. */
export const PACKAGE_ROOT = findPackageRoot();

function readPackage(): { readonly version: string; readonly gateway?: string } {
  return JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'));
}

export function programVersion(): string {
  return readPackage().version;
}

/** Address of the gateway that served this package; `undefined` in a checkout and in the package of the gateway. */
export function packageGateway(): string | undefined {
  return readPackage().gateway;
}
