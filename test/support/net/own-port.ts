import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { atFileEnd } from '../file-end.ts';

/** Has a server listen on a free port of this machine; `close` ends its connections, too. */
export async function openPort(server: Server | HttpServer) {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    const closed = once(server, 'close');
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
    await closed;
  };
  return { port, url: `http://127.0.0.1:${port}`, close, [Symbol.asyncDispose]: close };
}

/** Has a server listen on a free port of this machine until the tests of the file are over; returns the port. */
export async function ownPort(server: Server): Promise<number> {
  const { port, close } = await openPort(server);
  atFileEnd(() => void close());
  return port;
}
