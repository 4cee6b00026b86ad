import { type ChildProcess, type SpawnOptionsWithStdioTuple, spawn } from 'node:child_process';

export interface ProgramRun {
  /** A program with its arguments, or a command line for the shell. */
  readonly command: { readonly program: string; readonly args: readonly string[] } | { readonly line: string };
  readonly env: NodeJS.ProcessEnv;
  readonly folder?: string;
  readonly seconds: number;
  /** Most bytes of each output stream; more kills the program. */
  readonly bytes_max: number;
  readonly signal?: AbortSignal;
}

export interface ProgramEnd {
  /** `no_start`: the program does not exist or cannot start. `stopped`: aborted by `signal`. */
  readonly ending: 'exit' | 'too_late' | 'too_large' | 'no_start' | 'stopped';
  readonly exit_code: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program without input, bounded in time and output, and ends its whole process group. Never rejects. */
export function runProgram(run: ProgramRun): Promise<ProgramEnd> {
  const { command, env, folder, seconds, bytes_max, signal } = run;
  return new Promise((resolve) => {
    const options: PipedOptions = {
      env,
      ...(folder !== undefined && { cwd: folder }),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: process.platform !== 'win32',
      windowsHide: true,
    };
    let ending: ProgramEnd['ending'] = 'exit';
    const child = started(command, options);
    if (child === undefined) return resolve({ ending: 'no_start', exit_code: undefined, stdout: '', stderr: '' });
    const end = (why: ProgramEnd['ending']) => {
      if (ending === 'exit') ending = why;
      endGroup(child);
      // A process that left the group may still hold the pipes open.
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
    };
    const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => keep(stream, bytes_max, end));
    const timeout = setTimeout(() => end('too_late'), seconds * 1000);
    const onStop = () => end('stopped');
    if (signal?.aborted) onStop();
    signal?.addEventListener('abort', onStop, { once: true });
    child.on('error', () => {
      if (child.pid === undefined) ending = 'no_start';
    });
    child.on('exit', () => endGroup(child));
    child.on('close', (exit_code) => {
      clearTimeout(timeout);
      signal?.removeEventListener('abort', onStop);
      resolve({
        ending,
        exit_code: ending === 'exit' ? (exit_code ?? undefined) : undefined,
        stdout: stdout!(),
        stderr: stderr!(),
      });
    });
  });
}

type PipedOptions = SpawnOptionsWithStdioTuple<'ignore', 'pipe', 'pipe'>;

/** Most errors come later, as events; `spawn` throws for a command that is too long or contains a NUL. */
function started(command: ProgramRun['command'], options: PipedOptions) {
  try {
    return 'line' in command
      ? spawn(command.line, { ...options, shell: true })
      : spawn(command.program, [...command.args], options);
  } catch {
    return undefined;
  }
}

function keep(
  stream: NodeJS.ReadableStream,
  bytes_max: number,
  end: (why: ProgramEnd['ending']) => void,
): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    chunks.push(chunk.subarray(0, Math.max(0, bytes_max - bytes)));
    bytes += chunk.length;
    if (bytes > bytes_max) end('too_large');
  });
  stream.on('error', () => {});
  return () => Buffer.concat(chunks).toString('utf8');
}

function endGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    if (process.platform === 'win32') child.kill('SIGKILL');
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has already ended.
  }
}
