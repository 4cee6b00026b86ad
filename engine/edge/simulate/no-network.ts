import { AsyncLocalStorage } from 'node:async_hooks';
import { isIP, Socket } from 'node:net';

/** Who runs now, as far as connections are concerned. */
interface Confined {
  /** Ports of the loopback address that may be reached. */
  readonly ports: ReadonlySet<number>;
  onRefused(destination: string, stage: string | undefined): void;
  /** Whether a port that may be reached takes no connection now. */
  isClosed(port: number): boolean;
  readonly stage: string | undefined;
}

const confined = new AsyncLocalStorage<Confined>();
let installed = false;

type Connect = (this: Socket, ...given: readonly unknown[]) => Socket;

/** Host and port that a socket is told to connect to, in any of the ways Node takes them; `undefined` for a local path. */
function destinationOf(given: readonly unknown[]): { host: string; port: number } | undefined {
  // Node's own callers hand over the normalised arguments as one array.
  const [first, second] = Array.isArray(given[0]) ? given[0] : given;
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

/** Fails as a socket does that gets no connection: its owner has seen it connecting. */
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
  Socket.prototype.connect = function (this: Socket, ...given: readonly unknown[]) {
    const current = confined.getStore();
    const to = current && destinationOf(given);
    if (current === undefined || to === undefined) return connect.apply(this, given as never);
    const shown = `${to.host}:${to.port}`;
    if (!isLoopback(to.host) || !current.ports.has(to.port)) {
      current.onRefused(shown, current.stage);
      return refuse(this, `${shown}: tests have no network`);
    }
    return current.isClosed(to.port) ? refuse(this, shown) : connect.apply(this, given as never);
  } as typeof Socket.prototype.connect;
}

/** Keeps what runs below from opening connections, except to a few ports of the loopback address. */
export interface Confinement {
  /** Allows connections to a port of the loopback address, on which the test itself listens. */
  allow(port: number): void;
  /** Runs a task, and whatever it starts, in the name of a stage. */
  run<T>(stage: string, task: () => T): T;
}

/**
 * Creates a confinement. `onRefused` is told of every connection that leads elsewhere; the caller of it gets ECONNREFUSED, as
 * for a port that `isClosed`.
 */
export function createConfinement({ onRefused, isClosed }: Pick<Confined, 'onRefused' | 'isClosed'>): Confinement {
  install();
  const ports = new Set<number>();
  return {
    allow: (port) => void ports.add(port),
    run: (stage, task) => confined.run({ ports, onRefused, isClosed, stage }, task),
  };
}
