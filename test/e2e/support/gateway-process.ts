/** The gateway as its users run it: `appscli gateway --config F`, a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { until } from '../../support/until.ts';
import { send } from './client.ts';

const LAUNCHER = fileURLToPath(new URL('../../../engine/bin/appscli.js', import.meta.url));

/**
 * How long a program may take to start: as long as a test may. It compiles itself first, two seconds of a processor that many
 * others may want at the same time.
 */
export const START_MS = 200_000;

/** A running `appscli gateway`. */
export interface GatewayProcess {
  readonly url: string;
  readonly child: ChildProcess;
  /** Everything it has written to standard output and standard error. */
  output(): string;
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Where a gateway listens, by its log. */
export const addressIn = (log: string): string | undefined =>
  /"url":"([^"]+)".*"msg":"the gateway is listening"/.exec(log)?.[1];

/**
 * Starts the gateway and waits until it is ready to serve; `port` must be the one in its configuration. With 0 it listens
 * where there is room, and says where in its log.
 */
export async function startGatewayProcess(
  config_file: string,
  env: NodeJS.ProcessEnv,
  port: number,
  more_arguments: readonly string[] = [],
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [LAUNCHER, 'gateway', '--config', config_file, ...more_arguments], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let written = '';
  const collect = (bytes: Buffer) => {
    written += bytes.toString('utf8');
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  let url = `http://127.0.0.1:${port}`;
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}:\n${written}`);
    if (port === 0) url = addressIn(written) ?? url;
    const ready = await send(url, { method: 'GET', path: '/readyz' }).catch(() => undefined);
    return ready?.status === 200;
  };
  await until('the gateway process is ready', isReady, START_MS).catch((error) => {
    child.kill('SIGKILL');
    throw new Error(`${error.message}; it wrote:\n${written}`);
  });
  return {
    url,
    child,
    ended,
    output: () => written,
    end(signal) {
      child.kill(signal);
      return ended;
    },
  };
}
