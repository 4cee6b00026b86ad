import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Reply } from './servers/parent.ts';

/** One of the bench's own processes. */
export interface Child<Ready> {
  /** What it said when it was ready. */
  readonly ready: Ready;
  /** Asks it one thing; raises what it raised, or that it died. */
  ask<Result>(question: string, argument?: unknown): Promise<Result>;
}

const children = new Set<ChildProcess>();

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
  options: { args?: readonly string[]; node_options?: readonly string[]; env?: NodeJS.ProcessEnv } = {},
): Promise<Child<Ready>> {
  const child = fork(fileURLToPath(new URL(module, import.meta.url)), options.args ?? [], {
    execArgv: [...(options.node_options ?? [])],
    env: options.env ?? process.env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  children.add(child);
  child.once('exit', () => children.delete(child));
  const ready = (await nextReply(child, module)) as Ready;
  return {
    ready,
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
  const patience = setTimeout(() => child.kill('SIGKILL'), 10_000);
  if (child.connected) child.send({ ask: 'stop' });
  else child.kill('SIGTERM');
  await gone;
  clearTimeout(patience);
}

/** Ends every process that was started; kills those that do not go within ten seconds. */
export async function stopChildren(): Promise<void> {
  await Promise.all([...children].map(stop));
}

/** Runs a measurement in a directory of its own; afterwards, also after a signal, its processes and the directory are gone. */
export async function inBenchDirectory(measure: (directory: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
  const clean = async () => {
    await stopChildren();
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
