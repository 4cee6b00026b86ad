import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Below the ports that systems give to outgoing connections (from 32768 on Linux, 49152 elsewhere): one of those could be
 * taken by any connection of a test that runs at the same time, before the server that wants it listens.
 */
const FIRST = 20_000;
const PORTS_PER_BLOCK = 60;
const BLOCKS = 200;

let block: Promise<number> | undefined;
let taken = 0;

/**
 * A port that nothing listens on, from a block that no other process of the tests has. For addresses that have to be known before
 * a server listens there, while it does not, or because none ever does; any other server listens on port 0.
 */
export async function freePort(): Promise<number> {
  block ??= claimBlock();
  const first = (await block) + 1;
  for (let tries = 1; tries < PORTS_PER_BLOCK; tries++) {
    const port = first + (taken++ % (PORTS_PER_BLOCK - 1));
    if (await isFree(port)) return port;
  }
  throw new Error(`all ports from ${first} to ${first + PORTS_PER_BLOCK - 2} are in use`);
}

/** The first port of a block marks its owner: this process listens there for as long as it lives. */
async function claimBlock(): Promise<number> {
  for (let tries = 0; tries < BLOCKS; tries++) {
    const first = FIRST + ((process.pid + tries) % BLOCKS) * PORTS_PER_BLOCK;
    const server = createServer((socket) => socket.destroy());
    if (await listens(server, first)) {
      server.unref();
      return first;
    }
  }
  throw new Error(`other programs listen on all first ports of blocks from ${FIRST}`);
}

function listens(server: Server, port: number): Promise<boolean> {
  const listening = once(server, 'listening').then(
    () => true,
    () => false,
  );
  server.listen(port, '127.0.0.1');
  return listening;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  if (!(await listens(server, port))) return false;
  server.close();
  await once(server, 'close');
  return true;
}
