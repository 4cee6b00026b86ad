import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';

/** A TCP forwarder between a program and a server that a test takes away, brings back elsewhere, or lets fall silent. */
export interface TcpRelay {
  readonly port: number;
  /** Where new connections go. */
  target_port: number;
  /** Passes nothing on, but closes no connection either: what a network does that has lost its way. */
  fallSilent(): void;
  /** Passes on what has been waiting, and everything from now on. */
  speakAgain(): void;
  close(): Promise<void>;
}

/** Starts a relay on a free port. */
export async function startRelay(target_port: number): Promise<TcpRelay> {
  const sockets = new Set<Socket>();
  let silent = false;
  const server = createServer((near) => {
    const far = createConnection({ host: '127.0.0.1', port: relay.target_port });
    const link = (from: Socket, to: Socket) => {
      sockets.add(from);
      from.on('data', (bytes) => to.write(bytes));
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      if (silent) from.pause();
    };
    link(near, far);
    link(far, near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay: TcpRelay = {
    port: (server.address() as AddressInfo).port,
    target_port,
    fallSilent() {
      silent = true;
      for (const socket of sockets) socket.pause();
    },
    speakAgain() {
      silent = false;
      for (const socket of sockets) socket.resume();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
  return relay;
}
