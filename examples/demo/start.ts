/**
 * `npm start`: the demo upstream, the gateway in front of it, an access token, and three commands to paste.
 * `node examples/demo/start.ts other.yaml` does the same with another configuration.
 * @module
 */
import { randomBytes } from 'node:crypto';
import { dirname, join, relative } from 'node:path';
import { reportFailure } from '../../engine/cli/failure.ts';
import { loadToRead } from '../../engine/cli/load-configuration.ts';
import { type Closable, runUntilSignal } from '../../engine/cli/signals.ts';
import { startGateway } from '../../engine/cli/start-gateway.ts';
import { processTerminal } from '../../engine/cli/terminal.ts';
import { createLog } from '../../engine/services/log.ts';
import { StartError } from '../../engine/services/start-error.ts';
import { stages } from '../../stages/index.ts';
import { obtainToken } from './token.ts';
import { type DemoUpstream, startUpstream } from './upstream.ts';
import { welcome } from './welcome.ts';

const config_file = process.argv[2] ?? join(import.meta.dirname, 'gateway.yaml');
const terminal = processTerminal(process.env);
// Ctrl-C must stop everything even when nobody reads what is printed.
terminal.outliveReader();
const { info, warn, error, hide } = createLog({
  write: (line) => terminal.words(line),
  format: 'readable',
  debug: process.env.APPSCLI_DEBUG === '1',
});
const log = {
  debug() {},
  // Only trouble is worth a line here, and that a change of the configuration has arrived.
  info(fields: object, message: string) {
    if ('changed' in fields) info({}, message);
  },
  warn,
  error,
  hide,
};

async function openUpstream(base_url: string, api_key: string): Promise<DemoUpstream> {
  const { host, port } = new URL(base_url);
  try {
    return await startUpstream({ api_key, port: Number(port) });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause;
    const remedy = 'stop the other program (a demo that is still running?), or change base_url in';
    throw new StartError(`${host}, where the demo upstream listens, is in use; ${remedy} ${shown(config_file)}`, {
      cause,
    });
  }
}

/** A path as a person in the current directory would type it. */
function shown(file: string): string {
  return relative(process.cwd(), file);
}

async function startDemo(): Promise<Closable> {
  terminal.data('Starting the gateway and its PostgreSQL; the first time takes a few seconds.\n');
  const api_key = randomBytes(24).toString('base64url');
  const env = { ...process.env, DEMO_UPSTREAM_KEY: api_key };
  const config = await loadToRead(config_file, { stages, env, environment: 'ignored' });
  const opened: Closable[] = [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.close();
  };
  try {
    const upstream = await openUpstream(config.upstreams[0]!.base_url, api_key);
    opened.push(upstream);
    const gateway = await startGateway({ config_file, stages, env, log, watch: true });
    opened.push(gateway);
    const token_file = join(dirname(config.database.embedded?.data_dir ?? config_file), 'demo-token');
    const token = await obtainToken(gateway, token_file);
    terminal.data(welcome({ url: gateway.url, upstream_url: upstream.url, token, config_file: shown(config_file) }));
  } catch (problem) {
    await close();
    throw problem;
  }
  return {
    async close() {
      terminal.data('\nStopping ...\n');
      await close();
      terminal.data('Stopped. The next start finds the data where it is.\n');
    },
  };
}

try {
  process.exitCode = await runUntilSignal(startDemo, log);
} catch (problem) {
  process.exitCode = await reportFailure(problem, terminal, process.env);
}
