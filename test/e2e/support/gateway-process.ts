/** The gateway as its users run it: `appscli gateway --config F`, a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { until } from '../../support/until.ts';
import { send } from './client.ts';

const LAUNCHER = fileURLToPath(new URL('../../../engine/bin/appscli.js', import.meta.url));

/** A running `appscli gateway`. */
export type GatewayProcess = Awaited<ReturnType<typeof startGatewayProcess>>;

/** The URL that a gateway has written to its log, once it listens. */
export function listeningAt(log: string): string | undefined {
  const line = /^\{.*"msg":"the gateway is listening".*$/m.exec(log)?.[0];
  return line === undefined ? undefined : JSON.parse(line).url;
}

/**
 * Starts the gateway and waits until it is ready to serve. Its configuration says `listen: 127.0.0.1:0`, unless it has to come
 * back at the same address.
 */
export async function startGatewayProcess(
  config_file: string,
  env: NodeJS.ProcessEnv,
  more_arguments: readonly string[] = [],
) {
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
  const ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }> = once(child, 'close').then(
    ([code, signal]) => ({ code, signal }),
  );
  const url = await until('the gateway process is ready', async () => {
    if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}:\n${written}`);
    const address = listeningAt(written);
    if (address === undefined) return undefined;
    const ready = await send(address, { method: 'GET', path: '/readyz' }).catch(() => undefined);
    return ready?.status === 200 ? address : undefined;
  }).catch((error) => {
    child.kill('SIGKILL');
    throw new Error(`${error.message}; it wrote:\n${written}`);
  });
  return {
    url,
    child,
    ended,
    /** Everything it has written to standard output and standard error. */
    output: () => written,
    /** Sends a signal and waits for the end. */
    end(signal: NodeJS.Signals) {
      child.kill(signal);
      return ended;
    },
  };
}
