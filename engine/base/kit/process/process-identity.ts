import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** `pid-start`, which no later process shares, or the id alone. `undefined` for a missing process or a zombie. */
export function identify(pid: number): string | undefined {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Any other error, such as a missing permission, means that the process exists.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined;
  }
  const stat = readStat(pid);
  if (stat === undefined) return String(pid);
  return stat.state === 'Z' || stat.state === 'X' ? undefined : `${pid}-${stat.started}`;
}

/** Whether a process still runs, by its identity; true if unclear. */
export function isRunning(identity: string): boolean {
  const pid = Number.parseInt(identity, 10);
  const now = identify(pid);
  return now !== undefined && (now === identity || now === String(pid) || identity === String(pid));
}

/** The program of a process, from its command line; `undefined` if unknown. */
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
    // The second field is a name that may contain spaces and parentheses; the start time is the 22nd.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // The start time counts ticks since the boot. Identical machines can start a program with the same id at the same tick.
    boot ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8);
    return { state: fields[0], started: `${boot}-${fields[19]}` };
  } catch {
    return undefined;
  }
}
