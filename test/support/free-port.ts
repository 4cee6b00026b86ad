import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that systems give to outgoing connections (from 32768 on Linux, 49152 elsewhere): one of those could be
 * taken by any connection of a test that runs at the same time, before the server that wants it listens.
 */
const FIRST = 20_000;
const PORTS_PER_PROCESS = 60;
const BLOCKS = 200;

let taken = 0;

/** A port that nothing listens on, from a block that hardly another process of the tests has. */
export async function freePort(): Promise<number> {
  const block = FIRST + (process.pid % BLOCKS) * PORTS_PER_PROCESS;
  for (let tries = 0; tries < PORTS_PER_PROCESS; tries++) {
    const port = block + (taken++ % PORTS_PER_PROCESS);
    if (await isFree(port)) return port;
  }
  throw new Error(`all ports from ${block} to ${block + PORTS_PER_PROCESS - 1} are in use`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const free = once(server, 'listening').then(
    () => true,
    () => false,
  );
  server.listen(port, '127.0.0.1');
  if (!(await free)) return false;
  server.close();
  await once(server, 'close');
  return true;
}
