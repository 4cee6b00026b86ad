import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Log } from '../../engine/api.ts';
import { printable, printableLine } from '../../engine/base/kit/text/printable.ts';
import type { CommandContext } from '../../engine/edge/cli/commands.ts';
import { runCommandLine } from '../../engine/edge/cli/main.ts';
import { createProgram } from '../../engine/edge/cli/program.ts';
import type { Terminal } from '../../engine/edge/cli/terminal.ts';
import { stages } from '../../stages/index.ts';
import { atFileEnd } from '../support/file-end.ts';

export const LAUNCHER = fileURLToPath(new URL('../../engine/bin/appscli.js', import.meta.url));

export function collectingLog(): { log: Log; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const keep = (fields: object, message: string) => void lines.push({ ...fields, message });
  return { log: { debug: keep, info: keep, warn: keep, error: keep }, lines };
}

export interface Ended {
  readonly exit_code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly process: ChildProcess;
  stdout(): string;
  stderr(): string;
  readonly ended: Promise<Ended>;
}

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly uid?: number;
  readonly gid?: number;
}

const running = new Map<ChildProcess, Promise<unknown>>();

// Processes left by a failed test would keep its file from ending, and its PostgreSQL from stopping.
atFileEnd(async () => {
  for (const [child, ended] of running) {
    const timeout = setTimeout(() => child.kill('SIGKILL'), 10_000);
    child.kill('SIGINT');
    await ended.catch(() => {});
    clearTimeout(timeout);
  }
});

// biome-ignore lint/suspicious/noExplicitAny: tests look into what was printed
export const jsonLines = ({ stdout }: Ended): any[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

export function start(file: string, arguments_: readonly string[], options: CommandOptions = {}): RunningCommand {
  const child = spawn(file, arguments_, options);
  const chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout.on('data', (chunk: Buffer) => chunks.stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => chunks.stderr.push(chunk));
  const stdout = () => Buffer.concat(chunks.stdout).toString('utf8');
  const stderr = () => Buffer.concat(chunks.stderr).toString('utf8');
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exit_code, signal) => resolve({ exit_code, signal, stdout: stdout(), stderr: stderr() }));
  });
  running.set(child, ended);
  child.on('close', () => running.delete(child));
  return { process: child, stdout, stderr, ended };
}

export function startCli(arguments_: readonly string[], options: CommandOptions = {}): RunningCommand {
  return start(process.execPath, [LAUNCHER, ...arguments_], options);
}

/** A terminal that keeps its output, 80 columns wide and without a user. */
export function collectingTerminal(): { terminal: Terminal; data(): string; info(): string } {
  const data: string[] = [];
  const info: string[] = [];
  const terminal: Terminal = {
    data: (text) => void data.push(printable(text)),
    verbatim: (text) => void data.push(text),
    info: (text) => void info.push(printable(text)),
    rewrite: (line) => void info.push(`\r${printableLine(line)}\x1b[K`),
    outliveReader() {},
    columns: 80,
    table_columns: Number.POSITIVE_INFINITY,
    interactive: false,
    data_color: false,
    info_color: false,
  };
  return { terminal, data: () => data.join(''), info: () => info.join('') };
}

export function collectingContext(): { context: CommandContext; data(): string; info(): string } {
  const { terminal, ...written } = collectingTerminal();
  return { context: { terminal, env: {}, stages: async () => stages }, ...written };
}

/** Ends when no command needs the current directory any more, of which a process has one. */
let in_turn: Promise<unknown> = Promise.resolve();

function inDirectory<T>(directory: string, run: () => Promise<T>): Promise<T> {
  const result = in_turn.then(async () => {
    const before = process.cwd();
    process.chdir(directory);
    try {
      return await run();
    } finally {
      process.chdir(before);
    }
  });
  in_turn = result.catch(() => {});
  return result;
}

/**
 * Runs `appscli` to its end: in this process, which takes a tenth of the time, unless it needs another user. Those
 * with a directory of their own run in turn.
 */
export async function cli(arguments_: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const { env = process.env, cwd, ...user_options } = options;
  if (Object.keys(user_options).length > 0) return startCli(arguments_, options).ended;
  const { terminal, data, info } = collectingTerminal();
  const run = () => runCommandLine(arguments_, { create: createProgram, terminal, env, stages: async () => stages });
  const exit_code = await (cwd === undefined ? run() : inDirectory(cwd, run));
  return { exit_code, signal: null, stdout: data(), stderr: info() };
}
