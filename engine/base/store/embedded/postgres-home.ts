import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import type { Log } from '../../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';

/** The user that a file belongs to, or that PostgreSQL runs as. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The directory of an embedded server, and the account it runs as. */
export interface PostgresHome {
  /** data_dir, or the directory that its link points to. */
  readonly directory: string;
  readonly cluster: string;
  readonly password_file: string;
  readonly log_file: string;
  /** `undefined`: the server runs as the user of this process. */
  readonly account: Account | undefined;
}

/** The account `nobody`: PostgreSQL refuses to run as root. */
export const NOBODY: Account = { uid: 65534, gid: 65534 };
/** Others may enter but not list: the account of the server must reach its cluster. */
const ENTER_ONLY = 0o711;
const PRIVATE = 0o700;
const SYSTEM_LOCATION = '/var/lib/appscli';
const POINTER = 'moved-to';

const isRoot = () => process.geteuid?.() === 0;

export function currentUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `user id ${process.geteuid?.()}`;
  }
}

/**
 * Finds or creates the home of a server. As root, the server runs as nobody. If nobody cannot enter data_dir, the home is elsewhere and
 * data_dir contains a link to it. Raises StartError and file system errors.
 */
export function findHome(data_dir: string, log: Log): PostgresHome {
  makeDirectory(data_dir, isRoot() ? ENTER_ONLY : PRIVATE);
  const moved = followPointer(data_dir);
  const directory = moved ?? data_dir;
  if (!isRoot()) return homeAt(directory, undefined);

  const cluster = join(directory, 'cluster');
  // The cluster of a user keeps its owner when root runs a command.
  const owner = existsSync(cluster) ? statSync(cluster) : NOBODY;
  const account = owner.uid === 0 ? NOBODY : { uid: owner.uid, gid: owner.gid };
  const barrier = findBarrier(directory, account);
  if (barrier === undefined) return homeAt(directory, account);
  if (moved === undefined && !existsSync(cluster)) return homeAt(moveAway(data_dir, barrier, log), account);
  throw new StartError(
    `as root, PostgreSQL runs as user id ${account.uid}, who cannot enter ${barrier} on the way to ${cluster}; ` +
      `allow it (chmod o+x ${barrier}) or start as the directory's owner`,
    { exit_code: EXIT_CONFIGURATION },
  );
}

/** The existing home of a data directory; `undefined` without one. Read-only. */
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
  // Undo the umask; the directory is new.
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
    `the database of ${data_dir} was in ${target}, which no longer exists; restore it, or remove ${pointer} to start with an empty database`,
  );
}

/** Creates a home that the account `nobody` can enter, and a link to it; of two concurrent attempts the first link counts. */
function moveAway(data_dir: string, barrier: string, log: Log): string {
  let directory: string;
  try {
    makeDirectory(SYSTEM_LOCATION, 0o755);
    directory = mkdtempSync(join(SYSTEM_LOCATION, 'postgres-'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `as root, PostgreSQL runs as user id ${NOBODY.uid}, who cannot enter ${barrier}, and its data cannot be stored in ${SYSTEM_LOCATION} ` +
        `(${code}); set database.embedded.data_dir to a directory that user id can reach, or start as an ordinary user`,
      { exit_code: EXIT_CONFIGURATION, cause: error },
    );
  }
  chmodSync(directory, ENTER_ONLY);
  try {
    symlinkSync(directory, join(data_dir, POINTER));
  } catch (error) {
    rmdirSync(directory);
    const first = followPointer(data_dir);
    if (first === undefined) throw error;
    return first;
  }
  log.info({ data_dir, directory }, 'PostgreSQL runs as nobody, who cannot enter data_dir; its data is elsewhere');
  return directory;
}

/** The first directory of a path that an account cannot enter; `undefined` if it can enter all. */
export function findBarrier(path: string, { uid, gid }: Account): string | undefined {
  const way: string[] = [];
  for (let step = realpathSync(path); ; step = dirname(step)) {
    way.unshift(step);
    if (step === dirname(step)) break;
  }
  return way.find((step) => {
    const stats = statSync(step);
    const shift = stats.uid === uid ? 6 : stats.gid === gid ? 3 : 0;
    return ((stats.mode >> shift) & 1) === 0;
  });
}
