/**
 * Ends what a run of the tests has started, however the run ends: `node reaper.ts MARK DIRECTORY` waits until its standard
 * input is closed, which also happens when the runner is killed. Then it ends every process that has the mark in its
 * environment or the directory in its command line, with the processes below, and removes the directory. Prints a line for
 * each process that was left.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { removeSuiteDirectory } from './postgres.ts';

/** A process of the run. */
interface Found {
  readonly pid: number;
  readonly command: string;
}

interface Listed extends Found {
  readonly parent: number;
  readonly is_marked: boolean;
}

/** The mark of a process of the run. */
interface Marks {
  /** In its environment. */
  readonly mark: string;
  /** In its command line: PostgreSQL servers get an environment of their own. */
  readonly directory: string;
}

/** Time to end by themselves: PostgreSQL removes its shared memory. */
const GRACE_MS = 3000;
const PAUSE_MS = 50;

/** All processes of a Linux system that can be looked at. A process that ends meanwhile is none. */
function listFromProc({ mark, directory }: Marks): Listed[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const [parent, state] = statusOf(readFileSync(`/proc/${name}/stat`, 'utf8'));
      if (state === 'Z') return [];
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      const is_marked = command.includes(directory) || environmentOf(name).includes(mark);
      return [{ pid: Number(name), parent, command, is_marked }];
    } catch {
      return [];
    }
  });
}

function statusOf(stat: string): [parent: number, state: string] {
  const [state, parent] = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  return [Number(parent), state!];
}

/** Empty where another user's process does not show it. */
function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return '';
  }
}

/** The same where there is no /proc; `ps` prints the environment behind the command. */
function listFromPs({ mark, directory }: Marks): Listed[] {
  const printed = execFileSync('ps', ['axeww', '-o', 'pid=,ppid=,command='], { encoding: 'utf8' });
  return printed.split('\n').flatMap((line) => {
    const [, pid, parent, command = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    if (pid === undefined) return [];
    const is_marked = command.includes(directory) || command.includes(mark);
    return [{ pid: Number(pid), parent: Number(parent), command, is_marked }];
  });
}

/** The processes of a run and those below them, but for this process. */
function processesOf(marks: Marks): Found[] {
  const listed = process.platform === 'linux' ? listFromProc(marks) : listFromPs(marks);
  const found = new Map(listed.filter(({ is_marked }) => is_marked).map((one) => [one.pid, one]));
  for (let before = -1; before < found.size; ) {
    before = found.size;
    for (const one of listed) if (found.has(one.parent)) found.set(one.pid, one);
  }
  found.delete(process.pid);
  return [...found.values()];
}

/** Ends the processes of a run, also those that they start meanwhile; resolves with those it began with. */
async function endAll(marks: Marks): Promise<Found[]> {
  const first = processesOf(marks);
  const until = performance.now() + GRACE_MS;
  for (let left = first; left.length > 0; left = processesOf(marks)) {
    const signal = performance.now() < until ? 'SIGTERM' : 'SIGKILL';
    for (const { pid, command } of left) {
      // Only PostgreSQL has something to put away.
      kill(pid, command.includes('postgres') ? signal : 'SIGKILL');
    }
    await delay(PAUSE_MS);
  }
  return first;
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

if (process.argv[1] === import.meta.filename) {
  const [, , mark, directory] = process.argv as [string, string, string, string];
  // A terminal sends Ctrl-C to everything that runs in it.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  process.stdin.resume();
  await once(process.stdin, 'close');
  const left = await endAll({ mark, directory });
  await removeSuiteDirectory(directory);
  for (const { pid, command } of left) console.log(`${pid} ${command}`);
}
