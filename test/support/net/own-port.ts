import type { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { atFileEnd } from '../file-end.ts';

/** Has a server listen on a free port of this machine until the tests of the file are over; returns the port. */
export async function ownPort(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atFileEnd(() => {
    server.close();
    (server as Partial<HttpServer>).closeAllConnections?.();
  });
  return (server.address() as AddressInfo).port;
}
