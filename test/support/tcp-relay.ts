import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.ts';

/**
 * A loopback port that forwards everything to another one, and that a test cuts, removes, restores elsewhere, slows
 * or silences.
 */
export class TcpRelay {
  readonly port: number;
  /** Where new connections go. */
  target_port: number;
  /** The delay of everything in either direction, in milliseconds. */
  delay_ms = 0;
  /** Sees, and may change, the bytes of either side before they are forwarded. */
  onBytes: (bytes: Buffer, from: 'client' | 'server') => void = () => {};
  /** How many connections were made. */
  connections = 0;
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private silent = false;
  private pieces_until_cut = Number.POSITIVE_INFINITY;

  constructor(port: number, target_port: number) {
    this.port = port;
    this.target_port = target_port;
  }

  /** Forwards traffic, after `stop` again on the same port. */
  async start(): Promise<void> {
    this.silent = false;
    this.server = createServer((near) => this.join(near)).listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
  }

  /** Cuts all connections and rejects new ones. */
  async stop(): Promise<void> {
    if (!this.server!.listening) return;
    const closed = once(this.server!, 'close');
    this.server!.close();
    this.cut();
    await closed;
  }

  /** Forwards nothing, but closes no connection either and accepts new ones: like a network that has lost its route. */
  fallSilent(): void {
    this.silent = true;
    for (const socket of this.sockets) socket.pause();
  }

  /** Forwards the waiting bytes, and everything from now on. */
  speakAgain(): void {
    this.silent = false;
    for (const socket of this.sockets) socket.resume();
  }

  /** Cuts all connections, once, as soon as the server has sent so many more pieces; new ones are accepted. */
  cutAfter(pieces: number): void {
    this.pieces_until_cut = pieces;
  }

  private cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  private join(near: Socket): void {
    this.connections++;
    const far = connect(this.target_port, '127.0.0.1');
    near.on('data', (bytes) => this.onBytes(bytes, 'client'));
    far.on('data', (bytes) => this.onBytes(bytes, 'server'));
    this.link(near, far);
    this.link(far, near);
    far.on('data', () => {
      if (--this.pieces_until_cut > 0) return;
      this.pieces_until_cut = Number.POSITIVE_INFINITY;
      this.cut();
    });
    if (this.silent) for (const socket of [near, far]) socket.pause();
  }

  private link(from: Socket, to: Socket): void {
    this.sockets.add(from);
    let on_the_way: Promise<void> | undefined;
    const carry = async (bytes: Buffer, before: Promise<void> | undefined) => {
      await delay(this.delay_ms, undefined, { ref: false });
      await before;
      to.write(bytes);
    };
    from.on('data', (bytes) => {
      if (this.delay_ms === 0 && on_the_way === undefined) {
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
      this.sockets.delete(from);
      to.destroy();
    });
  }
}

/** Starts a relay on a port that no other process gets while it is stopped. */
export async function startRelay(target_port: number): Promise<TcpRelay> {
  const relay = new TcpRelay(await freePort(), target_port);
  await relay.start();
  return relay;
}
