import { AsyncLocalStorage } from 'node:async_hooks';
import { isIP, Socket } from 'node:net';

interface Confined {
  readonly ports: ReadonlySet<number>;
  onRefused(destination: string, stage: string | undefined): void;
  isClosed(port: number): boolean;
  readonly stage: string | undefined;
}

const confined = new AsyncLocalStorage<Confined>();
let installed = false;

type Connect = (this: Socket, ...args: readonly unknown[]) => Socket;

/** Host and port in the arguments of `Socket.connect`; `undefined` for a local path. */
function destinationOf(args: readonly unknown[]): { host: string; port: number } | undefined {
  // Node's own callers pass the normalized arguments as one array.
  const [first, second] = Array.isArray(args[0]) ? args[0] : args;
  if (typeof first === 'object' && first !== null) {
    const { host, port, path } = first as { host?: string; port?: number | string; path?: string };
    return path !== undefined && port === undefined
      ? undefined
      : { host: host ?? 'localhost', port: Number(port ?? 0) };
  }
  if (Number.isNaN(Number(first))) return undefined;
  return { host: typeof second === 'string' ? second : 'localhost', port: Number(first) };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Fails a socket like a refused connection, after it was `connecting`. */
function refuse(socket: Socket, what: string): Socket {
  const error = Object.assign(new Error(`connect ECONNREFUSED ${what}`), { code: 'ECONNREFUSED' });
  Object.assign(socket, { connecting: true });
  setImmediate(() => socket.destroy(error));
  return socket;
}

function install(): void {
  if (installed) return;
  installed = true;
  const connect = Socket.prototype.connect as Connect;
  Socket.prototype.connect = function (this: Socket, ...args: readonly unknown[]) {
    const current = confined.getStore();
    const to = current && destinationOf(args);
    if (current === undefined || to === undefined) return connect.apply(this, args as never);
    const shown = `${to.host}:${to.port}`;
    if (!isLoopback(to.host) || !current.ports.has(to.port)) {
      current.onRefused(shown, current.stage);
      return refuse(this, `${shown}: tests have no network`);
    }
    return current.isClosed(to.port) ? refuse(this, shown) : connect.apply(this, args as never);
  } as typeof Socket.prototype.connect;
}

/** Blocks connections of stages except to allowed loopback ports: ECONNREFUSED, as for one that `isClosed`, and `onRefused`. */
export function createConfinement({ onRefused, isClosed }: Pick<Confined, 'onRefused' | 'isClosed'>) {
  install();
  const ports = new Set<number>();
  return {
    allow: (port: number) => void ports.add(port),
    run: <T>(stage: string, task: () => T): T => confined.run({ ports, onRefused, isClosed, stage }, task),
  };
}

export type Confinement = ReturnType<typeof createConfinement>;
