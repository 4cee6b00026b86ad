import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from './free-port.ts';

/** A connection to a server that a test can cut or stuff up. */
export interface TcpProxy {
  readonly port: number;
  /** Cuts all connections and refuses new ones. */
  stop(): Promise<void>;
  /** Lets traffic through again, on the same port. */
  start(): Promise<void>;
  /** Keeps connections open and takes new ones, but no byte passes any more. */
  freeze(): void;
  /** Cuts all connections, once, as soon as the server has sent so many more pieces; new ones are let through. */
  cutAfter(pieces: number): void;
  /** How many connections were made. */
  readonly connections: number;
}

/** Listens on a loopback port and passes everything on to another one. */
export async function startTcpProxy(target_port: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let server: Server;
  const port = await freePort();
  let frozen = false;
  let pieces_until_cut = Number.POSITIVE_INFINITY;
  let connections = 0;

  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const countPiece = () => {
    if (--pieces_until_cut > 0) return;
    pieces_until_cut = Number.POSITIVE_INFINITY;
    for (const socket of sockets) socket.destroy();
  };
  const start = async () => {
    frozen = false;
    server = createServer((client) => {
      connections++;
      track(client);
      if (frozen) return;
      const upstream = track(connect(target_port, '127.0.0.1'));
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        from.on('data', (chunk) => {
          if (!frozen) to.write(chunk);
        });
        from.once('close', () => to.destroy());
      }
      upstream.on('data', countPiece);
    }).listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await start();
  return {
    port,
    start,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    freeze() {
      frozen = true;
    },
    cutAfter(pieces) {
      pieces_until_cut = pieces;
    },
    get connections() {
      return connections;
    },
  };
}
