import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { StartError } from '../../contract/start-error.ts';

/** Mode of a file that only its owner may read. */
export const PRIVATE_FILE = 0o600;

/** Mode of a file that everybody may read. */
export const SHARED_FILE = 0o644;

const PRIVATE_DIRECTORY = 0o700;
const SHARED_DIRECTORY = 0o755;

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENOENT: 'no directory can be made there',
  ENOTDIR: 'a file stands where a directory is needed',
  EBUSY: 'it is mounted by itself or in use',
  EISDIR: 'it is a directory',
  ELOOP: 'its links lead in a circle',
};

/** Raises what went wrong with a file of a user as a StartError: `path cannot be verb: reason`. */
export function failFile(path: string, verb: string, error: unknown): never {
  if (error instanceof StartError) throw error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  throw new StartError(`${path} cannot be ${verb}: ${REASONS[code] ?? message}`, { cause: error });
}

/**
 * Makes a directory and those above it, for their owner alone or for everybody to read. It does so one by one: asked for
 * all at once, Node.js never ends below /proc.
 */
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
