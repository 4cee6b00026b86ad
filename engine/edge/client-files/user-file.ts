import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { chmodSync, constants, copyFileSync, lstatSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { StartError } from '../../base/contract/start-error.ts';
import {
  failFile,
  makeDirectory,
  PRIVATE_FILE,
  readRegularFile,
  SHARED_FILE,
  writeNewFile,
} from '../../base/kit/files/user-files.ts';
import type { Draft } from './clients.ts';

const BACKUPS_MAX = 10_000;

/** The text of a user's file; `undefined` if it does not exist. Raises StartError unless it is a regular file in UTF-8, 1 MiB at most. */
export function readUserFile(path: string): string | undefined {
  try {
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
    const bytes = readRegularFile(path);
    if (isUtf8(bytes)) return bytes.toString('utf8');
    throw new StartError(`${path} is not UTF-8: save it as UTF-8 first`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new StartError(`${path} is a broken link: create its target, or remove the link`);
    }
    return failFile(path, 'read', error);
  }
}

interface Prepared {
  readonly target: string;
  readonly draft: string;
  readonly backup: string | undefined;
  readonly is_new: boolean;
}

/** Replaces files atomically with backups, all or none; follows links. Returns backup paths. Raises StartError. */
export function writeUserFiles(drafts: readonly Draft[]): (string | undefined)[] {
  const prepared: Prepared[] = [];
  let current = drafts[0]?.path ?? '';
  try {
    for (const draft of drafts) {
      current = draft.path;
      if (readUserFile(draft.path) !== draft.before) {
        throw new StartError(`another program has changed ${draft.path}; nothing was written, run this again`);
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
      for (const { target, backup, is_new } of prepared.slice(0, index)) {
        if (backup !== undefined) renameSync(backup, target);
        else if (is_new) remove(target);
      }
      for (const each of prepared.slice(index)) for (const path of [each.draft, each.backup]) remove(path);
      return failFile(target, 'replaced', error);
    }
  }
  return prepared.map(({ backup }) => backup);
}

function remove(path: string | undefined): void {
  if (path !== undefined) rmSync(path, { force: true });
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
    writeNewFile(draft, after, { mode, owner: old });
  } catch (error) {
    remove(draft);
    remove(backup);
    throw error;
  }
  return { target, draft, backup, is_new };
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
