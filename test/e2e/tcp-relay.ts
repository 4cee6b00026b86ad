import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';

/** A TCP forwarder between a program and a server that a test takes away, brings back elsewhere, or lets fall silent. */
export interface TcpRelay {
  readonly port: number;
  /** Where new connections go. */
  target_port: number;
  /** While set, nothing is passed on and no connection is closed: the network has swallowed it all. */
  silent: boolean;
  close(): Promise<void>;
}

/** Starts a relay on a free port. */
export async function startRelay(target_port: number): Promise<TcpRelay> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = createConnection({ host: '127.0.0.1', port: relay.target_port });
    const link = (from: Socket, to: Socket) => {
      sockets.add(from);
      from.on('data', (bytes) => {
        if (!relay.silent) to.write(bytes);
      });
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    };
    link(near, far);
    link(far, near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay: TcpRelay = {
    port: (server.address() as AddressInfo).port,
    target_port,
    silent: false,
    async close() {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
  return relay;
}
