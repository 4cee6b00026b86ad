import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A TCP forwarder between a program and a server that a test takes away, brings back elsewhere, slows or lets fall silent. */
export interface TcpRelay {
  readonly port: number;
  /** Where new connections go. */
  target_port: number;
  /** How long everything takes in either direction, in milliseconds. */
  delay_ms: number;
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
      let on_the_way: Promise<void> | undefined;
      const carry = async (bytes: Buffer, before: Promise<void> | undefined) => {
        await delay(relay.delay_ms, undefined, { ref: false });
        await before;
        to.write(bytes);
      };
      from.on('data', (bytes) => {
        if (relay.delay_ms === 0 && on_the_way === undefined) {
          to.write(bytes);
          return;
        }
        const carried = carry(bytes, on_the_way).finally(() => {
          if (on_the_way === carried) on_the_way = undefined;
        });
        on_the_way = carried;
      });
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
    delay_ms: 0,
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
