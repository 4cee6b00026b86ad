import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * Names a running process such that no later process with the same id has the same name: `pid-start`, or the id alone
 * where the start time can't be known. `undefined` when there is no such process; a zombie counts as none.
 */
export function identify(pid: number): string | undefined {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Anything else, such as a lack of permission, says that somebody is there.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined;
  }
  const stat = readStat(pid);
  if (stat === undefined) return String(pid);
  return stat.state === 'Z' || stat.state === 'X' ? undefined : `${pid}-${stat.started}`;
}

/** Whether the process that `identify` named still runs; true when in doubt. */
export function isRunning(identity: string): boolean {
  const pid = Number.parseInt(identity, 10);
  const now = identify(pid);
  return now !== undefined && (now === identity || now === String(pid) || identity === String(pid));
}

/** The program a process runs, as its command line names it; `undefined` when that can't be known. */
export function programOf(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0];
    return execFileSync('ps', ['-o', 'comm=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

let boot: string | undefined;

function readStat(pid: number): { state: string | undefined; started: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is a name that may hold spaces and parentheses; the start time is the 22nd.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // Counted in ticks since the boot; machines that boot alike start the same program with the same id at the same tick.
    boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8);
    return { state: fields[0], started: `${boot}-${fields[19]}` };
  } catch {
    return undefined;
  }
}
