import { existsSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';

/** Another account to run PostgreSQL under. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const LAST_RESORT: Account = { name: 'nobody', uid: 65534, gid: 65534 };

/** Whether this process is root, which PostgreSQL refuses to run as. */
export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** Name of the user this process runs as, for messages. */
export function currentUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `user id ${process.geteuid?.()}`;
  }
}

/** The unprivileged account that root starts PostgreSQL under: `postgres`, else `nobody`. */
export function chooseAccount(passwd = readPasswd()): Account {
  const accounts = parsePasswd(passwd).filter(({ uid, gid }) => uid > 0 && gid > 0);
  const find = (wanted: string) => accounts.find(({ name }) => name === wanted);
  return find('postgres') ?? find('nobody') ?? LAST_RESORT;
}

/** The account a file belongs to. */
export function ownerOf(path: string): Account {
  const { uid, gid } = statSync(path);
  const name = parsePasswd(readPasswd()).find((account) => account.uid === uid)?.name ?? `user id ${uid}`;
  return { name, uid, gid };
}

function readPasswd(): string {
  return existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : '';
}

function parsePasswd(text: string): Account[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', , uid = '', gid = ''] = line.split(':');
    return /^\d+$/.test(uid) && /^\d+$/.test(gid) ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

/** The first directory on the way to a path that an account may not enter; `undefined` when the way is free. */
export function findBarrier(path: string, account: Account): string | undefined {
  const way: string[] = [];
  for (let step = realpathSync(path); ; step = dirname(step)) {
    way.unshift(step);
    if (step === dirname(step)) break;
  }
  return way.find((step) => {
    const stats = statSync(step);
    return stats.isDirectory() && !allows(stats, account, 1);
  });
}

/** Whether permission bits (4 read, 2 write, 1 execute or enter) are granted to an account. */
export function allows(stats: Stats, account: Account, bits: number): boolean {
  const shift = stats.uid === account.uid ? 6 : stats.gid === account.gid ? 3 : 0;
  return ((stats.mode >> shift) & bits) === bits;
}
