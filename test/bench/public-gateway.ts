import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';
import { until } from '../support/until.ts';
import {
  BENCH_ENVIRONMENT,
  BENCH_TOKEN,
  dataDirectory,
  type Surroundings,
  writeConfiguration,
} from './configuration.ts';
import { endWithBench } from './processes.ts';
import { otherServer, type Server } from './servers.ts';

const run = promisify(execFile);

/** How much of a gateway's output is shown when it does not start. */
const LAST_WORDS = 2000;

/**
 * Starts the gateway of a checkout as an operator does, with its own command line: `appscli gateway`, then `appscli tokens
 * create`. So it needs nothing of the bench there, which may be an older one.
 */
export async function startPublicGateway(
  name: string,
  checkout: string,
  surroundings: Omit<Surroundings, 'port'>,
): Promise<Server> {
  const port = await freePort();
  const config = writeConfiguration({ ...surroundings, port });
  const launcher = join(checkout, 'engine/bin/appscli.js');
  const env = { ...process.env, ...BENCH_ENVIRONMENT };
  const child = spawn(process.execPath, [launcher, 'gateway', '--config', config], {
    cwd: surroundings.directory,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  endWithBench(child);
  let said = '';
  child.stderr.on('data', (text: Buffer) => {
    said = (said + text.toString()).slice(-LAST_WORDS);
  });
  const url = `http://127.0.0.1:${port}`;
  const ready = until(`${name} is ready`, () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the gateway "${name}" ended early; its last words:\n${said}`);
  });
  // Much later it ends with the bench, without a reader.
  ended.catch(() => {});
  await Promise.race([ready, ended]);
  const { user, group, name: token_name, team } = BENCH_TOKEN;
  const asked = ['--user', user, '--group', group, '--name', token_name, '--team', team];
  const created = await run(process.execPath, [launcher, 'tokens', 'create', '--config', config, '--json', ...asked], {
    cwd: surroundings.directory,
    env,
  });
  const { token } = JSON.parse(created.stdout) as { token: string };
  return otherServer(name, { url, token }, child.pid!, dataDirectory(surroundings));
}
