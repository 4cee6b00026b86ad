import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { StartError } from '../../contract/start-error.ts';

/** Mode of a file that only its owner may read. */
export const PRIVATE_FILE = 0o600;

/** Mode of a world-readable file. */
export const SHARED_FILE = 0o644;

const PRIVATE_DIRECTORY = 0o700;
const SHARED_DIRECTORY = 0o755;

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENOENT: 'its directory cannot be created',
  ENOTDIR: 'a part of its path is a file, not a directory',
  EBUSY: 'it is a mount point or in use',
  EISDIR: 'it is a directory',
  ELOOP: 'its symbolic links form a cycle',
};

/** Raises a StartError for a failed file operation: `path cannot be verb: reason`. */
export function failFile(path: string, verb: string, error: unknown): never {
  if (error instanceof StartError) throw error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  throw new StartError(`${path} cannot be ${verb}: ${REASONS[code] ?? message}`, { cause: error });
}

/** Creates a directory and its parents, one by one: Node's recursive mkdir hangs below /proc. */
export function makeDirectory(path: string, readers: 'owner' | 'everybody' = 'owner'): void {
  const mode = readers === 'owner' ? PRIVATE_DIRECTORY : SHARED_DIRECTORY;
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || path === dirname(path)) throw error;
    makeDirectory(dirname(path), readers);
    mkdirSync(path, { mode });
  }
}

const FILE_BYTES_MAX = 1024 * 1024;

/** The bytes of a user's file, 1 MiB at most. Raises StartError for anything else, and errors of the file system. */
export function readRegularFile(path: string, inspect?: (stat: Stats) => void): Buffer {
  const reject = (stat: Stats) => {
    const why = stat.isFile()
      ? 'larger than 1 MiB: move it away, or change it by hand'
      : 'not a regular file: move it away';
    return new StartError(`${path} is ${why}`);
  };
  return readBounded(path, FILE_BYTES_MAX, reject, inspect);
}

/** The bytes of a file. Raises the error of `reject` for a larger file and for anything else, and errors of the file system. */
export function readBounded(
  path: string,
  bytes_max: number,
  reject: (stat: Stats) => Error,
  inspect: (stat: Stats) => void = () => {},
): Buffer {
  // NONBLOCK: opening a named pipe would otherwise block forever.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const stat = fstatSync(file);
    if (!stat.isFile() || stat.size > bytes_max) throw reject(stat);
    inspect(stat);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** Writes a new file durably. Raises the errors of the file system. */
export function writeNewFile(
  path: string,
  text: string,
  {
    mode = PRIVATE_FILE,
    owner,
  }: { readonly mode?: number; readonly owner?: Pick<Stats, 'uid' | 'gid'> | undefined } = {},
): void {
  const file = openSync(path, 'wx', PRIVATE_FILE);
  try {
    writeFileSync(file, text);
    // Run as root, keep the owner of the file.
    if (owner !== undefined && process.getuid?.() === 0) fchownSync(file, owner.uid, owner.gid);
    if (process.platform !== 'win32') fchmodSync(file, mode);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
