import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** A process's use since it started (CPU) or since its peak was reset (memory). */
export interface ProcessUsage {
  /** User and system time of all threads, in microseconds. */
  readonly cpu_us: number;
  readonly peak_rss_bytes: number;
}

const MICROSECONDS_PER_TICK = 10_000;

/** Fields of `/proc/PID/stat` after the name, which may contain anything. */
function statOf(pid: number | string): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** CPU time of the live threads, in microseconds: to the nanosecond where the kernel reports it, else in ticks. */
function cpuOf(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.reduce(
      (sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1000,
      0,
    );
  } catch {
    const fields = statOf(pid);
    return (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_PER_TICK;
  }
}

/** Every process and its parent. */
function parents(): Map<number, number> {
  const found = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      found.set(Number(name), Number(statOf(name)[1]));
    } catch {
      // It ended meanwhile.
    }
  }
  return found;
}

/** All descendants of a process: a gateway's embedded PostgreSQL. None where the system does not list them. */
export function descendantsOf(pid: number): number[] {
  try {
    const all = [...parents()];
    const found: number[] = [];
    for (let next = [pid]; next.length > 0; ) {
      next = all.filter(([, parent]) => next.includes(parent)).map(([child]) => child);
      found.push(...next);
    }
    return found;
  } catch {
    return [];
  }
}

/** CPU time of a process's children that have ended: PostgreSQL closes idle connections. */
function cpuOfEnded(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[13]) + Number(fields[14])) * MICROSECONDS_PER_TICK;
}

/** CPU time of some processes and their children; 0 for those that are gone or unreported by the system. */
export function cpuOfAll(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      return sum + cpuOf(pid) + cpuOfEnded(pid);
    } catch {
      return sum;
    }
  }, 0);
}

/** Another process's use, seen from outside (Linux). Raises when there is no such process. */
export function usageOf(pid: number): ProcessUsage {
  const peak = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return { cpu_us: cpuOf(pid), peak_rss_bytes: Number(peak ?? 0) * 1024 };
}

/** Has the peak of a process's memory begin anew, where this system can. */
export function resetPeakOf(pid: number | 'self'): void {
  try {
    // Linux only; elsewhere the peak is that of the process's whole life.
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {}
}
