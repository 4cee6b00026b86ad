import { accessSync, constants, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { availableParallelism, networkInterfaces, totalmem } from 'node:os';

/** Who a file belongs to, and what others may do with it. */
export interface Rights {
  readonly kind: 'file' | 'directory' | 'other';
  /** Permission bits, such as 0o640. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly changed_at: number;
}

/** The machine of a gateway, as far as checks look at it; nothing of it is changed. Tests put another in its place. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly pid: number;
  /** Of this command; `undefined` on Windows. */
  readonly uid: number | undefined;
  readonly groups: readonly number[];
  readonly memory_bytes: number;
  readonly processors: number;
  /** Of its network interfaces. */
  readonly addresses: readonly string[];
  /** Text of a small file of the system; `undefined` where it is missing or not for this user. */
  read(path: string): string | undefined;
  /** Names in a directory; none where it is missing or not for this user. */
  list(path: string): readonly string[];
  /** Where a link leads; `undefined` where there is none, or it is not for this user. */
  link(path: string): string | undefined;
  /** `undefined` where there is nothing, or where it can't be looked at. */
  rights(path: string): Rights | undefined;
  /** Whether the file system of a path takes no changes, from anybody. */
  isReadOnly(path: string): boolean;
  /** Free and whole size of the file system of a path, in bytes; `undefined` where it can't be told. */
  space(path: string): Promise<{ readonly free_bytes: number; readonly total_bytes: number } | undefined>;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The machine this runs on. */
export function thisMachine(): Machine {
  return {
    platform: process.platform,
    pid: process.pid,
    uid: process.geteuid?.(),
    groups: [process.getegid?.() ?? -1, ...(process.getgroups?.() ?? [])],
    memory_bytes: totalmem(),
    processors: availableParallelism(),
    addresses: Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []),
    read: (path) => orNothing(() => readFileSync(path, 'latin1')),
    list: (path) => orNothing(() => readdirSync(path)) ?? [],
    link: (path) => orNothing(() => readlinkSync(path)),
    rights: (path) => orNothing(() => rightsOf(path)),
    isReadOnly,
    space: spaceOf,
    now: () => Date.now(),
  };
}

function orNothing<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

function rightsOf(path: string): Rights {
  const stats = statSync(path);
  const { mode, uid, gid, size: bytes, mtimeMs: changed_at } = stats;
  const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : 'other';
  return { kind, mode: mode & 0o7777, uid, gid, bytes, changed_at };
}

function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS';
  }
}

async function spaceOf(path: string) {
  try {
    const { bavail, blocks, bsize } = await statfs(path);
    return blocks === 0 ? undefined : { free_bytes: bavail * bsize, total_bytes: blocks * bsize };
  } catch {
    return undefined;
  }
}

/** Whether permission bits (4 read, 2 write, 1 enter) are granted to the user of this command. */
export function mayUser({ uid, groups }: Machine, rights: Rights, bits: number): boolean {
  if (uid === undefined || uid === 0) return true;
  const shift = rights.uid === uid ? 6 : groups.includes(rights.gid) ? 3 : 0;
  return ((rights.mode >> shift) & bits) === bits;
}
