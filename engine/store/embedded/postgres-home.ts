import { chmodSync, existsSync, mkdirSync, mkdtempSync, readlinkSync, rmdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, sep } from 'node:path';
import type { Log } from '../../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { type Account, chooseAccount, findBarrier, isRoot, ownerOf } from './postgres-account.ts';

/** The directory everything of an embedded server lives in, and the account it runs under. */
export interface PostgresHome {
  /** data_dir itself, or the directory it points at. */
  readonly directory: string;
  /** PGDATA. */
  readonly cluster: string;
  readonly password_file: string;
  readonly log_file: string;
  /** `undefined`: the server runs as the user this process runs as. */
  readonly account: Account | undefined;
}

/** Enter, but not list: the server's account has to reach its cluster. */
const ENTER_ONLY = 0o711;
const PRIVATE = 0o700;
const SYSTEM_LOCATION = '/var/lib/appscli';
const POINTER = 'moved-to';

/**
 * Finds or makes the home of the server of a data directory. As root it may have to be elsewhere: PostgreSQL then runs
 * under another account, which can't enter a directory below /root. data_dir holds a link to it in that case.
 * Raises StartError, and errors of the file system.
 */
export function findHome(data_dir: string, log: Log, system_location = SYSTEM_LOCATION): PostgresHome {
  makeDirectory(data_dir, isRoot() ? ENTER_ONLY : PRIVATE);
  const moved = followPointer(data_dir);
  const directory = moved ?? data_dir;
  if (!isRoot()) return homeAt(directory, undefined);

  const cluster = join(directory, 'cluster');
  // A user's cluster stays the user's when root runs a command on it.
  const owner = existsSync(cluster) ? ownerOf(cluster) : undefined;
  const account = owner === undefined || owner.uid === 0 ? chooseAccount() : owner;
  const barrier = findBarrier(directory, account);
  if (barrier === undefined) return homeAt(directory, account);
  if (moved === undefined && !existsSync(cluster))
    return homeAt(moveAway(data_dir, account, log, system_location), account);
  throw new StartError(
    `as root, PostgreSQL runs as ${account.name}, who cannot enter ${barrier} on the way to ${cluster}; ` +
      `allow it (chmod o+x ${barrier}) or start as the directory's owner`,
    { exit_code: EXIT_CONFIGURATION },
  );
}

/** The home of a data directory that was used before; `undefined` when there is none. Makes nothing. */
export function findExistingHome(data_dir: string): PostgresHome | undefined {
  const pointer = join(data_dir, POINTER);
  const home = homeAt(existsSync(pointer) ? readlinkSync(pointer) : data_dir, undefined);
  return existsSync(home.cluster) ? home : undefined;
}

function homeAt(directory: string, account: Account | undefined): PostgresHome {
  return {
    directory,
    cluster: join(directory, 'cluster'),
    password_file: join(directory, 'password'),
    log_file: join(directory, 'server.log'),
    account,
  };
}

function makeDirectory(path: string, mode: number): void {
  if (existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true });
  mkdirSync(path, { mode, recursive: true });
  // What umask took away; the directory is ours, we have just made it.
  chmodSync(path, mode);
}

function followPointer(data_dir: string): string | undefined {
  const pointer = join(data_dir, POINTER);
  let target: string;
  try {
    target = readlinkSync(pointer);
  } catch {
    return undefined;
  }
  if (existsSync(target)) return target;
  throw new StartError(
    `the database of ${data_dir} was kept in ${target}, which is gone; restore it, or remove ${pointer} to begin with an empty one`,
  );
}

/** Makes a home that the account can reach and leaves a link to it; when two do this at once, the first link counts. */
function moveAway(data_dir: string, account: Account, log: Log, system_location: string): string {
  const directory = makeReachable(projectOf(data_dir), account, system_location);
  try {
    symlinkSync(directory, join(data_dir, POINTER));
  } catch (error) {
    rmdirSync(directory);
    const first = followPointer(data_dir);
    if (first === undefined) throw error;
    return first;
  }
  log.info(
    { data_dir, directory },
    `PostgreSQL runs as ${account.name}, who cannot enter data_dir; its data is elsewhere`,
  );
  return directory;
}

/** Name of the directory that `.appscli/postgres` is in, or something near it. */
function projectOf(data_dir: string): string {
  const parts = dirname(data_dir).split(sep);
  return parts.findLast((part) => part !== '' && !part.startsWith('.')) ?? 'gateway';
}

function makeReachable(project: string, account: Account, system_location: string): string {
  for (const location of [system_location, tmpdir(), '/tmp']) {
    try {
      mkdirSync(location, { recursive: true, mode: 0o755 });
      if (findBarrier(location, account) !== undefined) continue;
      const directory = mkdtempSync(join(location, `${project}-`));
      chmodSync(directory, ENTER_ONLY);
      return directory;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EACCES' && code !== 'EPERM' && code !== 'EROFS') throw error;
    }
  }
  throw new StartError(
    `there is no directory that ${account.name} can reach for PostgreSQL's data; ` +
      'set database.embedded.data_dir to one, or start as an ordinary user',
    { exit_code: EXIT_CONFIGURATION },
  );
}
