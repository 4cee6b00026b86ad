import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StartError } from '../../base/contract/start-error.ts';
import { failFile, makeDirectory, PRIVATE_FILE, SHARED_FILE } from '../../base/kit/files/user-files.ts';
import type { Draft } from './clients.ts';

const FILE_BYTES_MAX = 1024 * 1024;
const BACKUPS_MAX = 10_000;

/** The text of a user's file; `undefined` where there is none. Raises StartError for what is no file, too large or no UTF-8. */
export function readUserFile(path: string): string | undefined {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
    // Without NONBLOCK a named pipe in its place would keep us waiting for ever.
    const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    try {
      const stat = fstatSync(file);
      if (!stat.isFile()) throw new StartError(`${path} is no file: move it away`);
      if (stat.size > FILE_BYTES_MAX) throw new StartError(`${path} is larger than 1 MiB: change it by hand`);
      return decode(path, readFileSync(file));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new StartError(`${path} is a link to a file that is not there: make the file, or remove the link`);
    }
    return failFile(path, 'read', error);
  }
}

function decode(path: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new StartError(`${path} is not UTF-8: save it as UTF-8 first`);
  }
}

/** A draft on the disk, beside the file it will replace. */
interface Prepared {
  /** The file itself, where the path is a link. */
  readonly target: string;
  readonly draft: string;
  readonly backup: string | undefined;
  readonly is_new: boolean;
}

/**
 * Puts drafts in the place of the files they were made from, each in one step, after a backup beside it: all of them, or
 * none when one can't be.  A link is followed. Returns the path of the
 * backup of each, `undefined` for a new file and for one that only gets other rights. Raises StartError.
 */
export function writeUserFiles(drafts: readonly Draft[]): (string | undefined)[] {
  const prepared: Prepared[] = [];
  let current = drafts[0]?.path ?? '';
  try {
    for (const draft of drafts) {
      current = draft.path;
      if (readUserFile(draft.path) !== draft.before) {
        throw new StartError(
          `${draft.path} was changed by another program meanwhile; nothing was written, run this again`,
        );
      }
      prepared.push(prepare(draft));
    }
  } catch (error) {
    for (const { draft, backup } of prepared) for (const path of [draft, backup]) remove(path);
    return failFile(current, 'written', error);
  }
  for (const [index, { target, draft }] of prepared.entries()) {
    try {
      renameSync(draft, target);
    } catch (error) {
      for (const done of prepared.slice(0, index)) putBack(done);
      for (const each of prepared.slice(index)) for (const path of [each.draft, each.backup]) remove(path);
      return failFile(target, 'replaced', error);
    }
  }
  return prepared.map(({ backup }) => backup);
}

function remove(path: string | undefined): void {
  if (path !== undefined) rmSync(path, { force: true });
}

/** Undoes a replacement, because another one failed: what was there before comes back from its backup. */
function putBack({ target, backup, is_new }: Prepared): void {
  if (backup !== undefined) renameSync(backup, target);
  else if (is_new) remove(target);
}

function prepare({ path, before, after, secret, shared }: Draft): Prepared {
  const is_new = before === undefined;
  if (is_new) makeDirectory(dirname(path), shared ? 'everybody' : 'owner');
  const target = is_new ? path : realpathSync(path);
  const old = is_new ? undefined : statSync(target);
  const mode = secret ? PRIVATE_FILE : (old?.mode ?? (shared ? SHARED_FILE : PRIVATE_FILE)) & 0o777;
  const backup = old === undefined || before === after ? undefined : makeBackup(target, secret);
  const draft = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    writeDraft(draft, after, mode, old);
  } catch (error) {
    remove(draft);
    remove(backup);
    throw error;
  }
  return { target, draft, backup, is_new };
}

function writeDraft(
  path: string,
  text: string,
  mode: number,
  owner: { readonly uid: number; readonly gid: number } | undefined,
): void {
  const file = openSync(path, 'wx', PRIVATE_FILE);
  try {
    writeFileSync(file, text);
    // Run by root, it must stay the file of the user it belongs to.
    if (owner !== undefined && process.getuid?.() === 0) fchownSync(file, owner.uid, owner.gid);
    if (process.platform !== 'win32') fchmodSync(file, mode);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Copies a file to the first free name beside it; an earlier backup is never overwritten. */
function makeBackup(target: string, secret: boolean): string {
  for (let n = 1; n <= BACKUPS_MAX; n++) {
    const backup = `${target}.backup-${n}`;
    try {
      copyFileSync(target, backup, constants.COPYFILE_EXCL);
      if (secret && process.platform !== 'win32') chmodSync(backup, PRIVATE_FILE);
      return backup;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new StartError(`${target} has ${BACKUPS_MAX} backups beside it: remove some`);
}
