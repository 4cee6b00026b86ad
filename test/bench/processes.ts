import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Reply } from './servers/parent.ts';

/** One of the bench's own processes. */
export interface Child<Ready> {
  /** Its output when it was ready. */
  readonly ready: Ready;
  readonly pid: number;
  /** Sends it one query; raises its error, or that it died. */
  ask<Result>(question: string, argument?: unknown): Promise<Result>;
}

const children = new Set<ChildProcess>();
/** Further cleanup, each before the directory is removed. Not asynchronous, so that nothing runs in between. */
const cleaning: (() => void)[] = [];

/** Has a process end when the bench does, at the latest. */
export function endWithBench(child: ChildProcess): void {
  children.add(child);
  child.once('exit', () => children.delete(child));
}

/** Registers cleanup for the end of the bench, also after a signal, once its processes have ended. */
export function cleanAfterwards(clean: () => void): void {
  cleaning.push(clean);
}

function nextReply(child: ChildProcess, name: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onMessage = (reply: Reply) =>
      settle(() => (reply.error ? reject(new Error(reply.error)) : resolve(reply.value)));
    const onExit = (code: number | null, signal: string | null) =>
      settle(() => reject(new Error(`${name} ended early (${signal ?? `exit code ${code}`})`)));
    const settle = (act: () => void) => {
      child.off('message', onMessage);
      child.off('exit', onExit);
      act();
    };
    child.on('message', onMessage);
    child.on('exit', onExit);
  });
}

/** Starts a module of the bench in its own process and waits until it is ready. */
export async function startChild<Ready>(
  module: string,
  options: { args?: readonly string[] } = {},
): Promise<Child<Ready>> {
  const child = fork(fileURLToPath(new URL(module, import.meta.url)), options.args ?? [], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  endWithBench(child);
  const ready = (await nextReply(child, module)) as Ready;
  return {
    ready,
    pid: child.pid!,
    ask: async <Result>(question: string, argument?: unknown) => {
      const reply = nextReply(child, module);
      child.send({ ask: question, argument });
      return (await reply) as Result;
    },
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  const timeout = setTimeout(() => child.kill('SIGKILL'), 10_000);
  if (child.connected) child.send({ ask: 'stop' });
  else child.kill('SIGTERM');
  await gone;
  clearTimeout(timeout);
}

/** Ends every process that was started, the last one first; kills those that do not go within ten seconds. */
export async function stopChildren(): Promise<void> {
  for (const child of [...children].reverse()) await stop(child);
}

/** Runs a measurement in a directory of its own; afterwards, also after a signal, removes its processes and directory. */
export async function inBenchDirectory(measure: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
  const clean = async () => {
    await stopChildren();
    for (const undo of cleaning.splice(0)) undo();
    rmSync(directory, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => clean().then(() => process.exit(130)));
  try {
    await measure(directory);
  } finally {
    await clean();
  }
}
