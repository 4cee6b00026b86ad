import { spawn } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identify, programOf } from '../../kit/process/process-identity.ts';
import type { Account } from './postgres-home.ts';

type ServerState =
  | { readonly kind: 'running'; readonly pid: number; readonly port: number; readonly ready: boolean }
  /** It ended without removing its pid file. */
  | { readonly kind: 'crashed'; readonly pid: number }
  | { readonly kind: 'stopped' };

/** Lines of postmaster.pid: pid, directory, start time, port, socket directory, address, memory key, status. */
const PORT_LINE = 3;
const STATUS_LINE = 7;

export function readServerState(cluster: string): ServerState {
  const text = readPidFile(cluster);
  if (text === undefined) return { kind: 'stopped' };
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  if (!Number.isInteger(pid) || !serves(pid, cluster)) {
    // A stopping server removes the file just before it ends, so read it again.
    return readPidFile(cluster) === undefined ? { kind: 'stopped' } : { kind: 'crashed', pid };
  }
  const port = Number.parseInt(lines[PORT_LINE] ?? '', 10);
  return { kind: 'running', pid, port, ready: (lines[STATUS_LINE] ?? '').trim() === 'ready' && port > 0 };
}

function readPidFile(cluster: string): string | undefined {
  try {
    return readFileSync(join(cluster, 'postmaster.pid'), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whether the process is the server: after a reboot or container restart another program may have its pid. */
function serves(pid: number, cluster: string): boolean {
  if (identify(pid) === undefined) return false;
  try {
    return realpathSync(`/proc/${pid}/cwd`) === realpathSync(cluster);
  } catch {
    // /proc is missing or not readable.
    return programOf(pid)?.includes('postgres') ?? true;
  }
}

const POLL_MS = 20;
const FAST_SHUTDOWN_MS = 2500;
const IMMEDIATE_SHUTDOWN_MS = 500;

/** Stops a server: fast shutdown, then after a timeout immediate shutdown, which is crash-safe. */
export async function stopServer(pid: number): Promise<void> {
  const identity = identify(pid);
  const isGone = () => identity === undefined || identify(pid) !== identity;
  for (const [signal, timeout_ms] of [
    ['SIGINT', FAST_SHUTDOWN_MS],
    ['SIGQUIT', IMMEDIATE_SHUTDOWN_MS],
  ] as const) {
    if (isGone()) return;
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    for (const end = performance.now() + timeout_ms; performance.now() < end && !isGone(); ) await delay(POLL_MS);
  }
}

/** Spawn options: account, a working directory it can enter, and an environment without secrets. */
export function runAs(account: Account | undefined, directory: string) {
  return {
    cwd: directory,
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' },
    ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
  };
}

export function runProgram(
  program: string,
  args: readonly string[],
  options: ReturnType<typeof runAs>,
  input = '',
): Promise<{ status: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    child.stderr.on('data', (chunk) => {
      output += chunk;
    });
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, output }));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
